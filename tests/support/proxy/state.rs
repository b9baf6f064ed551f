//! The state of the proxy: its connections, the bytes that wait in them, and its rules.
//!
//! The whole state is in one `watch` channel. The pumps and the tests change it and wait for changes of it, so a test
//! sees every change and misses none.

use std::collections::{BTreeMap, VecDeque};
use std::ops::{Index, IndexMut};
use std::time::Duration;
use tokio::time::Instant;

/// The direction of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Requests.
    ToServer,
    /// Responses, and the messages of a subscription.
    ToClient,
}

/// The way in which a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Orderly: the peer reads an end of file.
    Fin,
    /// Abruptly: the peer gets "connection reset".
    Reset,
}

/// The effect of a rule on the chunk that it matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Ends the connection on both sides instead of forwarding the chunk. A request is cut before the server has it. A
    /// response is cut after the server executed the request.
    CutInstead(Cut),
    /// Forwards the request. Ends the connection on both sides when the first bytes of the response arrive, which the
    /// client does not get.
    CutAtAnswer(Cut),
    /// Forwards the request, and ends the connection on the client's side immediately. The server gets the request and
    /// then the end of the connection.
    CutClientAfter(Cut),
    /// Holds back the chunk and everything after it on this connection, until [`release`](super::Proxy::release) or a
    /// cut.
    Hold,
    /// Forwards the chunk this much later, and everything after it not before it.
    Delay(Duration),
    /// Loses the chunk. This is for pub/sub messages. A lost request or response leaves a stream in which all later
    /// responses belong to the wrong request.
    Lose,
    /// Forwards the chunk and keeps a copy.
    Record,
    /// First executes the request on a separate connection, and then forwards it. The client gets the second response.
    /// The server must not require a password.
    Twice,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Pass,
    Hold,
    Lose,
}

#[derive(Debug)]
pub(super) struct Rule {
    pub direction: Direction,
    pub needle: Vec<u8>,
    pub action: Action,
    pub once: bool,
}

/// An item to deliver, not before `due`. If there are no bytes, it is the end of the stream.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub due: Instant,
    pub bytes: Vec<u8>,
}

/// A value for each of two directions or sides.
#[derive(Debug, Default)]
pub(super) struct Both<T>([T; 2]);

/// One client's connection and its counterpart to the server.
#[derive(Debug, Default)]
pub(super) struct Link {
    pub queues: Both<VecDeque<Item>>,
    pub held: Both<bool>,
    pub cut: Both<Option<Cut>>,
    /// The halves of the socket that are in use. A side is closed when both are gone.
    pub reading: Both<bool>,
    pub writing: Both<bool>,
    /// Whether nothing is forwarded any more, not even the end of the stream.
    pub frozen: bool,
    cut_at_answer: Option<Cut>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub links: BTreeMap<u64, Link>,
    pub modes: Both<Mode>,
    pub delays: Both<Duration>,
    pub rules: Vec<Rule>,
    pub recorded: Vec<Vec<u8>>,
    pub accepted: u64,
    pub hits: u64,
    pub refusing: bool,
    pub listening: bool,
    pub stopped: bool,
}

impl State {
    /// The oldest rule that matches. A rule for one chunk is used up then.
    pub fn rule_for(&mut self, direction: Direction, chunk: &[u8]) -> Option<Action> {
        let fits = |rule: &Rule| rule.direction == direction && contains(chunk, &rule.needle);
        let index = self.rules.iter().position(fits)?;
        self.hits += 1;
        let action = self.rules[index].action;
        if self.rules[index].once {
            self.rules.remove(index);
        }
        Some(action)
    }

    /// Handles a chunk without a rule for it, or the end of the stream (no bytes).
    pub fn arrived(&mut self, id: u64, direction: Direction, chunk: &[u8], action: Option<Action>) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        if link.frozen {
            return;
        }
        let both = [Side::Client, Side::Server];
        if direction == Direction::ToClient
            && let Some(how) = link.cut_at_answer.take()
        {
            return link.cut(&both, how);
        }
        let mut due = Instant::now() + self.delays[direction];
        match action {
            Some(Action::CutInstead(how)) => return link.cut(&both, how),
            Some(Action::Lose) => return,
            Some(Action::Delay(by)) => due = Instant::now() + by,
            Some(Action::Record) => self.recorded.push(chunk.to_vec()),
            Some(Action::Hold) => link.held[direction] = true,
            Some(Action::CutAtAnswer(how)) => link.cut_at_answer = Some(how),
            Some(Action::CutClientAfter(_) | Action::Twice) | None => {}
        }
        match self.modes[direction] {
            Mode::Lose => return,
            Mode::Hold => link.held[direction] = true,
            Mode::Pass => {}
        }
        let bytes = chunk.to_vec();
        link.queues[direction].push_back(Item { due, bytes });
        if let Some(Action::CutClientAfter(how)) = action {
            link.cut(&[Side::Client], how);
        }
    }

    /// The time at which the next item of a link may be delivered, if there is one and it is not held.
    pub fn due(&self, id: u64, direction: Direction) -> Option<Instant> {
        let link = self.links.get(&id)?;
        let head = link.queues[direction].front()?;
        (!link.held[direction]).then_some(head.due)
    }

    /// Returns whether bytes that contain `needle` wait in one link.
    pub fn holds(&self, direction: Direction, needle: &[u8]) -> bool {
        self.links.values().any(|link| {
            let waiting = link.queues[direction].iter();
            let bytes: Vec<u8> = waiting.flat_map(|item| item.bytes.clone()).collect();
            link.held[direction] && contains(&bytes, needle)
        })
    }
}

impl Link {
    pub fn new() -> Link {
        Link {
            reading: Both([true; 2]),
            writing: Both([true; 2]),
            ..Link::default()
        }
    }

    pub fn freeze(&mut self) {
        self.frozen = true;
        self.queues = Both::default();
    }

    pub fn cut(&mut self, sides: &[Side], how: Cut) {
        for &side in sides {
            self.cut[side].get_or_insert(how);
        }
    }

    /// Returns whether every side that was cut has been closed.
    pub fn cuts_are_done(&self) -> bool {
        [Side::Client, Side::Server]
            .into_iter()
            .all(|side| self.cut[side].is_none() || !(self.reading[side] || self.writing[side]))
    }
}

fn contains(bytes: &[u8], needle: &[u8]) -> bool {
    needle.is_empty() || bytes.windows(needle.len()).any(|window| window == needle)
}

impl Direction {
    pub(super) fn from(self) -> Side {
        match self {
            Direction::ToServer => Side::Client,
            Direction::ToClient => Side::Server,
        }
    }

    pub(super) fn to(self) -> Side {
        match self {
            Direction::ToServer => Side::Server,
            Direction::ToClient => Side::Client,
        }
    }
}

impl<T> Index<Direction> for Both<T> {
    type Output = T;

    fn index(&self, direction: Direction) -> &T {
        &self.0[direction as usize]
    }
}

impl<T> IndexMut<Direction> for Both<T> {
    fn index_mut(&mut self, direction: Direction) -> &mut T {
        &mut self.0[direction as usize]
    }
}

impl<T> Index<Side> for Both<T> {
    type Output = T;

    fn index(&self, side: Side) -> &T {
        &self.0[side as usize]
    }
}

impl<T> IndexMut<Side> for Both<T> {
    fn index_mut(&mut self, side: Side) -> &mut T {
        &mut self.0[side as usize]
    }
}

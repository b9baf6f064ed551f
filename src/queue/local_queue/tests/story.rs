//! The language of the tables. A story begins with an empty queue and ends with one. Each row of it is an event, and
//! the actions that follow as a text: `acquire A`, `release A`, `grant A`.
//!
//! Waiters and holds are letters. Each has a TTL of 30 s unless it says otherwise, and a heartbeat of 1 s.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::base::id::HoldId;
use crate::base::option_types::Mode;
use crate::base::options::Queueing;
use crate::queue::grant::Grant;
use crate::queue::local_queue::LocalQueue;
use crate::queue::step::{Action, Ask, Input, Refusal};
use crate::store::{AcquireRequest, StoreTime};

pub(super) const A: char = 'A';
pub(super) const B: char = 'B';
pub(super) const C: char = 'C';
pub(super) const D: char = 'D';
pub(super) const E: char = 'E';

/// A time in milliseconds, as all times of a story.
pub(super) const TTL: u64 = 30_000;
const HEARTBEAT: u64 = 1_000;
/// The lease of a lock that moves to a waiter.
pub(super) const GRANT: u64 = 2 * HEARTBEAT;

pub(super) const NOTIFY: Queueing = Queueing {
    heartbeat: millis(HEARTBEAT),
    turns: 16,
    report_after: Duration::MAX,
    outage: None,
};
/// The queueing that is strictly in the order of the store's queue.
pub(super) const STRICT: Queueing = Queueing { turns: 0, ..NOTIFY };

pub(super) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) fn hold(letter: char) -> HoldId {
    let text = format!("4f0e1d2c-0000-4000-8000-000000000000:{}", u32::from(letter));
    text.parse().unwrap()
}

pub(super) fn letter(hold: HoldId) -> char {
    u32::try_from(hold.number())
        .ok()
        .and_then(char::from_u32)
        .unwrap()
}

/// The event as an input of the machine, if it is one.
pub(super) type Event = Box<dyn FnOnce(&mut Story) -> Option<Input>>;

/// The machine, and the state that a shell around it would keep.
#[must_use = "a story has an end"]
pub(super) struct Story {
    pub(super) name: String,
    pub(super) queue: LocalQueue,
    pub(super) began: Instant,
    pub(super) now: Instant,
    pub(super) epoch: u64,
    /// The instant at which the request in flight was sent, and the epoch at that instant.
    pub(super) flight: Option<(Instant, u64)>,
    /// The readers for which the last request was made.
    pub(super) asked: Vec<char>,
    pub(super) requests: HashMap<char, AcquireRequest>,
    pub(super) grants: HashMap<char, Grant>,
}

impl Story {
    pub(super) fn of(queueing: Queueing) -> Self {
        let now = Instant::now();
        Self {
            name: String::new(),
            queue: LocalQueue::new(queueing),
            began: now,
            now,
            epoch: 1,
            flight: None,
            asked: Vec::new(),
            requests: HashMap::new(),
            grants: HashMap::new(),
        }
    }

    /// The name of one of many stories.
    pub(super) fn named(self, name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..self
        }
    }

    /// The rows of the table.
    pub(super) fn goes<'t>(mut self, rows: impl IntoIterator<Item = (Event, &'t str)>) -> Self {
        for (row, (event, expected)) in rows.into_iter().enumerate() {
            let input = event(&mut self);
            let place = format!("{}, row {}: {input:?}", self.name, row + 1);
            let actions = input.map_or(String::new(), |input| self.step(input));
            assert_eq!(actions, expected, "{place}");
        }
        self
    }

    /// Nothing is left.
    pub(super) fn ends(self) {
        let Self { name, queue, .. } = self;
        assert!(queue.is_over() && !queue.is_active(), "{name}: {queue:?}");
        assert_eq!((queue.len(), queue.due()), (0, None), "{name}");
    }

    pub(super) fn grant_of(&self, waiter: char) -> Grant {
        self.grants[&waiter]
    }

    /// The instant that is this long after the story began.
    pub(super) fn at(&self, after: u64) -> Instant {
        self.began + millis(after)
    }

    fn step(&mut self, input: Input) -> String {
        if matches!(input, Input::Answered(_)) {
            assert!(self.flight.take().is_some(), "{}: not in flight", self.name);
        }
        let mut actions = Vec::new();
        self.queue.step(input, self.now, &mut actions);
        let texts: Vec<_> = actions
            .into_iter()
            .map(|action| self.perform(action))
            .collect();
        texts.join("; ")
    }

    /// The text of an action. The parts of the action that the text omits are checked here.
    fn perform(&mut self, action: Action) -> String {
        match action {
            Action::Ask(Ask::Acquire(request)) => {
                let waiter = letter(request.hold);
                assert_eq!(Some(&request), self.requests.get(&waiter));
                self.fly();
                format!("acquire {waiter}")
            }
            Action::Ask(Ask::Share(request)) => {
                let asked: Vec<_> = request.holds.iter().copied().map(letter).collect();
                for waiter in &asked {
                    let AcquireRequest { ttl, entry, .. } = self.requests[waiter];
                    assert_eq!(
                        (request.ttl, request.entry.is_some()),
                        (ttl, entry.is_some())
                    );
                }
                let text = format!("share {}", asked.iter().collect::<String>());
                self.asked = asked;
                self.fly();
                text
            }
            Action::Undo(release) => {
                let tombstone = if release.unanswered {
                    " (tombstone)"
                } else {
                    ""
                };
                let verb = match release.mode {
                    Mode::Shared => "unshare",
                    _ => "release",
                };
                format!("{verb} {}{tombstone}", letter(release.hold))
            }
            Action::Grant(hold, grant) => {
                let waiter = letter(hold);
                assert_eq!(
                    (grant.hold, grant.lease.ttl),
                    (hold, self.requests[&waiter].ttl)
                );
                assert!(self.now < grant.lease.deadline);
                self.grants.insert(waiter, grant);
                let unanswered = if grant.unanswered {
                    " (unanswered)"
                } else {
                    ""
                };
                format!("grant {waiter}{unanswered}")
            }
            Action::Refuse(hold, refusal) => {
                let why = match refusal {
                    Refusal::Busy => "busy",
                    Refusal::Late(None) => "late",
                    Refusal::Late(Some(_)) => "late and failed",
                    Refusal::Failed(_) => "failed",
                    Refusal::PassedOver => "passed over",
                    Refusal::Closed => "closed",
                };
                format!("refuse {}: {why}", letter(hold))
            }
            Action::PassOver(hold) => format!("pass over {}", letter(hold)),
            Action::CheckSubscription => "check".to_owned(),
        }
    }

    fn fly(&mut self) {
        let flight = self.flight.replace((self.now, self.epoch));
        assert_eq!(flight, None, "{}: two requests in flight", self.name);
    }

    /// The clock of the store.
    pub(super) fn store_time(&self) -> StoreTime {
        let passed = self.now - self.began;
        let micros = 1_700_000_000_000_000 + u64::try_from(passed.as_micros()).unwrap();
        StoreTime { micros }
    }

    pub(super) fn due_in(&self) -> Option<Duration> {
        self.queue
            .due()
            .map(|due| due.saturating_duration_since(self.now))
    }
}

//! A local queue with many waiters. An event of one waiter requires no walk over the others. If each event required
//! one, these tests would take minutes.

use std::sync::Arc;

use tokio::time::Instant;

use super::events::wish;
use super::story::*;
use crate::base::error::{Effect, StoreError};
use crate::base::id::{FencingToken, HoldId, Owner};
use crate::base::option_types::Mode;
use crate::queue::local_queue::LocalQueue;
use crate::queue::step::{Action, Answer, Input, Reply};
use crate::store::{AcquireRequest, HandoffMessage, StoreTime};

const MANY: usize = 50_000;

/// The machine and many waiters, in the order in which they joined, behind a holder that has entered.
struct Line {
    queue: LocalQueue,
    now: Instant,
    holder: HoldId,
    waiters: Vec<HoldId>,
}

impl Line {
    fn new() -> Self {
        let holder = Owner::new().next_hold();
        let mut line = Self {
            queue: LocalQueue::held(NOTIFY, (holder, Mode::Exclusive), 0, false),
            now: Instant::now(),
            holder,
            waiters: (0..MANY).map(|_| Owner::new().next_hold()).collect(),
        };
        line.queue
            .step(Input::Listening(true), line.now, &mut Vec::new());
        for at in 0..MANY {
            let actions = line.join(line.waiters[at], Mode::Exclusive, false);
            assert!(actions.is_empty());
        }
        line
    }

    fn step(&mut self, input: Input) -> Vec<Action> {
        let mut actions = Vec::new();
        self.queue.step(input, self.now, &mut actions);
        actions
    }

    fn join(&mut self, hold: HoldId, mode: Mode, asks_once: bool) -> Vec<Action> {
        let request = AcquireRequest {
            hold,
            ttl: millis(TTL),
            entry: None,
        };
        self.step(Input::Join(wish(request, mode, asks_once, true)))
    }

    fn ends(&self) {
        assert!(self.queue.adds_up());
        assert!(!self.queue.is_active());
    }
}

#[test]
fn many_have_their_turns_in_memory() {
    let mut line = Line::new();
    for waiter in line.waiters.clone() {
        assert_eq!(line.queue.heir(millis(TTL), false), Some(waiter));
        let hand_off = Input::HandOff {
            hold: line.holder,
            waiter,
            until: line.now + millis(TTL),
        };
        assert!(line.step(hand_off).is_empty());
        let hold = line.holder;
        assert!(line.step(Input::Entered { waiter, hold }).is_empty());
        assert!(line.queue.is_held_by(hold));
    }
    line.ends();
}

#[test]
fn many_leave_in_any_order() {
    let mut line = Line::new();
    let mut leaving = line.waiters.clone();
    fastrand::Rng::with_seed(7).shuffle(&mut leaving);
    for waiter in leaving {
        // The waiter that is first now may send a request.
        line.step(Input::Leave(waiter));
        if line.queue.flight.is_some() {
            let error = StoreError::new("acquire", &Arc::from("nowhere"), Effect::None, "fails");
            let answer = Answer {
                sent: line.now,
                sent_epoch: 1,
                epoch: 1,
                reply: Reply::Unanswered(error),
            };
            line.step(Input::Answered(answer));
        }
    }
    line.ends();
}

#[test]
fn many_who_ask_once_are_turned_away_by_a_long_line() {
    let mut line = Line::new();
    for _ in 0..MANY {
        let hold = Owner::new().next_hold();
        let actions = line.join(hold, Mode::Exclusive, true);
        assert!(matches!(actions[..], [Action::Refuse(refused, _)] if refused == hold));
    }
    assert_eq!(line.queue.len(), MANY);
    assert!(line.queue.adds_up());
}

#[test]
fn many_messages_for_others_reach_a_long_line() {
    let mut line = Line::new();
    for number in 0..MANY {
        let message = HandoffMessage {
            key: String::new(),
            holds: vec![Owner::new().next_hold()],
            token: FencingToken(number as u64),
            at: StoreTime { micros: 1 },
            lease: millis(GRANT),
        };
        assert!(line.step(Input::Handoff { message, epoch: 1 }).is_empty());
    }
    assert_eq!(line.queue.len(), MANY);
}

#[test]
fn many_readers_are_inside_together() {
    let mut line = Line::new();
    let writers = std::mem::take(&mut line.waiters);
    for writer in writers {
        line.step(Input::Leave(writer));
    }
    line.step(Input::Lost(line.holder));
    let until = line.now + millis(TTL);
    let readers: Vec<_> = (0..MANY).map(|_| Owner::new().next_hold()).collect();
    for hold in &readers {
        line.queue.holders.add(*hold, Mode::Shared, Some(until));
    }
    for hold in readers {
        let waiter = hold;
        line.step(Input::Entered { waiter, hold });
        line.step(Input::MaybeFree);
        assert!(line.queue.is_held_by(hold));
        line.step(Input::Lost(hold));
    }
    assert!(line.queue.is_over());
}

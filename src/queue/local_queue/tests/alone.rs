//! A local queue that is created when a second caller joins is in the state that it would have if it had existed from
//! the start.

use super::events::*;
use super::story::*;
use crate::base::option_types::Mode;
use crate::queue::local_queue::LocalQueue;
use crate::queue::waiter::Waiter;

#[test]
fn where_one_caller_asks() {
    for queueing in [NOTIFY, STRICT] {
        let story = Story::of(queueing).goes([(join(A), "acquire A")]);
        let waiter = Waiter::new(wish(story.requests[&A], Mode::Exclusive, false, false));
        let late = LocalQueue::asking(queueing, waiter);
        assert_eq!(story.queue, late);
        let story = Story::of(queueing).goes([(ask_once(A), "acquire A")]);
        let waiter = Waiter::new(wish(story.requests[&A], Mode::Exclusive, true, false));
        let late = LocalQueue::asking(queueing, waiter);
        assert_eq!(story.queue, late);
    }
}

#[test]
fn where_a_hold_has_the_lock() {
    for queueing in [NOTIFY, STRICT] {
        let story = Story::of(queueing).held_by(A);
        let holder = (hold(A), Mode::Exclusive);
        assert_eq!(story.queue.held_alone(), Some((holder, 0, true)));
        assert_eq!(story.queue, LocalQueue::held(queueing, holder, 0, true));
    }
}

#[test]
fn where_the_lock_went_from_one_to_the_next() {
    let story = Story::of(NOTIFY).held_by(A).goes([
        (join_heir(B, TTL), ""),
        (hand_off(A, B), ""),
        (enter_turn(B, A), ""),
    ]);
    let holder = (hold(A), Mode::Exclusive);
    assert_eq!(story.queue.held_alone(), Some((holder, 1, true)));
    assert_eq!(story.queue, LocalQueue::held(NOTIFY, holder, 1, true));
}

//! The times at which the first waiter sends a request, if no event causes one.

use super::events::*;
use super::story::*;
use crate::base::option_types::Wake;
use crate::base::options::Queueing;

const fn poll(interval: u64, attempts: Option<u32>) -> Queueing {
    let interval = millis(interval);
    Queueing {
        wake: Wake::Poll { interval, attempts },
        ..NOTIFY
    }
}

/// A has sent a request, and another process holds the lock.
fn a_waits(queueing: Queueing) -> Story {
    Story::of(queueing).goes([
        (listens(queueing.wake == Wake::Notify), ""),
        (join(A), "acquire A"),
        (busy(), ""),
    ])
}

#[test]
fn a_waiter_that_listens_asks_once_in_a_heartbeat() {
    a_waits(NOTIFY)
        .goes([
            (early(999), ""),
            (due(1), "acquire A"),
            (never_due(), ""),
            (busy(), ""),
            (due(1_000), "acquire A"),
            (busy(), ""),
            // A message should have arrived before.
            (due(1_000), "acquire A"),
            (held(), "check; grant A"),
        ])
        .released_by(A);
}

#[test]
fn the_subscription_is_checked_only_if_a_message_should_have_come() {
    a_waits(NOTIFY)
        .goes([(free(), "acquire A"), (held(), "grant A")])
        .released_by(A);
    for queueing in [BACKOFF, poll(1_000, None)] {
        a_waits(queueing)
            .goes([(due_within(10..=1_000), "acquire A"), (held(), "grant A")])
            .released_by(A);
    }
    // The message arrived.
    a_waits(NOTIFY)
        .goes([
            (due(1_000), "acquire A"),
            (message(A), ""),
            (held(), "grant A"),
        ])
        .released_by(A);
    // No lock moves when its lease expires.
    Story::of(NOTIFY)
        .goes([
            (listens(true), ""),
            (join(A), "acquire A"),
            (busy_for(300), ""),
            (due(301), "acquire A"),
            (held(), "grant A"),
        ])
        .released_by(A);
}

/// The bounds of the pauses: half of each may be jitter.
const PAUSES: [(u64, u64); 8] = [
    (10, 20),
    (15, 30),
    (22, 45),
    (33, 68),
    (50, 100),
    (50, 100),
    (50, 100),
    (50, 100),
];

#[test]
fn a_waiter_that_is_told_nothing_asks_after_pauses_that_grow() {
    for queueing in [NOTIFY, BACKOFF] {
        let asked = Story::of(queueing).goes([(join(A), "acquire A"), (busy(), "")]);
        let story = PAUSES.into_iter().fold(asked, |story, (least, most)| {
            story.goes([(due_within(least..=most), "acquire A"), (busy(), "")])
        });
        // The pauses of the next waiter begin with the shortest again.
        story
            .goes([
                (join(B), ""),
                (leave(A), "release A to B"),
                (busy(), "acquire B"),
                (busy(), ""),
                (due_within(10..=20), "acquire B"),
                (refused(), "release B; refuse B: failed"),
                (free(), ""),
            ])
            .ends();
    }
}

#[test]
fn pauses_end_with_the_heartbeat() {
    Story::of(BACKOFF)
        .goes([
            (join_with(A, 36), "acquire A"),
            (busy(), ""),
            (due_within(10..=12), "acquire A"),
            (busy(), ""),
            (due(12), "acquire A"),
            (busy(), ""),
            (leave(A), "release A"),
            (free(), ""),
        ])
        .ends();
}

#[test]
fn while_the_store_fails_a_waiter_that_listens_pauses_as_well() {
    a_waits(NOTIFY)
        .goes([
            (due(1_000), "acquire A"),
            (failed(), ""),
            (due_within(10..=20), "acquire A"),
            (unanswered(), ""),
            (due_within(15..=30), "acquire A"),
            (failed(), ""),
            (due_within(22..=45), "acquire A"),
            (busy(), ""),
            (due(1_000), "acquire A"),
            (failed(), ""),
            (due_within(10..=20), "acquire A"),
            (failed(), ""),
            (free(), "acquire A"),
            (held(), "grant A (unanswered)"),
        ])
        .released_by(A);
}

#[test]
fn a_waiter_asks_sooner_when_messages_come_no_more() {
    a_waits(NOTIFY)
        .goes([
            (listens(true), ""),
            (early(300), ""),
            (listens(false), ""),
            (due_within(10..=20), "acquire A"),
            (busy(), ""),
            (due_within(15..=30), "acquire A"),
            (busy(), ""),
            (listens(true), ""),
            (due(1_000), "acquire A"),
            // This has no effect while a request is in flight.
            (listens(false), ""),
            (never_due(), ""),
            (listens(true), ""),
            (busy(), ""),
            (due(1_000), "acquire A"),
            (leave(A), ""),
            (busy(), "release A"),
            (free(), ""),
        ])
        .ends();
}

#[test]
fn a_waiter_asks_when_the_lease_ends_that_the_store_told_of() {
    for (queueing, remaining) in [(NOTIFY, 300), (BACKOFF, 5), (poll(700, None), 300)] {
        Story::of(queueing)
            .goes([
                (listens(queueing.wake == Wake::Notify), ""),
                (join(A), "acquire A"),
                (busy_for(remaining), ""),
                (early(remaining), ""),
                (due(1), "acquire A"),
                // The lease was renewed. The previous reply of the store no longer counts.
                (busy_for(TTL), ""),
                (due_within(10..=1_000), "acquire A"),
                (busy_for(1_500), ""),
                (due_within(10..=1_000), "acquire A"),
                (leave(A), ""),
                (busy(), "release A"),
                (free(), ""),
            ])
            .ends();
    }
    // The reply to the request before the last one does not count.
    a_waits(BACKOFF)
        .goes([
            (due_within(10..=20), "acquire A"),
            (busy_for(5), ""),
            (due(6), "acquire A"),
            (failed(), ""),
            (due_within(22..=45), "acquire A"),
            (held(), "grant A"),
        ])
        .released_by(A);
    // Messages can no longer arrive, and the lease ends too.
    Story::of(NOTIFY)
        .goes([
            (listens(true), ""),
            (join(A), "acquire A"),
            (busy_for(300), ""),
            (after(295, listens(false)), ""),
            (due(6), "acquire A"),
            (leave(A), ""),
            (refused(), "release A"),
            (free(), ""),
        ])
        .ends();
}

#[test]
fn a_waiter_that_polls_asks_in_fixed_intervals() {
    a_waits(poll(700, None))
        .goes([
            (due(700), "acquire A"),
            (busy(), ""),
            (due(700), "acquire A"),
            (unanswered(), ""),
            (due(700), "acquire A"),
            (held(), "grant A (unanswered)"),
        ])
        .released_by(A);
    // This is also true behind a holder of its own process.
    Story::of(poll(700, None))
        .held_by(A)
        .goes([
            (join(B), "acquire B"),
            (busy(), ""),
            (due(700), "acquire B"),
            (busy(), ""),
            (release(A), "release A to B"),
            (held(), "grant B"),
        ])
        .released_by(B);
}

#[test]
fn a_waiter_without_a_place_in_the_queue_is_no_successor() {
    Story::of(poll(5_000, None))
        .held_by(A)
        .goes([
            (join_outside(B), "acquire B"),
            (busy(), ""),
            (release(A), "release A"),
            (free(), "acquire B"),
            (busy(), ""),
            (due(5_000), "acquire B"),
            (busy(), ""),
            // The store knows nothing of the waiter.
            (leave(B), ""),
        ])
        .ends();
}

#[test]
fn a_waiter_that_has_asked_as_often_as_it_may_is_too_late() {
    let lasts = [
        ("busy", busy(), "release A; refuse A: late"),
        (
            "not executed",
            failed(),
            "release A; refuse A: late and failed",
        ),
        (
            "no answer",
            unanswered(),
            "release A (tombstone); refuse A: late and failed",
        ),
        ("refused", refused(), "release A; refuse A: failed"),
    ];
    for (name, last, done) in lasts {
        a_waits(poll(700, Some(2)))
            .named(name)
            .goes([(due(700), "acquire A"), (last, done), (free(), "")])
            .ends();
    }
    a_waits(poll(700, Some(2)))
        .goes([(due(700), "acquire A"), (held(), "grant A")])
        .released_by(A);
    // Each waiter counts for itself. A waiter that is named has not sent a request.
    Story::of(poll(700, Some(1)))
        .goes([
            (join(A), "acquire A"),
            (join(B), ""),
            (busy(), "release A to B; refuse A: late"),
            (busy(), "acquire B"),
            (busy(), "release B; refuse B: late"),
            (free(), ""),
        ])
        .ends();
}

#[test]
fn the_next_waiter_may_have_a_shorter_heartbeat() {
    Story::of(NOTIFY)
        .held_by(A)
        .goes([
            (join(B), ""),
            (join_with(C, 300), ""),
            (early(500), ""),
            (leave(B), ""),
            (due(100), "acquire C"),
            (busy(), ""),
            (due(100), "acquire C"),
            (busy(), ""),
            (leave(C), "release C"),
            (free(), ""),
        ])
        .released_by(A);
    // A longer heartbeat does not delay what was due.
    Story::of(NOTIFY)
        .held_by(A)
        .goes([
            (join_with(B, 300), ""),
            (join(C), ""),
            (after(50, leave(B)), ""),
            (due(50), "acquire C"),
            (busy(), ""),
            (due(1_000), "acquire C"),
            (busy(), ""),
            (leave(C), "release C"),
            (free(), ""),
        ])
        .released_by(A);
}

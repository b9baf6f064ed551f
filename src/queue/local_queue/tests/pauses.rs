//! The times at which the first waiter sends a request, if no event causes one.

use super::events::*;
use super::story::*;

/// A has sent a request, and another process holds the lock.
fn a_waits() -> Story {
    Story::of(NOTIFY).goes([(join(A), "acquire A"), (busy(), "")])
}

/// The same, and messages can arrive.
fn a_listens() -> Story {
    Story::of(NOTIFY).goes([(listens(true), ""), (join(A), "acquire A"), (busy(), "")])
}

#[test]
fn a_waiter_that_listens_asks_once_in_a_heartbeat() {
    a_listens()
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
    a_listens()
        .goes([(free(), "acquire A"), (held(), "grant A")])
        .released_by(A);
    a_waits()
        .goes([(due_within(10..=1_000), "acquire A"), (held(), "grant A")])
        .released_by(A);
    // The message arrived.
    a_listens()
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
    let story = PAUSES.into_iter().fold(a_waits(), |story, (least, most)| {
        story.goes([(due_within(least..=most), "acquire A"), (busy(), "")])
    });
    // The pauses of the next waiter begin with the shortest again.
    story
        .goes([
            (join(B), ""),
            (leave(A), "release A; acquire B"),
            (busy(), ""),
            (due_within(10..=20), "acquire B"),
            (refused(), "release B; refuse B: failed"),
            (free(), ""),
        ])
        .ends();
}

#[test]
fn pauses_end_with_the_heartbeat() {
    Story::of(NOTIFY)
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
    a_listens()
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
    a_listens()
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
    for (has_messages, remaining) in [(true, 300), (false, 5)] {
        Story::of(NOTIFY)
            .goes([
                (listens(has_messages), ""),
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
    a_waits()
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

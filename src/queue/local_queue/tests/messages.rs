//! The message that the lock has moved arrives before an answer, after it, or instead of it.

use super::events::*;
use super::story::*;
use crate::base::time::deadline;

/// A waits while messages can arrive, and is in the store's queue.
fn a_is_queued() -> Story {
    Story::of(NOTIFY).goes([(listens(true), ""), (join(A), "acquire A"), (busy(), "")])
}

#[test]
fn the_lease_of_a_lock_that_moves_counts_from_the_move() {
    // The message travels for 200 ms. The margin of 1 % allows for clocks that differ in rate.
    let story = a_is_queued().goes([(after(500, message_after(200, A)), "grant A")]);
    let grant = story.grant_of(A);
    assert_eq!(grant.lease.confirmed, story.at(495));
    let deadline = deadline(
        grant.lease.confirmed,
        millis(GRANT),
        crate::base::time::Grace::NONE,
    );
    assert_eq!(grant.lease.deadline, deadline);
    story.released_by(A);
}

#[test]
fn a_message_that_comes_before_the_first_answer_is_read_after_it() {
    for answer in [busy(), held()] {
        Story::of(NOTIFY)
            .goes([
                (join(A), "acquire A"),
                (message(A), ""),
                (answer, "grant A"),
            ])
            .released_by(A);
    }
    // Without an answer there is no clock with which to evaluate the message.
    Story::of(NOTIFY)
        .goes([
            (join(A), "acquire A"),
            (message(A), ""),
            (unanswered(), "acquire A"),
            (held(), "grant A (unanswered)"),
        ])
        .released_by(A);
    // The server's clock was set back in the meantime.
    Story::of(NOTIFY)
        .goes([
            (join(A), "acquire A"),
            (message(A), ""),
            (after(10, busy()), "acquire A"),
            (held(), "grant A"),
        ])
        .released_by(A);
}

#[test]
fn a_message_while_a_later_answer_is_awaited_is_read_after_it() {
    let answers = [
        ("busy", busy(), "grant A"),
        ("held", held(), "grant A"),
        ("no answer", unanswered(), "grant A (unanswered)"),
        ("not executed", failed(), "grant A"),
    ];
    for (name, answer, granted) in answers {
        a_is_queued()
            .named(name)
            .goes([(free(), "acquire A"), (message(A), ""), (answer, granted)])
            .released_by(A);
    }
    // A repetition of the request would be useless, and the waiter has the lock.
    a_is_queued()
        .goes([
            (free(), "acquire A"),
            (message(A), ""),
            (refused(), "release A; refuse A: failed"),
        ])
        .ends();
}

#[test]
fn a_message_that_cannot_be_read_is_a_reason_to_ask() {
    let messages = [
        ("its lease is over", message_after(GRANT, A)),
        ("another connection", message(A)),
    ];
    for (name, message) in messages {
        let story = a_is_queued().named(name);
        let story = match name {
            "another connection" => story.goes([(reconnect(), "")]),
            _ => story,
        };
        story
            .goes([(message, "acquire A"), (held(), "grant A")])
            .released_by(A);
    }
    // The connection changes while the waiter waits for an answer that does not arrive.
    a_is_queued()
        .goes([
            (due(1_000), "acquire A"),
            (reconnect(), ""),
            (message(A), ""),
            (unanswered(), "acquire A"),
            (held(), "grant A (unanswered)"),
        ])
        .released_by(A);
}

#[test]
fn a_message_to_a_hold_that_does_not_wait_is_of_no_use() {
    Story::of(NOTIFY)
        .held_by(A)
        .goes([(message(A), ""), (message(C), ""), (idle(), "")])
        .released_by(A);
    a_is_queued()
        .goes([
            (message(B), ""),
            (leave(A), "release A"),
            (message(A), ""),
            (free(), ""),
        ])
        .ends();
}

#[test]
fn a_message_to_a_waiter_that_has_left_is_undone_with_the_answer() {
    for (answer, undone) in [
        (busy(), "release A"),
        (held(), "release A"),
        (unanswered(), "release A (tombstone)"),
    ] {
        Story::of(NOTIFY)
            .goes([
                (join(A), "acquire A"),
                (leave(A), ""),
                (message(A), ""),
                (answer, undone),
                (free(), ""),
            ])
            .ends();
    }
}

#[test]
fn two_messages_bring_the_lock_once() {
    a_is_queued()
        .goes([(message(A), "grant A"), (message(A), "")])
        .released_by(A);
    a_is_queued()
        .goes([
            (free(), "acquire A"),
            (message(A), ""),
            (message(A), ""),
            (busy(), "grant A"),
            (message(A), ""),
        ])
        .released_by(A);
}

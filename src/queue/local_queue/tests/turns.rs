//! The lock passes from one caller to the next, through the store.

use super::events::*;
use super::story::*;

#[test]
fn a_free_lock_is_asked_for_granted_and_released() {
    Story::of(NOTIFY)
        .goes([
            (join(A), "acquire A"),
            (held(), "grant A"),
            (enter(A), ""),
            (idle(), ""),
            (never_due(), ""),
            (release(A), ""),
            (free(), ""),
        ])
        .ends();
}

#[test]
fn the_first_waiter_asks_right_behind_the_release() {
    Story::of(NOTIFY)
        .held_by(A)
        .goes([
            (join(B), ""),
            (join(C), ""),
            (release(A), "acquire B"),
            (held(), "grant B"),
            (enter(B), ""),
            (release(B), "acquire C"),
            (held(), "grant C"),
        ])
        .released_by(C);
}

#[test]
fn an_answer_after_the_lease_is_asked_again_and_needs_a_tombstone() {
    Story::of(NOTIFY)
        .goes([
            (join(A), "acquire A"),
            (held_too_late(), ""),
            (due_within(10..=20), "acquire A"),
            (held_too_late(), ""),
            (free(), "acquire A"),
            (held(), "grant A (unanswered)"),
        ])
        .released_by(A);
}

#[test]
fn no_second_request_follows_a_release_beside_a_request_in_flight() {
    Story::of(NOTIFY)
        .held_by(A)
        .goes([
            (listens(true), ""),
            (join(B), ""),
            (due(1_000), "acquire B"),
            (release(A), ""),
            (busy(), ""),
            (message(B), "grant B"),
            (free(), ""),
        ])
        .released_by(B);
}

#[test]
fn a_free_lock_is_asked_for_at_once_or_after_the_answer() {
    Story::of(NOTIFY)
        .goes([
            (listens(true), ""),
            (join(A), "acquire A"),
            (busy(), ""),
            (free(), "acquire A"),
            (free(), ""),
            (free(), ""),
            (busy(), "acquire A"),
            (busy(), ""),
            (free(), "acquire A"),
            (free(), ""),
            (held(), "grant A"),
        ])
        .released_by(A);
}

#[test]
fn behind_a_local_holder_no_waiter_asks_before_its_heartbeat() {
    Story::of(NOTIFY)
        .held_by(A)
        .goes([
            (join(B), ""),
            (free(), ""),
            (lost(C), ""),
            (early(999), ""),
            (due(1), "acquire B"),
            (busy(), ""),
            (due(1_000), "acquire B"),
            (busy(), ""),
            (release(A), "acquire B"),
            (held(), "grant B"),
        ])
        .released_by(B);
}

#[test]
fn a_lost_lock_is_asked_for_at_once() {
    Story::of(NOTIFY)
        .held_by(A)
        .goes([
            (join(B), ""),
            (lost(A), "acquire B"),
            // The holder finds that its lock is gone.
            (release(A), ""),
            (held(), "grant B"),
            (free(), ""),
        ])
        .released_by(B);
    Story::of(NOTIFY).held_by(A).goes([(lost(A), "")]).ends();
}

#[test]
fn a_grant_that_is_not_come_for_is_passed_over() {
    Story::of(NOTIFY)
        .goes([
            (join(A), "acquire A"),
            (join(B), ""),
            (held(), "grant A"),
            // B waits for A no longer than for a holder.
            (due(1_000), "acquire B"),
            (busy(), ""),
            // The time at which B sends a request is reached as well.
            (due(1_000), "pass over A; acquire B"),
            (release(A), ""),
            (busy(), ""),
            (free(), "acquire B"),
            (held(), "grant B"),
        ])
        .released_by(B);
    Story::of(NOTIFY)
        .goes([
            (join(A), "acquire A"),
            (held(), "grant A"),
            (early(1_999), ""),
            (due(1), "pass over A"),
            (idle(), ""),
            (release(A), ""),
            (free(), ""),
        ])
        .ends();
}

#[test]
fn a_grant_that_is_not_come_for_keeps_waiters_no_longer_than_its_lease() {
    Story::of(NOTIFY)
        .goes([
            (listens(true), ""),
            (join(A), "acquire A"),
            (join(B), ""),
            (busy(), ""),
            (message(A), "grant A"),
            (free(), ""),
            (after(GRANT, free()), "acquire B"),
            (held(), "grant B"),
            (enter(B), ""),
            (due(0), "pass over A"),
            (release(A), ""),
        ])
        .released_by(B);
}

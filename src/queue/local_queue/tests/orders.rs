//! Who is next: a waiter of this process, or the process that has waited longest.

use super::events::*;
use super::story::*;
use crate::base::options::Queueing;

/// At most two hand-offs in a row.
const TWO: Queueing = Queueing { turns: 2, ..NOTIFY };

#[test]
fn in_strict_order_a_waiter_asks_at_once_behind_a_local_holder() {
    Story::of(STRICT)
        .held_by(A)
        .goes([
            (listens(true), ""),
            (join(B), "acquire B"),
            (join(C), ""),
            (busy(), ""),
            (release(A), "acquire B"),
            (busy(), ""),
            (message(B), "grant B; acquire C"),
            (enter(B), ""),
            (busy(), ""),
            (release(B), "acquire C"),
            (held(), "grant C"),
        ])
        .released_by(C);
}

#[test]
fn in_strict_order_a_release_may_come_before_the_answer() {
    Story::of(STRICT)
        .held_by(A)
        .goes([
            (join(B), "acquire B"),
            (release(A), ""),
            (free(), ""),
            (busy(), "acquire B"),
            (held(), "grant B"),
        ])
        .released_by(B);
}

#[test]
fn a_lock_that_comes_from_the_store_begins_a_new_row_of_turns() {
    let used_up = || {
        Story::of(TWO).held_by(A).goes([
            (listens(true), ""),
            (join_heir(B, TTL), ""),
            (join_heir(C, TTL), ""),
            (join_heir(D, TTL), ""),
            (join_heir(E, TTL), ""),
            (hand_off(A, B), ""),
            (enter_turn(B, A), ""),
            (hand_off(A, C), ""),
            (enter_turn(C, A), ""),
            (heir(TTL, None), ""),
            (release(A), "acquire D"),
        ])
    };
    used_up()
        .named("by a message")
        .goes([
            (busy(), ""),
            (message(D), "grant D"),
            (enter(D), ""),
            (heir(TTL, Some(E)), ""),
            (leave(E), ""),
        ])
        .released_by(D);
    used_up()
        .named("by an answer")
        .goes([
            (held(), "grant D"),
            (enter(D), ""),
            (heir(TTL, Some(E)), ""),
            (leave(E), ""),
        ])
        .released_by(D);
}

// ---- in memory ----

#[test]
fn a_hold_goes_on_with_the_first_waiter_in_memory() {
    Story::of(NOTIFY)
        .held_by(A)
        .goes([
            (join_heir(B, TTL), ""),
            (join_heir(C, TTL), ""),
            (heir(TTL, Some(B)), ""),
            (hand_off(A, B), ""),
            (enter_turn(B, A), ""),
            (message(B), ""),
            (heir(TTL, Some(C)), ""),
            (hand_off(A, C), ""),
            (enter_turn(C, A), ""),
            (heir(TTL, None), ""),
            (idle(), ""),
        ])
        .released_by(A);
}

#[test]
fn a_turn_that_is_not_come_for_is_passed_over() {
    Story::of(NOTIFY)
        .held_by(A)
        .goes([
            (join_heir(B, TTL), ""),
            (hand_off(A, B), ""),
            (due(2_000), "pass over B"),
            (release(A), ""),
            (free(), ""),
        ])
        .ends();
    Story::of(NOTIFY)
        .held_by(A)
        .goes([
            (join_heir(B, TTL), ""),
            (join(C), ""),
            (hand_off(A, B), ""),
            (leave(B), ""),
            (release(A), "acquire C"),
            (held(), "grant C"),
        ])
        .released_by(C);
}

#[test]
fn a_hold_does_not_go_on_with_a_waiter_that_it_does_not_fit() {
    let held = || Story::of(NOTIFY).held_by(A);
    held().goes([(heir(TTL, None), "")]).released_by(A);
    // The only token is that of the hold itself.
    held()
        .goes([(join(B), ""), (heir(TTL, None), ""), (leave(B), "")])
        .released_by(A);
    // The waiter wants another TTL.
    held()
        .goes([
            (join_heir(B, 6_000), ""),
            (heir(TTL, None), ""),
            (heir(6_000, Some(B)), ""),
            (leave(B), ""),
        ])
        .released_by(A);
    // Only the first waiter counts.
    held()
        .goes([
            (join(B), ""),
            (join_heir(C, TTL), ""),
            (heir(TTL, None), ""),
            (leave(B), ""),
            (heir(TTL, Some(C)), ""),
            (leave(C), ""),
        ])
        .released_by(A);
}

#[test]
fn a_hold_does_not_go_on_with_a_waiter_that_the_store_may_know() {
    let asked = || {
        Story::of(NOTIFY).held_by(A).goes([
            (join_heir(B, TTL), ""),
            (heir(TTL, Some(B)), ""),
            (due(1_000), "acquire B"),
            (heir(TTL, None), ""),
        ])
    };
    for (answer, end) in [
        (busy(), "release B"),
        (unanswered(), "release B (tombstone)"),
    ] {
        asked()
            .goes([
                (answer, ""),
                (heir(TTL, None), ""),
                (leave(B), end),
                (free(), ""),
            ])
            .released_by(A);
    }
    asked()
        .goes([
            (failed(), ""),
            (heir(TTL, Some(B)), ""),
            (hand_off(A, B), ""),
            (enter_turn(B, A), ""),
        ])
        .released_by(A);
    // The request in flight is for a waiter that has left.
    asked()
        .goes([
            (join_heir(C, TTL), ""),
            (leave(B), ""),
            (heir(TTL, Some(C)), ""),
            (hand_off(A, C), ""),
            (enter_turn(C, A), ""),
            (busy(), "release B"),
            (free(), ""),
        ])
        .released_by(A);
}

#[test]
fn turns_count_as_handoffs() {
    Story::of(TWO)
        .held_by(A)
        .goes([
            (join_heir(B, TTL), ""),
            (join_heir(C, TTL), ""),
            (join_heir(D, TTL), ""),
            (hand_off(A, B), ""),
            (enter_turn(B, A), ""),
            (hand_off(A, C), ""),
            (enter_turn(C, A), ""),
            (heir(TTL, None), ""),
            (release(A), "acquire D"),
            (held(), "grant D"),
        ])
        .released_by(D);
    Story::of(STRICT)
        .held_by(A)
        .goes([
            (join_heir(B, TTL), "acquire B"),
            (failed(), ""),
            (heir(TTL, None), ""),
            (leave(B), ""),
        ])
        .released_by(A);
}

/// A hands the lock off to B, C and D, as far as it may.
fn three_heirs() -> Story {
    Story::of(TWO).goes([
        (join_heir(A, TTL), "acquire A"),
        (held(), "grant A"),
        (enter(A), ""),
        (join_heir(B, TTL), ""),
        (join_heir(C, TTL), ""),
        (join_heir(D, TTL), ""),
        (listens(true), ""),
        (hand_off(A, B), ""),
        (enter_turn(B, A), ""),
        (hand_off(A, C), ""),
        (enter_turn(C, A), ""),
    ])
}

#[test]
fn there_is_no_bound_to_the_turns_as_long_as_no_other_process_waits() {
    three_heirs()
        .goes([
            (heir(TTL, Some(D)), ""),
            (hand_off(A, D), ""),
            (enter_turn(D, A), ""),
            (contended(), ""),
        ])
        .released_by(A);
}

#[test]
fn the_next_turn_goes_through_the_store_once_another_process_has_come() {
    three_heirs()
        .goes([
            (contended(), ""),
            (heir(TTL, None), ""),
            (release(A), "acquire D"),
            (held(), "grant D"),
        ])
        .released_by(D);
}

/// The message arrived over a separate connection. The store had responded before it sent the message.
#[test]
fn another_process_that_came_before_the_answer_was_read_is_not_forgotten() {
    Story::of(TWO)
        .goes([
            (join_heir(A, TTL), "acquire A"),
            (contended(), ""),
            (held(), "grant A"),
            (enter(A), ""),
            (join_heir(B, TTL), ""),
            (join_heir(C, TTL), ""),
            (join_heir(D, TTL), ""),
            (listens(true), ""),
            (hand_off(A, B), ""),
            (enter_turn(B, A), ""),
            (hand_off(A, C), ""),
            (enter_turn(C, A), ""),
            (heir(TTL, None), ""),
            (release(A), "acquire D"),
            (held(), "grant D"),
        ])
        .released_by(D);
}

#[test]
fn another_process_that_came_before_a_release_was_answered_is_not_forgotten() {
    Story::of(TWO)
        .held_by(A)
        .goes([
            (join_heir(B, TTL), ""),
            (join_heir(C, TTL), ""),
            (join_heir(D, TTL), ""),
            (join_heir(E, TTL), ""),
            (listens(true), ""),
            (release(A), "acquire B"),
            (contended(), ""),
            (held(), "grant B"),
            (enter(B), ""),
            (hand_off(B, C), ""),
            (enter_turn(C, B), ""),
            (hand_off(B, D), ""),
            (enter_turn(D, B), ""),
            (heir(TTL, None), ""),
            (release(B), "acquire E"),
            (held(), "grant E"),
        ])
        .released_by(E);
}

/// No message would report another process.
#[test]
fn the_turns_are_bounded_while_no_message_comes_in() {
    three_heirs()
        .goes([
            (listens(false), ""),
            (heir(TTL, None), ""),
            (release(A), "acquire D"),
            (held(), "grant D"),
        ])
        .released_by(D);
}

/// A message may have been lost.
#[test]
fn once_in_every_heartbeat_a_turn_goes_through_the_store() {
    three_heirs()
        .goes([
            (heir(TTL, Some(D)), ""),
            (late_heir(TTL, None), ""),
            (release(A), "acquire D"),
            (held(), "grant D"),
        ])
        .released_by(D);
}

//! A waiter leaves in each of its stages. Whatever the store has of it then is released, once.

use super::events::*;
use super::story::*;

/// The actions about A, which is alone and leaves before this answer.
#[test]
fn a_waiter_that_leaves_is_undone_when_its_request_is_answered() {
    let answers = [
        ("held", held(), "release A"),
        ("busy", busy(), "release A"),
        ("no answer", unanswered(), "release A (tombstone)"),
        ("held too late", held_too_late(), "release A (tombstone)"),
        ("not executed", failed(), ""),
        ("refused", refused(), ""),
    ];
    for (name, answer, undone) in answers {
        Story::of(NOTIFY)
            .named(name)
            .goes([
                (join(A), "acquire A"),
                (leave(A), ""),
                (never_due(), ""),
                (answer, undone),
                (free(), ""),
            ])
            .ends();
    }
}

#[test]
fn the_request_of_a_waiter_that_has_left_is_answered_before_the_next_asks() {
    let answers = [
        ("held", held(), "release A; acquire B"),
        ("busy", busy(), "release A; acquire B"),
        (
            "no answer",
            unanswered(),
            "release A (tombstone); acquire B",
        ),
        (
            "held too late",
            held_too_late(),
            "release A (tombstone); acquire B",
        ),
        ("not executed", failed(), "acquire B"),
        ("refused", refused(), "acquire B"),
    ];
    for (name, answer, undone) in answers {
        Story::of(NOTIFY)
            .named(name)
            .goes([
                (join(A), "acquire A"),
                (join(B), ""),
                (leave(A), ""),
                (answer, undone),
                (held(), "grant B"),
            ])
            .released_by(B);
    }
}

#[test]
fn a_waiter_of_which_the_store_knows_nothing_just_goes() {
    Story::of(NOTIFY)
        .held_by(A)
        .goes([
            (join(B), ""),
            (leave(B), ""),
            (idle(), ""),
            (never_due(), ""),
        ])
        .released_by(A);
    Story::of(NOTIFY)
        .goes([
            (join(A), "acquire A"),
            (join(B), ""),
            (leave(B), ""),
            (held(), "grant A"),
        ])
        .released_by(A);
    // Its request was not executed.
    Story::of(NOTIFY)
        .goes([(join(A), "acquire A"), (failed(), ""), (leave(A), "")])
        .ends();
}

#[test]
fn a_waiter_that_is_not_there_cannot_leave() {
    Story::of(NOTIFY)
        .goes([
            (join(A), "acquire A"),
            (leave(B), ""),
            (held(), "grant A"),
            (enter(A), ""),
            (leave(A), ""),
            (leave(B), ""),
        ])
        .released_by(A);
}

#[test]
fn a_waiter_in_the_queue_leaves_its_place_to_the_next() {
    Story::of(NOTIFY)
        .goes([
            (join(A), "acquire A"),
            (busy(), ""),
            (leave(A), "release A"),
            (free(), ""),
        ])
        .ends();
    Story::of(NOTIFY)
        .goes([
            (listens(true), ""),
            (join(A), "acquire A"),
            (join(B), ""),
            (busy(), ""),
            (leave(A), "release A; acquire B"),
            (busy(), ""),
            (message(B), "grant B"),
        ])
        .released_by(B);
}

#[test]
fn a_waiter_of_which_the_store_may_know_is_released() {
    Story::of(NOTIFY)
        .goes([
            (join(A), "acquire A"),
            (unanswered(), ""),
            (leave(A), "release A (tombstone)"),
            (free(), ""),
        ])
        .ends();
    // An answer to a later request does not show what becomes of the first one.
    Story::of(NOTIFY)
        .goes([
            (join(A), "acquire A"),
            (unanswered(), ""),
            (due_within(10..=20), "acquire A"),
            (busy(), ""),
            (leave(A), "release A (tombstone)"),
            (free(), ""),
        ])
        .ends();
}

#[test]
fn a_grant_that_is_given_back_goes_to_the_next() {
    Story::of(NOTIFY)
        .goes([
            (join(A), "acquire A"),
            (held(), "grant A"),
            (leave(A), ""),
            (idle(), ""),
            (release(A), ""),
            (free(), ""),
        ])
        .ends();
    Story::of(NOTIFY)
        .goes([
            (join(A), "acquire A"),
            (join(B), ""),
            (held(), "grant A"),
            (leave(A), ""),
            (release(A), "acquire B"),
            (held(), "grant B"),
        ])
        .released_by(B);
}

#[test]
fn a_waiter_that_comes_back_is_another_one() {
    Story::of(NOTIFY)
        .goes([
            (join(A), "acquire A"),
            (leave(A), ""),
            // Not before the answer for A.
            (join(B), ""),
            (never_due(), ""),
            (busy(), "release A; acquire B"),
            (leave(B), ""),
            (join(C), ""),
            (held(), "release B; acquire C"),
            (held(), "grant C"),
        ])
        .released_by(C);
}

/// None of them may ever be polled again. What the store may have of them is released.
#[test]
fn those_who_wait_when_it_is_closed_are_refused() {
    Story::of(NOTIFY)
        .goes([
            (join(A), "acquire A"),
            (busy(), ""),
            (join(B), ""),
            (close(), "refuse B: closed; release A; refuse A: closed"),
            (free(), ""),
        ])
        .ends();
    Story::of(NOTIFY)
        .goes([
            (join(A), "acquire A"),
            (close(), "refuse A: closed"),
            (held(), "release A"),
            (free(), ""),
        ])
        .ends();
    Story::of(NOTIFY)
        .held_by(A)
        .goes([(join(B), ""), (close(), "refuse B: closed"), (idle(), "")])
        .released_by(A);
}

#[test]
fn a_grant_that_is_not_claimed_when_it_is_closed_is_taken_back() {
    Story::of(NOTIFY)
        .goes([
            (join(A), "acquire A"),
            (join(B), ""),
            (held(), "grant A"),
            (close(), "pass over A; refuse B: closed"),
            (release(A), ""),
            (free(), ""),
        ])
        .ends();
}

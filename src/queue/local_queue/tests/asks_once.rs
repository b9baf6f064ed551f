//! Waiters that make only one attempt stay no longer than the request in flight.

use super::events::*;
use super::story::*;

#[test]
fn one_that_is_alone_asks_and_goes() {
    let answers = [
        ("busy", busy(), "refuse A: busy"),
        (
            "no answer",
            unanswered(),
            "release A (tombstone); refuse A: failed",
        ),
        (
            "held too late",
            held_too_late(),
            "release A (tombstone); refuse A: failed",
        ),
        ("not executed", failed(), "refuse A: failed"),
        ("refused", refused(), "refuse A: failed"),
    ];
    for (name, answer, done) in answers {
        Story::of(NOTIFY)
            .named(name)
            .goes([(ask_once(A), "acquire A"), (answer, done), (free(), "")])
            .ends();
    }
    Story::of(NOTIFY)
        .goes([(ask_once(A), "acquire A"), (held(), "grant A")])
        .released_by(A);
}

#[test]
fn one_that_leaves_is_undone_if_the_store_may_know_of_it() {
    for (answer, undone) in [
        (busy(), ""),
        (failed(), ""),
        (refused(), ""),
        (held(), "release A"),
        (unanswered(), "release A (tombstone)"),
    ] {
        Story::of(NOTIFY)
            .goes([
                (ask_once(A), "acquire A"),
                (leave(A), ""),
                (answer, undone),
                (free(), ""),
            ])
            .ends();
    }
}

#[test]
fn one_behind_a_question_is_content_with_its_answer() {
    let answers = [
        ("busy", busy(), "refuse B: busy"),
        ("no answer", unanswered(), "refuse B: failed"),
        ("not executed", failed(), "refuse B: failed"),
    ];
    for (name, answer, done) in answers {
        Story::of(NOTIFY)
            .named(name)
            .goes([
                (join(A), "acquire A"),
                (ask_once(B), ""),
                (answer, done),
                (after(60, free()), "acquire A"),
                (
                    held(),
                    match name {
                        "no answer" => "grant A (unanswered)",
                        _ => "grant A",
                    },
                ),
            ])
            .released_by(A);
    }
    Story::of(NOTIFY)
        .goes([
            (join(A), "acquire A"),
            (ask_once(B), ""),
            (held(), "grant A; refuse B: busy"),
        ])
        .released_by(A);
}

#[test]
fn one_behind_a_waiter_that_rests_is_told_what_was_heard_last() {
    for (answer, done) in [(busy(), "refuse B: busy"), (failed(), "refuse B: failed")] {
        Story::of(NOTIFY)
            .goes([
                (join(A), "acquire A"),
                (answer, ""),
                (ask_once(B), done),
                (free(), "acquire A"),
                (held(), "grant A"),
            ])
            .released_by(A);
    }
}

#[test]
fn one_behind_a_request_for_another_shares_its_answer() {
    Story::of(NOTIFY)
        .held_by(A)
        .goes([
            (join(B), ""),
            (release(A), "acquire B"),
            (ask_once(C), ""),
            (held(), "grant B; refuse C: busy"),
        ])
        .released_by(B);
    Story::of(NOTIFY)
        .goes([
            (join(A), "acquire A"),
            (join(B), ""),
            (ask_once(C), ""),
            (leave(A), ""),
            (busy(), "release A; refuse C: busy; acquire B"),
            (held(), "grant B"),
        ])
        .released_by(B);
}

#[test]
fn one_behind_a_local_holder_asks_if_no_other_waits() {
    Story::of(NOTIFY)
        .held_by(A)
        .goes([
            (ask_once(B), "acquire B"),
            (busy(), "refuse B: busy"),
            (idle(), ""),
        ])
        .released_by(A);
    // The store may know that A has lost the lock.
    Story::of(NOTIFY)
        .held_by(A)
        .goes([
            (ask_once(B), "acquire B"),
            (held(), "grant B"),
            (lost(A), ""),
            (release(A), ""),
        ])
        .released_by(B);
    Story::of(NOTIFY)
        .held_by(A)
        .goes([
            (join(B), ""),
            (ask_once(C), "refuse C: busy"),
            (release(A), "acquire B"),
            (held(), "grant B"),
        ])
        .released_by(B);
}

#[test]
fn two_behind_a_local_holder_share_one_answer() {
    Story::of(NOTIFY)
        .held_by(A)
        .goes([
            (ask_once(B), "acquire B"),
            (ask_once(C), ""),
            (busy(), "refuse B: busy; refuse C: busy"),
        ])
        .released_by(A);
}

#[test]
fn one_that_becomes_the_first_is_told_what_the_other_would_have_been() {
    for (answer, done) in [
        (failed(), "refuse B: failed"),
        (busy(), "release A; refuse B: busy"),
        (held(), "release A; refuse B: busy"),
    ] {
        Story::of(NOTIFY)
            .goes([
                (join(A), "acquire A"),
                (ask_once(B), ""),
                (leave(A), ""),
                (answer, done),
            ])
            .ends();
    }
    Story::of(NOTIFY)
        .goes([
            (join(A), "acquire A"),
            (ask_once(B), ""),
            (refused(), "refuse A: failed; refuse B: failed"),
        ])
        .ends();
}

#[test]
fn many_that_ask_at_the_same_time_share_one_request() {
    Story::of(NOTIFY)
        .goes([
            (ask_once(A), "acquire A"),
            (ask_once(B), ""),
            (ask_once(C), ""),
            (busy(), "refuse A: busy; refuse B: busy; refuse C: busy"),
        ])
        .ends();
}

#[test]
fn one_that_goes_lets_the_next_waiter_ask() {
    Story::of(NOTIFY)
        .goes([
            (ask_once(A), "acquire A"),
            (join(B), ""),
            (busy(), "refuse A: busy; acquire B"),
            (held(), "grant B"),
        ])
        .released_by(B);
    Story::of(NOTIFY)
        .goes([
            (ask_once(A), "acquire A"),
            (join(B), ""),
            (
                unanswered(),
                "release A (tombstone); refuse A: failed; acquire B",
            ),
            (held(), "grant B"),
        ])
        .released_by(B);
}

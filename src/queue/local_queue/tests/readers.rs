//! Readers of one process: they enter together, and a writer among them has its turn.

use super::events::*;
use super::story::*;

#[test]
fn readers_who_come_while_one_is_asked_for_enter_together() {
    Story::of(NOTIFY)
        .goes([
            (read(A), "share A"),
            (read(B), ""),
            (read(C), ""),
            (shared("A"), "grant A; share BC"),
            (read(D), ""),
            (shared("BC"), "grant B; grant C; share D"),
            (shared("D"), "grant D"),
            (enter(A), ""),
            (enter(B), ""),
            (enter(C), ""),
            (enter(D), ""),
            (release(B), ""),
            (free(), ""),
            (release(A), ""),
            (release(C), ""),
            (release(D), ""),
        ])
        .ends();
}

#[test]
fn a_reader_joins_those_who_are_inside_at_once() {
    Story::of(NOTIFY)
        .goes([
            (read(A), "share A"),
            (shared("A"), "grant A"),
            (enter(A), ""),
            (read(B), "share B"),
            (shared("B"), "grant B"),
            (enter(B), ""),
            (release(A), ""),
            (release(B), ""),
        ])
        .ends();
}

/// The writer must not be overtaken by the readers of other processes.
#[test]
fn a_writer_takes_its_place_while_readers_of_its_process_are_inside() {
    Story::of(NOTIFY)
        .goes([
            (listens(true), ""),
            (read(A), "share A"),
            (shared("A"), "grant A"),
            (enter(A), ""),
            (join(B), "acquire B"),
            (read(C), ""),
            (busy(), ""),
            (due(1_000), "acquire B"),
            (busy(), ""),
            (release(A), ""),
            (message(B), "grant B"),
            (enter(B), ""),
            // The release names no reader: they send their request immediately.
            (release(B), "share C"),
            (shared("C"), "grant C"),
            (enter(C), ""),
            (release(C), ""),
        ])
        .ends();
}

#[test]
fn readers_who_wait_are_told_together() {
    Story::of(NOTIFY)
        .goes([
            (listens(true), ""),
            (read(A), "share A"),
            (read(B), ""),
            (busy(), ""),
            (due(1_000), "share AB"),
            (busy(), ""),
            (read(C), ""),
            // The third reader had not sent a request. It does so now.
            (message_to("AB"), "grant A; grant B; share C"),
            (shared("C"), "grant C"),
            (enter(A), ""),
            (enter(B), ""),
            (enter(C), ""),
            (release(A), ""),
            (release(B), ""),
            (release(C), ""),
        ])
        .ends();
}

#[test]
fn a_message_that_overtakes_the_answer_is_for_each_of_them() {
    Story::of(NOTIFY)
        .goes([
            (listens(true), ""),
            (read(A), "share A"),
            (read(B), ""),
            (busy(), ""),
            (due(1_000), "share AB"),
            (message_to("AB"), ""),
            (busy(), "grant A; grant B"),
            (enter(A), ""),
            (enter(B), ""),
            (release(A), ""),
            (release(B), ""),
        ])
        .ends();
}

/// Some readers are already inside, because a message to them is on its way. The others are behind a writer.
#[test]
fn those_who_are_in_go_on_and_the_others_wait() {
    Story::of(NOTIFY)
        .goes([
            (listens(true), ""),
            (read(A), "share A"),
            (busy(), ""),
            (read(B), ""),
            (due(1_000), "share AB"),
            (shared("A"), "check; grant A; share B"),
            (busy(), ""),
            (enter(A), ""),
            (leave(B), "unshare B"),
            (release(A), ""),
        ])
        .ends();
}

#[test]
fn one_that_leaves_while_they_are_asked_for_is_released_alone() {
    Story::of(NOTIFY)
        .goes([
            (read(A), "share A"),
            (read(B), ""),
            (read(C), ""),
            (busy(), ""),
            (listens(true), ""),
            (due(1_000), "share ABC"),
            (leave(B), ""),
            (shared("ABC"), "check; grant A; unshare B; grant C"),
            (enter(A), ""),
            (enter(C), ""),
            (release(A), ""),
            (release(C), ""),
        ])
        .ends();
}

#[test]
fn those_whose_request_is_not_answered_leave_tombstones() {
    Story::of(NOTIFY)
        .goes([
            (read(A), "share A"),
            (read(B), ""),
            (shared(""), ""),
            (due_within(1..=1_000), "share AB"),
            (unanswered(), ""),
            (leave(B), "unshare B (tombstone)"),
            (due_within(0..=1_000), "share A"),
            (shared("A"), "grant A (unanswered)"),
            (enter(A), ""),
            (release(A), ""),
        ])
        .ends();
}

#[test]
fn those_with_another_ttl_ask_for_themselves() {
    Story::of(NOTIFY)
        .goes([
            (read(A), "share A"),
            (read(B), ""),
            (read_with(C, 9_000), ""),
            (shared("A"), "grant A; share B"),
            (shared("B"), "grant B; share C"),
            (leave(C), ""),
            (unanswered(), "unshare C (tombstone)"),
            (enter(A), ""),
            (enter(B), ""),
            (release(A), ""),
            (release(B), ""),
        ])
        .ends();
}

/// The reader joins the readers that are inside, although it does not wait.
#[test]
fn a_reader_that_asks_once_enters_beside_others() {
    Story::of(NOTIFY)
        .goes([
            (read(A), "share A"),
            (read_once(B), ""),
            (shared("A"), "grant A; share B"),
            (shared("B"), "grant B"),
            (enter(A), ""),
            (enter(B), ""),
            (join(C), "acquire C"),
            (busy(), ""),
            (read_once(D), "refuse D: busy"),
            (leave(C), "release C"),
            (release(A), ""),
            (release(B), ""),
        ])
        .ends();
}

#[test]
fn readers_enter_behind_a_writer_that_goes_on_as_a_reader() {
    Story::of(NOTIFY)
        .held_by(A)
        .goes([
            (read(B), ""),
            (read(C), ""),
            (downgrade(A), "share BC"),
            (shared("BC"), "grant B; grant C"),
            (enter(B), ""),
            (enter(C), ""),
            (release(A), ""),
            (release(B), ""),
            (release(C), ""),
        ])
        .ends();
}

#[test]
fn readers_behind_a_writer_wait_for_its_turn() {
    let _unfinished = Story::of(NOTIFY).held_by(A).goes([
        (join(B), ""),
        (read(C), ""),
        (read(D), ""),
        (lost(A), "acquire B"),
    ]);
}

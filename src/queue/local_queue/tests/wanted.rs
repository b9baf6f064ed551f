//! Whether a holder in this process is wanted by the waiters behind it.

use super::events::*;
use super::story::*;

/// Whether a caller waits until a holder leaves.
fn is_wanted(expected: bool) -> Event {
    Box::new(move |story| {
        let is_wanted = story.queue.is_wanted(story.now);
        assert_eq!(is_wanted, expected, "{}: {:?}", story.name, story.queue);
        None
    })
}

#[test]
fn a_writer_is_wanted_by_all_who_wait_and_by_no_attempt() {
    Story::of(NOTIFY)
        .held_by(A)
        .goes([
            (is_wanted(false), ""),
            (ask_once(B), "acquire B"),
            (is_wanted(false), ""),
            (busy(), "refuse B: busy"),
            (read_once(C), "share C"),
            (is_wanted(false), ""),
            (read(D), ""),
            (is_wanted(true), ""),
            (busy(), "refuse C: busy"),
            (is_wanted(true), ""),
            (leave(D), ""),
            (is_wanted(false), ""),
        ])
        .released_by(A);
}

#[test]
fn a_reader_is_wanted_by_those_who_cannot_share_with_it() {
    Story::of(NOTIFY)
        .goes([
            (read(A), "share A"),
            (shared("A"), "grant A"),
            (enter(A), ""),
            (is_wanted(false), ""),
            (read(B), "share B"),
            (is_wanted(false), ""),
            // The permits are taken, or a writer of another process waits.
            (busy(), ""),
            (is_wanted(true), ""),
            (leave(B), "unshare B"),
            (is_wanted(false), ""),
            // A writer never shares.
            (join(C), "acquire C"),
            (is_wanted(true), ""),
            (leave(C), ""),
            (busy(), "release C"),
            (release(A), ""),
        ])
        .ends();
}

#[test]
fn a_failing_store_is_no_caller_that_waits() {
    Story::of(NOTIFY)
        .goes([
            (read(A), "share A"),
            (shared("A"), "grant A"),
            (enter(A), ""),
            (read(B), "share B"),
            (failed(), ""),
            (is_wanted(false), ""),
            (leave(B), ""),
            (release(A), ""),
        ])
        .ends();
}

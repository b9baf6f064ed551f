//! The protocol as a model, and all of its states within bounds.
//!
//! One lock, some processes, and a network between them and the store that loses, delays and repeats.
//! The checker visits every state that can be reached, in every order of events, and looks whether the
//! promises hold there. Read `step.rs` first, for what may happen; then `store.rs` and `sharing.rs` (the scripts),
//! `client.rs` and `body.rs` (a process), `time.rs`, `properties.rs`, and `broken.rs`.
//!
//! # What is modelled
//!
//! - **The store** (`store.rs`): the scripts acquire, depth, renew and release as in `lua/`, with their
//!   branches, each one atomic step. The lock with its field, depth, token and lease; the line, with the hold
//!   and the life of each place, and the tombstones; the numbers of the depth changes; the clock that the tokens
//!   are made of, which may be set back, and the token of a lock that moves; the short form of a release.
//! - **Readers** (`sharing.rs`): share, keep, unshare and downgrade, each reader with a lease of its own, and who is let
//!   in. Places and messages of several readers of a process, as the machine asks for them. A permit of a semaphore is
//!   a reader that names a limit: the request and the place carry it.
//! - **The local queue of a process** is no model: it is the machine itself, `LocalQueue`. `client.rs` tells it
//!   what happens and does what it calls for, as `src/queue/local_queues.rs` does; `machine.rs` translates holds and
//!   times, and brings its state into a form that can be compared. So a waiter that asks, is told, is granted
//!   the lock, leaves at any moment and is undone, a release that names a successor and is repeated, messages
//!   that come before an answer, and a grant that its caller does not come for are what the crate does.
//! - **A body** (`body.rs`): the local deadline, renewals, loss; re-entry and exit with their changes of
//!   the depth, and a longer lease.
//! - **The network** (`network.rs`): requests, answers and messages arrive in any order and at any time. A
//!   request that its client gave up was never executed, or was and its answer is lost, or is executed at
//!   any later time.
//! - **Time** (`time.rs`): ticks of one heartbeat. A tick while something was to be done is a *delay*, of
//!   which there are so many: it stands for a slow network, a slow driver, and a process that is paused. A
//!   body takes as long as it likes.
//! - Crashes, futures that are dropped at any moment, callers that do not poll.
//!
//! # What is not
//!
//! - All clocks run at the same rate: there is no margin, and no 1 % either. The store is one server that
//!   keeps its data; so there is no epoch, and a new connection is no more than lost messages. Leases do not
//!   depend on the clock that is set back, but for one thing: when a lock expires, the clock is beyond its token,
//!   unless that was ahead of the clock from the first.
//! - A tick is coarse: pauses between two attempts, and the slack at the end of a lease, are none.
//! - A script is executed as a whole, or not at all; no error but silence comes back. Memory does not run out.
//! - A step of a process is atomic, as it is under the mutex of the lines; what the shell does around it is not
//!   looked at: wakers, the driver as a task, its start and its end.
//! - A tombstone outlives every request. So does the number of a depth change.
//! - Messages come in all the while, or are lost. No cohorts, `Wake::Poll`, waits with an end, `no_wait`,
//!   `max_hold`, `OnLost::KeepRunning`, inspect and force_release, and no classic programs. All TTLs are equal,
//!   but for the re-entry's. No deleted keys, so nothing is left in the line by an earlier life of the lock; no
//!   `Fairness` but the first, no several keys; each reader is kept by itself.
//! - A caller that finds that its lease has ended before it was polled gives the lock back, and does not ask
//!   again; in the model that is the next waiter.
//! - Requests are not in order on their connection, which is more than may happen.
//! - Only a client repeats an acquire, one that it had given up: nothing below it resends. Any other request
//!   may be executed twice behind its back.
//!
//! # Bounds
//!
//! The numbers of processes, waiters and mishaps are bounded (`config.rs`). Time is not: instants are
//! moved with the time, and tokens are numbered anew in each state, so the states are finitely many. The
//! checker tells states apart by a hash of 64 bits.
//!
//! `cargo test --test unit model -- --nocapture` prints what was searched. `REENTRY_MODEL=deep` searches
//! further, for which `--release` is the right profile; `REENTRY_MODEL=stories` tells how each broken rule
//! goes wrong.

mod body;
mod broken;
mod calm;
mod client;
mod config;
mod hold;
mod machine;
mod message;
mod mutation;
mod network;
mod process;
mod properties;
mod protocol;
mod sharing;
mod state;
mod step;
mod store;
mod time;

use std::time::Instant;

use broken::BROKEN;
use config::Chance::{
    self, Crashes, Delays, Downgrades, Drops, Duplicates, LostMessages, Reentries, Setbacks,
    Timeouts,
};
use config::Config;
use protocol::Protocol;
use state::State;
use stateright::{Checker, HasDiscoveries, Model, Path};
use step::Step;

/// A promise that is broken, and how it came to that.
type Violation = (&'static str, Path<State, Step>);

#[test]
fn late_and_lost_requests_break_no_promise() {
    let config = Config::of(&["w", "w"]);
    holds(config.with(&[Delays(3)]), &[Timeouts(2), Duplicates(1)]);
    holds(config.with(&[Delays(2), Timeouts(1)]), &[Duplicates(1)]);
}

#[test]
fn lost_messages_and_dead_processes_are_overcome() {
    let config = Config::of(&["w", "w"]).with(&[Delays(2), LostMessages(1), Crashes(1)]);
    for config in [config, config.slow_polls()] {
        holds(config, &[Delays(3), Timeouts(1), Drops(1)]);
    }
}

#[test]
fn a_dropped_future_leaves_nothing_behind() {
    let lines = usual_or_deep(&["ww", "w"], &["ww", "ww"]);
    holds(Config::of(lines).with(&[Drops(1)]), &[Delays(1)]);
    let late = [Delays(1), Timeouts(1), Duplicates(1), Drops(1)];
    holds(Config::of(&["ww"]).with(&late), &[Delays(2)]);
}

#[test]
fn nested_entries_count_once() {
    let nested = [Duplicates(1), Reentries(1)];
    let two = Config::of(&["w", "w"]).with(&nested);
    holds(two, &[Delays(1), Timeouts(1)]);
    let alone = Config::of(&["w"]).with(&nested);
    holds(
        alone.with(&[Delays(2), Timeouts(1), Drops(1)]),
        &[Reentries(2)],
    );
}

#[test]
fn lines_pass_the_lock_on() {
    holds(Config::of(&["ww", "ww"]), &[Timeouts(1)]);
    let lines = usual_or_deep(&["ww", "w"], &["ww", "ww"]);
    holds(Config::of(lines).strict(), &[Timeouts(1), Drops(1)]);
    holds(
        Config::of(&["w", "w", "w"]),
        &[Delays(1), Timeouts(1), Crashes(1)],
    );
}

#[test]
fn readers_share_and_writers_exclude() {
    holds(Config::of(&["r", "r", "w"]), &[Delays(1), Timeouts(1)]);
    let lines = usual_or_deep(&["rr", "w"], &["rr", "ww"]);
    holds(Config::of(lines), &[Delays(1)]);
    let lines = usual_or_deep(&["rw", "r"], &["rw", "wr"]);
    holds(Config::of(lines), &[Delays(1)]);
    let given_up = [Timeouts(1), Drops(1)];
    holds(
        Config::of(&["rrw"]).with(&given_up),
        &[Delays(1), Duplicates(1)],
    );
    let config = Config::of(&["r", "w"]).with(&given_up);
    holds(config, &[Delays(1), Duplicates(1)]);
}

#[test]
fn dead_readers_keep_no_writer_out() {
    for processes in [&["r", "r", "w"], &["r", "w", "w"]] {
        let config = Config::of(processes).with(&[Crashes(1)]);
        holds(config, &[Delays(1), LostMessages(1)]);
    }
}

#[test]
fn a_writer_goes_on_as_a_reader() {
    let config = Config::of(&["w", "r"]).with(&[Delays(1), Downgrades(1)]);
    holds(config, &[Timeouts(1), Duplicates(1), Drops(1)]);
    let processes = usual_or_deep(&["w", "r"][..], &["w", "r", "w"]);
    holds(Config::of(processes).with(&[Downgrades(1)]), &[Timeouts(1)]);
}

#[test]
fn permits_let_in_no_more_than_their_limits() {
    let config = Config::of(&["2", "2", "2"]);
    holds(config, &[Delays(1), Timeouts(1)]);
    let lines = usual_or_deep(&["22", "1"], &["22", "1w"]);
    holds(Config::of(lines), &[Delays(1)]);
    let config = Config::of(&["w", "1"]);
    holds(config.with(&[Timeouts(1), Downgrades(1)]), &[Delays(1)]);
}

#[test]
fn permits_of_the_dead_and_the_dropped_are_free_again() {
    for processes in [&["2", "1", "2"], &["1", "1", "w"]] {
        let config = Config::of(processes).with(&[Crashes(1)]);
        holds(config, &[Delays(1), LostMessages(1)]);
    }
    let given_up = [Timeouts(1), Drops(1)];
    holds(
        Config::of(&["212"]).with(&given_up),
        &[Delays(1), Duplicates(1)],
    );
    let config = Config::of(&["1", "1"]).with(&given_up);
    holds(config, &[Delays(1), Duplicates(1)]);
}

/// As far as they are promised: where a lock moves, and after a lease that ran out.
#[test]
fn tokens_grow_where_a_lock_moves_whatever_the_clock_does() {
    let config = Config::of(&["w", "w"]);
    holds(
        config.with(&[Delays(1), Timeouts(1), Setbacks(1)]),
        &[Crashes(1)],
    );
    let config = Config::of(usual_or_deep(&["ww", "w"], &["ww", "ww"]));
    holds(config.with(&[Setbacks(1), Crashes(1)]), &[Setbacks(2)]);
}

#[test]
fn every_broken_rule_breaks_a_promise() {
    let mut unnoticed = Vec::new();
    for &(mutation, promise, processes, chances) in BROKEN {
        let config = Config::of(processes).with(chances).broken(mutation);
        let Some((_, path)) = search(config, Some(promise)) else {
            unnoticed.push(mutation);
            continue;
        };
        let steps = path.clone().into_actions().len();
        println!("    {mutation:?}: `{promise}` is violated after {steps} steps");
        if asked_for("stories") {
            println!("{}", story(&path));
        }
    }
    assert!(unnoticed.is_empty(), "no promise rests on {unnoticed:?}");
}

/// Every promise holds, whatever happens within these bounds; when it is asked for a deep search, also with what
/// may happen further.
fn holds(config: Config, further: &[Chance]) {
    let config = config.with(usual_or_deep(&[], further));
    if let Some((promise, path)) = search(config, None) {
        panic!("{config}: `{promise}` is violated\n{}", story(&path));
    }
}

fn usual_or_deep<T>(usual: T, deep: T) -> T {
    if asked_for("deep") { deep } else { usual }
}

/// Visits every state, or those up to the first violation, shallow ones first.
fn search(config: Config, only: Option<&'static str>) -> Option<Violation> {
    let start = Instant::now();
    let protocol = Protocol {
        config,
        properties: properties::all,
        only,
    };
    let checker = protocol
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    println!(
        "{config}: {} states, {} steps between them, {} deep, {:.1?}",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        start.elapsed()
    );
    checker.discoveries().into_iter().next()
}

fn story(path: &Path<State, Step>) -> String {
    let steps = path.clone().into_actions();
    let lines = (1..)
        .zip(steps)
        .map(|(at, step)| format!("{at:8}. {step:?}\n"));
    lines.collect()
}

fn asked_for(what: &str) -> bool {
    std::env::var("REENTRY_MODEL").is_ok_and(|asked| asked == what)
}

//! The protocol as a model, with all of its states within bounds.
//!
//! Mounted by `src/queue/machine.rs` as `queue::machine::model`.
//!
//! The model has one lock, some processes, and a network between them and the store. The network loses, delays and
//! repeats requests. The checker visits every state that can be reached, in every order of events, and checks the
//! promises there. Read `step.rs` first: it says what may happen. Then read `store.rs` and `sharing.rs` (the scripts),
//! `client.rs` and `body.rs` (a process), `time.rs`, `properties.rs`, and `broken.rs`.
//!
//! # What is modelled
//!
//! - **The store** (`store.rs`). The scripts acquire, depth, renew and release are as in `lua/`, with their branches,
//!   each as one atomic step. The lock has its field, depth, token and lease. The line has the hold and the life of
//!   each place, and the tombstones. The numbers of the depth changes are included. So are the clock from which the
//!   tokens are made, which may be set back, and the token of a lock that moves. The short form of a release is
//!   included too.
//! - **Readers** (`sharing.rs`). This covers share, keep and release, with a lease for each reader, and
//!   which readers are let in. Several readers of a process share places and messages, as the machine requests them. A
//!   permit of a semaphore is a reader that names a limit. The request and the place contain the limit.
//! - **The local queue of a process** is not modelled: it is the machine itself, `WaitMachine`. `client.rs` passes
//!   events to it and executes its actions, as `src/queue/local_queues/local_queue.rs` does. `machine.rs` translates holds and
//!   times, and brings the state of the machine into a form that can be compared. So the code of the crate decides what
//!   follows when a waiter sends a request, gets a message, is granted the lock, or leaves at any moment and is undone.
//!   It also decides who continues a hold in memory, about messages that arrive before an answer, and about a grant that
//!   its caller does not claim.
//! - **A body** (`body.rs`). This covers the local deadline, renewals, loss, re-entry and exit with their changes of
//!   the depth, and a longer lease.
//! - **The network** (`network.rs`). Requests, responses and messages arrive in any order and at any time. A request
//!   that its client gave up may never be executed. It may also be executed with a lost response, or at any later time.
//! - **Time** (`time.rs`). A tick is one heartbeat. A tick while something has to be done is a *delay*, and the number
//!   of delays is limited. It represents a slow network, a slow driver, and a process that is paused. A body takes any
//!   time.
//! - Crashes, futures that are dropped at any moment, and callers that do not poll.
//!
//! # What is not
//!
//! - All clocks run at the same rate: there is neither a margin nor the allowance of 1 %. The store is one server that
//!   keeps its data. So there is no epoch, and a new connection only means lost messages. With one exception, leases do
//!   not depend on the clock that is set back. When a lock expires, the clock is beyond its token, unless the token was
//!   ahead of the clock from the beginning.
//! - A tick is coarse: there are no pauses between two attempts, and no slack at the end of a lease.
//! - A script is executed completely or not at all. The only error is a missing response. Memory is never full.
//! - A step of a process is atomic, as it is under the mutex of the local queues. The work of the shell around it is
//!   not modelled: wakers, the driver as a task, its start and its end.
//! - A tombstone outlives every request. So does the number of a depth change.
//! - Messages arrive all the time, or are lost. No message says that another process has begun to wait, so turns in
//!   memory always have a bound. They are not ended by the time, either. There are no waits with a limit, `no_wait`,
//!   `max_hold`, `OnLost::KeepRunning`, inspect and force_release, and no classic programs. All TTLs are equal, except
//!   that of the re-entry. No keys are deleted, so no earlier lock leaves anything in the line. There are no several
//!   keys. Each reader is renewed by itself.
//! - A caller that finds that its lease has expired before it was polled releases the lock, and sends no further
//!   request. In the model, that is done by the next waiter.
//! - Requests have no order on their connection, which allows more than can really happen.
//! - Only a client repeats an acquire that it had given up: nothing below it resends. Any other request may be executed
//!   twice without its knowledge.
//!
//! # Bounds
//!
//! The numbers of processes, waiters and mishaps are bounded (`config.rs`). Time is not bounded. Instants are moved
//! with the time, and tokens are numbered again in each state, so the number of states is finite. The checker
//! distinguishes states by a hash of 64 bits.
//!
//! `cargo test --test unit model -- --nocapture` prints what was searched. `REENTRY_MODEL=deep` searches further, and
//! should be run with `--release`. `REENTRY_MODEL=stories` shows how each broken rule goes wrong.

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
    self, Crashes, Delays, Drops, Duplicates, LostMessages, Reentries, Setbacks, Timeouts,
};
use config::Config;
use protocol::Protocol;
use state::State;
use stateright::{Checker, HasDiscoveries, Model, Path};
use step::Step;

/// A promise that is broken, with the steps that led to it.
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
fn queues_of_several_processes_hand_the_lock_on() {
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
fn dead_readers_do_not_block_a_writer() {
    for processes in [&["r", "r", "w"], &["r", "w", "w"]] {
        let config = Config::of(processes).with(&[Crashes(1)]);
        holds(config, &[Delays(1), LostMessages(1)]);
    }
}

#[test]
fn no_more_callers_enter_than_there_are_permits() {
    let config = Config::of(&["2", "2", "2"]);
    holds(config, &[Delays(1), Timeouts(1)]);
    let lines = usual_or_deep(&["22", "1"], &["22", "1w"]);
    holds(Config::of(lines), &[Delays(1)]);
    let config = Config::of(&["w", "1"]);
    holds(config.with(&[Timeouts(1)]), &[Delays(1)]);
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

/// The order of tokens, as far as it is promised: when a lock moves, and after a lease that expired.
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

/// Every promise holds, whatever happens within these bounds. A deep search also includes what may happen beyond them.
fn holds(config: Config, further: &[Chance]) {
    let config = config.with(usual_or_deep(&[], further));
    if let Some((promise, path)) = search(config, None) {
        panic!("{config}: `{promise}` is violated\n{}", story(&path));
    }
}

fn usual_or_deep<T>(usual: T, deep: T) -> T {
    if asked_for("deep") { deep } else { usual }
}

/// Visits every state, or the states up to the first violation, in the order of their depth.
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

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

use broken::{BROKEN, Broken};
use config::{Chances, Config};
use protocol::Protocol;
use state::State;
use stateright::{Checker, HasDiscoveries, Model, Path};
use step::Step;

const NONE: Chances = Chances::NONE;

/// A promise that is broken, and how it came to that.
type Violation = (&'static str, Path<State, Step>);

#[test]
fn late_and_lost_requests_break_no_promise() {
    let usual = Chances {
        delays: 3,
        timeouts: 1,
        ..NONE
    };
    let deep = Chances {
        timeouts: 2,
        duplicates: 1,
        ..usual
    };
    holds(Config::of(2, 1), usual, deep);
}

#[test]
fn lost_messages_and_dead_processes_are_overcome() {
    let usual = Chances {
        delays: 2,
        lost_messages: 1,
        crashes: 1,
        ..NONE
    };
    let deep = Chances {
        delays: 3,
        timeouts: 1,
        drops: 1,
        ..usual
    };
    holds(Config::of(2, 1), usual, deep);
    holds(Config::of(2, 1).slow_polls(), usual, deep);
}

#[test]
fn a_dropped_future_leaves_nothing_behind() {
    let usual = Chances { drops: 1, ..NONE };
    let deep = Chances { delays: 1, ..usual };
    holds(Config::of(2, 2), usual, deep);
    let usual = Chances {
        delays: 1,
        timeouts: 1,
        duplicates: 1,
        drops: 1,
        ..NONE
    };
    let deep = Chances { delays: 2, ..usual };
    holds(Config::of(1, 2), usual, deep);
}

#[test]
fn nested_entries_count_once() {
    let usual = Chances {
        delays: 1,
        duplicates: 1,
        reentries: 1,
        ..NONE
    };
    let deep = Chances {
        timeouts: 1,
        ..usual
    };
    holds(Config::of(2, 1), usual, deep);
    let usual = Chances {
        delays: 2,
        timeouts: 1,
        duplicates: 1,
        drops: 1,
        reentries: 1,
        ..NONE
    };
    let deep = Chances {
        reentries: 2,
        ..usual
    };
    holds(Config::of(1, 1), usual, deep);
}

#[test]
fn lines_pass_the_lock_on() {
    let deep = Chances {
        timeouts: 1,
        ..NONE
    };
    holds(Config::of(2, 2), NONE, deep);
    let deep = Chances {
        timeouts: 1,
        drops: 1,
        ..NONE
    };
    holds(Config::of(2, 2).strict(), NONE, deep);
    let usual = Chances { delays: 1, ..NONE };
    let deep = Chances {
        timeouts: 1,
        crashes: 1,
        ..usual
    };
    holds(Config::of(3, 1), usual, deep);
}

#[test]
fn readers_share_and_writers_exclude() {
    let usual = Chances { delays: 1, ..NONE };
    let deep = Chances {
        timeouts: 1,
        ..usual
    };
    holds(Config::of(3, 1).reading(&[1, 1, 0]), usual, deep);
    holds(Config::of(2, 2).reading(&[0b11, 0b00]), NONE, usual);
    holds(Config::of(2, 2).reading(&[0b01, 0b10]), NONE, usual);
    let usual = Chances {
        timeouts: 1,
        drops: 1,
        ..NONE
    };
    let deep = Chances {
        delays: 1,
        duplicates: 1,
        ..usual
    };
    holds(Config::of(1, 3).reading(&[0b011]), usual, deep);
    holds(Config::of(2, 1).reading(&[1, 0]), deep, deep);
}

#[test]
fn dead_readers_keep_no_writer_out() {
    let usual = Chances { crashes: 1, ..NONE };
    let deep = Chances {
        delays: 1,
        lost_messages: 1,
        ..usual
    };
    holds(Config::of(3, 1).reading(&[1, 1, 0]), usual, deep);
    holds(Config::of(3, 1).reading(&[1, 0, 0]), usual, deep);
}

#[test]
fn a_writer_goes_on_as_a_reader() {
    let usual = Chances {
        delays: 1,
        timeouts: 1,
        downgrades: 1,
        ..NONE
    };
    let deep = Chances {
        duplicates: 1,
        drops: 1,
        ..usual
    };
    holds(Config::of(2, 1).reading(&[0, 1]), usual, deep);
    let usual = Chances {
        downgrades: 1,
        ..NONE
    };
    let deep = Chances {
        timeouts: 1,
        ..usual
    };
    holds(Config::of(3, 1).reading(&[0, 1, 0]), usual, deep);
}

#[test]
fn permits_let_in_no_more_than_their_limits() {
    let usual = Chances { delays: 1, ..NONE };
    let deep = Chances {
        timeouts: 1,
        ..usual
    };
    holds(Config::of(3, 1).permits(&[2, 2, 2]), usual, deep);
    holds(Config::of(2, 2).permits(&[2, 2, 1, 0]), NONE, usual);
    let usual = Chances {
        timeouts: 1,
        downgrades: 1,
        ..NONE
    };
    let deep = Chances { delays: 1, ..usual };
    holds(Config::of(2, 1).permits(&[0, 1]), usual, deep);
}

#[test]
fn permits_of_the_dead_and_the_dropped_are_free_again() {
    let usual = Chances { crashes: 1, ..NONE };
    let deep = Chances {
        delays: 1,
        lost_messages: 1,
        ..usual
    };
    holds(Config::of(3, 1).permits(&[2, 1, 2]), usual, deep);
    holds(Config::of(3, 1).permits(&[1, 1, 0]), usual, deep);
    let usual = Chances {
        timeouts: 1,
        drops: 1,
        ..NONE
    };
    let deep = Chances {
        delays: 1,
        duplicates: 1,
        ..usual
    };
    holds(Config::of(1, 3).permits(&[2, 1, 2]), usual, deep);
    holds(Config::of(2, 1).permits(&[1, 1]), deep, deep);
}

/// As far as they are promised: where a lock moves, and after a lease that ran out.
#[test]
fn tokens_grow_where_a_lock_moves_whatever_the_clock_does() {
    let usual = Chances {
        delays: 1,
        timeouts: 1,
        setbacks: 1,
        ..NONE
    };
    let deep = Chances {
        crashes: 1,
        ..usual
    };
    holds(Config::of(2, 1), usual, deep);
    let usual = Chances {
        setbacks: 1,
        crashes: 1,
        ..NONE
    };
    let deep = Chances {
        setbacks: 2,
        ..usual
    };
    holds(Config::of(2, 2), usual, deep);
}

#[test]
fn every_broken_rule_breaks_a_promise() {
    let mut unnoticed = Vec::new();
    for &Broken {
        mutation,
        promise,
        config,
    } in BROKEN
    {
        let found = search(config.broken(mutation), Some(promise));
        let Some((_, path)) = found else {
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

/// Every promise holds, whatever happens within these bounds.
fn holds(config: Config, usual: Chances, deep: Chances) {
    let chances = if asked_for("deep") { deep } else { usual };
    let config = config.with(chances);
    if let Some((promise, path)) = search(config, None) {
        panic!("{config}: `{promise}` is violated\n{}", story(&path));
    }
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

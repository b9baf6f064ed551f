//! Deterministic simulation. The real code runs over the in-memory store, behind a network and a server that fail, on
//! paused time. All random choices follow from one seed, so a run that went wrong can be repeated.
//!
//! Mounted by `src/lib.rs` as `simulation`.
//!
//! | file | gives |
//! |---|---|
//! | `climate` | what may go wrong in a run, and what may then be expected |
//! | `server` | the store, which restarts, forgets, blocks, and whose clock is stepped |
//! | `link` | the connection of one process: loss, delay, duplicates, responses out of order |
//! | `wire` | what the connection and the inbox of one process share |
//! | `mailbox` | the delivery of the messages that a lock has moved |
//! | `ledger` | who is inside, who got which token, what the protected resource accepted |
//! | `program` | what the tasks do with the locks; `nested`: what they do inside a lock; `members`: the work that they leave behind; `readers`: what readers do |
//! | `process` | several tasks on one `Locks`, which may be killed |
//! | `calamity` | what happens to the server and the processes while they work |
//! | `run` | one run, from its seed to its end |
//! | `far` | a store that is far away, or too slow |
//! | `siblings` | nested entries below one holder |
//! | `sweep` | every future dropped after every poll, with each fault in flight |
//!
//! `REENTRY_SEED=7` runs only that seed and prints what happened in it. `REENTRY_SEEDS=10000` runs that many seeds of
//! each kind.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test ends where its ground gives way"
)]

use std::env;

use self::climate::Climate;
use self::run::run;

mod calamity;
mod climate;
mod far;
mod ledger;
mod link;
mod mailbox;
mod process;
mod program;
mod run;
mod server;
mod siblings;
mod sweep;
mod wire;

/// The number of seeds of each kind of run.
const SEEDS: u64 = 30;

fn number(variable: &str) -> Option<u64> {
    let value = env::var(variable).ok()?;
    Some(value.parse().expect("a number"))
}

/// Runs the seeds of one climate. The first that goes wrong ends the test.
fn survive(name: &str, climate: Climate) {
    let only = number("REENTRY_SEED");
    let seeds = match only {
        Some(seed) => seed..seed + 1,
        None => 0..number("REENTRY_SEEDS").unwrap_or(SEEDS),
    };
    let (mut sections, mut losses, mut seconds) = (0, 0, 0.0);
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let report = run(climate, seed);
        if only.is_some() {
            report.trace.iter().for_each(|line| println!("{line}"));
        }
        assert!(
            report.violations.is_empty(),
            "seed {seed}: {}\nto see it: REENTRY_SEED={seed} cargo test --test unit {name} -- --nocapture",
            report.violations.join("; "),
        );
        sections += report.sections;
        losses += report.losses;
        seconds += report.lasted.as_secs_f64();
    }
    println!(
        "{name}: {count} seeds, {sections} sections, {losses} losses, {:.0} hours",
        seconds / 3600.0
    );
}

/// A test for each kind of run.
macro_rules! climates {
    ($($name:ident: $climate:expr;)+) => {
        $(#[test]
        fn $name() {
            survive(stringify!($name), $climate);
        })+
    };
}

climates! {
    nothing_goes_wrong_in_calm: Climate::CALM;
    nothing_goes_wrong_while_messages_are_lost: Climate { messages: true, ..Climate::CALM };
    nothing_goes_wrong_while_inboxes_flap: Climate { flaps: true, ..Climate::CALM };
    nothing_goes_wrong_on_a_bad_network: Climate { messages: true, network: true, ..Climate::CALM };
    nothing_goes_wrong_while_the_server_restarts: Climate { restarts: true, network: true, ..Climate::CALM };
    nothing_goes_wrong_while_all_processes_pause: Climate { pauses: true, network: true, ..Climate::CALM };
    nothing_goes_wrong_while_processes_are_killed: Climate { kills: true, network: true, ..Climate::CALM };
    a_lock_that_was_deleted_is_noticed_by_its_holder: Climate { data_loss: true, ..Climate::CALM };
    tokens_protect_while_data_is_lost: Climate { data_loss: true, restarts: true, network: true, ..Climate::CALM };
    tokens_protect_while_the_clock_is_set_ahead: Climate { clock_ahead: true, network: true, ..Climate::CALM };
    leases_hold_while_the_clock_is_set_back: Climate { clock_back: true, network: true, ..Climate::CALM };
    tokens_protect_whatever_happens: Climate {
        clock_back: false,
        ..Climate::WILD
    };
}

/// Without this, a seed would not identify a run.
#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..4 {
        let [one, other] = [(); 2].map(|()| run(Climate::WILD, seed).trace);
        let differs = one.iter().zip(&other).position(|(one, other)| one != other);
        if let Some(line) = differs {
            panic!("seed {seed}, line {line}: {} / {}", one[line], other[line]);
        }
        assert_eq!(one.len(), other.len(), "seed {seed}");
    }
}

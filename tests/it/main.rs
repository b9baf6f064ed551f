//! The integration tests: the behaviour of the crate for a program, on real servers and in memory.
//!
//! | folder | what its tests are about |
//! |---|---|
//! | `calls` | which callers enter: the call graph, guards, futures, options |
//! | `leases` | how long a lock is held: renewals, losses, outages, fencing tokens |
//! | `fence` | databases that reject the writes of a stale holder |
//! | `queue` | which waiter is next, and what waiting costs |
//! | `readers` | locks that are shared |
//! | `several_keys` | several locks that are acquired together |
//! | `deadlocks` | call graphs that wait for each other, and what finding them costs |
//! | `faults` | dropped futures, lost and repeated requests, lost data |
//! | `testing` | the server in memory for users' tests |
//! | `setup` | permissions, secrets, TLS, and the repository itself |
//! | `macros` | `#[locked]` |
//! | `examples` | the examples that are services, and the first one, in separate processes |
//!
//! They share one process, so none of them changes its global state: an installed `Locks`, a panic hook, a subscriber
//! of events. A test that does so is a separate binary, in the folder above.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test ends where its ground gives way"
)]

#[path = "../support/mod.rs"]
mod support;

/// The root of the repository, which some tests read.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

mod calls {
    mod abrupt_end;
    mod branches;
    mod close;
    mod depth;
    mod flat;
    mod futures;
    mod guards;
    mod moved_futures;
    mod options;
    mod program_ends;
    mod spawned;
    mod spawned_ends;
    mod storm;
    mod threads;
    mod unpolled;
}

mod leases {
    mod forced;
    mod grace;
    mod holder_dies;
    mod leader;
    mod levels;
    mod loss;
    mod max_hold;
    mod min_hold;
    mod outage;
    mod watchdog;
}

mod fence {
    mod ground;
    mod isolation;
    mod session;
    mod sessions;
    mod settings;
    mod tokens;
}

mod queue {
    mod classic;
    mod cohorts;
    mod commands;
    mod commands_contended;
    mod inbox;
    mod messages;
    mod moves;
    mod retries;
    mod spawned;
    mod timeouts;
    mod waiting;
    mod wanted;
    mod wire;
}

mod readers {
    mod semaphore;
    mod sharing;
}

mod deadlocks {
    mod cycles;
    mod ground;
    mod none;
    mod several;
}

mod faults {
    mod cancel;
    mod connect_fails;
    mod connections;
    mod data_lost;
    mod disk_full;
    mod forked;
    mod limits;
    mod logins;
    mod memory_limit;
    mod pace;
    mod resend;
    mod runtimes;
    mod unconfirmed;
}

mod several_keys {
    mod commands;
    mod left_alone;
    mod losses;
    mod shared;
    mod taking;
}

mod testing {
    mod closing;
    mod data_and_clock;
    mod nested;
    mod outages;
    mod replicas;
}

mod setup {
    mod acl;
    mod connections;
    #[cfg(feature = "credentials")]
    mod credentials;
    mod glossary;
    mod inspection;
    mod layers;
    mod lazy;
    mod links;
    mod login;
    mod options;
    mod processes;
    mod programs;
    mod reliability;
    mod secrets;
    #[cfg(feature = "tls")]
    mod tls;
}

#[cfg(feature = "macros")]
mod macros {
    mod arguments;
    mod functions;
    mod held;
    mod locked;
    mod methods;
    mod options;
    mod readers;
    mod several;
}

// They use `#[locked]`.
#[cfg(feature = "macros")]
mod examples {
    mod fenced_writes;
    mod migration;
    mod recursive;
}

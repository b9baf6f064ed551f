//! The tests of the command line: each test starts the program as a user would, with its own servers.
//!
//! There is one module for each subcommand. `program` starts the program.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test ends where its ground gives way"
)]

#[cfg(unix)]
mod addresses;
mod bench;
mod completions;
mod fence;
mod help;
#[cfg(unix)]
mod hold;
mod look;
mod man;
#[cfg(unix)]
mod nightly_backup;
#[cfg(unix)]
mod page;
#[cfg(unix)]
mod password;
mod program;

#[cfg(unix)]
mod run {
    #[cfg(target_os = "linux")]
    mod containers;
    mod contention;
    mod ends;
    mod environment;
    mod losses;
    mod permits;
    mod refusals;
    mod signals;
    mod terminal;
    mod words;
}

/// The support code of the integration tests of the library.
#[path = "../../../tests/support"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the tests of the library use the rest of it"
)]
mod support {
    pub mod admin;
    pub mod cluster;
    pub mod config;
    pub mod leftovers;
    pub mod ports;
    pub mod process;
    pub mod program;
    pub mod replication;
    pub mod sentinel;
    pub mod server;
    pub mod stats;
    pub mod tls;
    pub mod wait;

    pub use cluster::Cluster;
    pub use sentinel::SentinelSet;
    pub use server::RedisServer;
}

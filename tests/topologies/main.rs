//! Tests with several servers: a primary with sentinels, and a cluster.
//!
//! They are in a separate binary, because each test starts six servers.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test ends where its ground gives way"
)]

#[cfg(feature = "credentials")]
#[path = "../support/rotation.rs"]
mod rotation;
#[path = "../support/mod.rs"]
mod support;

mod cluster {
    mod access;
    mod commands;
    mod down;
    mod drops;
    mod failover;
    mod features;
    mod inbox;
    pub(crate) mod kit;
    mod moves;
    mod outage;
    mod pace;
    mod seeds;
    mod several;
}

mod confirmation;
#[cfg(feature = "credentials")]
mod credentials;
mod processes;

mod sentinel {
    pub(crate) mod ground;
    mod in_the_middle;
    mod logins;
    mod pace;
    mod refusals;
    mod unplanned;
    mod watching;
}

//! The observability: events, spans and metrics. Each test has a subscriber, or a recorder, of its own.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test ends where its ground gives way"
)]

#[path = "../support/mod.rs"]
mod support;

mod alerts;
mod events;
mod metrics;
mod page;
mod prometheus;
mod scrape;
mod spans;
mod trace;

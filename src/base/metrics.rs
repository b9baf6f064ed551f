//! What is counted, with the feature `metrics`, by the names and labels that `docs/observability/README.md` lists.
//!
//! No key is a label. Where the builder was given a classifier, `class` is what it says of the key.

use std::time::Duration;

#[cfg(feature = "metrics")]
use tokio::time::Instant;

#[cfg(feature = "metrics")]
mod facade;
mod names;
#[cfg(not(feature = "metrics"))]
mod silent;

#[cfg(feature = "metrics")]
pub(crate) use self::facade::{Class, describe};
#[cfg(feature = "metrics")]
use self::facade::{change, count, observe};
use self::names::{
    ACQUISITIONS, BACKGROUND, CONNECTIONS, DISCONNECTS, HANDOFFS, HOLD, HOLDS, LOSSES, REENTRIES,
    RENEWALS, SUBSCRIBE_FAILURES, WAIT, WAITERS,
};
#[cfg(not(feature = "metrics"))]
pub(crate) use self::silent::describe;
#[cfg(not(feature = "metrics"))]
use self::silent::{change, count, observe};
use crate::base::{key::LockKey, mode::Mode};

/// For how long something has lasted. Without the feature no clock is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(#[cfg(feature = "metrics")] Instant);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(
            #[cfg(feature = "metrics")]
            Instant::now(),
        )
    }

    #[cfg(feature = "metrics")]
    fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    #[cfg(not(feature = "metrics"))]
    fn elapsed(self) -> Duration {
        Duration::ZERO
    }
}

/// How a lock came to its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) enum Via {
    /// It was free when it was asked for.
    Request,
    /// The release of another hold of this process named the waiter.
    Release,
    /// In memory, from another call graph of this process.
    Memory,
    /// The message of another process.
    Message,
    /// A question at a heartbeat, where a message should have come.
    Heartbeat,
}

impl Via {
    /// The label, unless nothing was handed off.
    fn label(self) -> Option<&'static str> {
        match self {
            Self::Request => None,
            Self::Release => Some("release"),
            Self::Memory => Some("memory"),
            Self::Message => Some("message"),
            Self::Heartbeat => Some("heartbeat"),
        }
    }
}

/// What a renewal came to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Renewal {
    Confirmed,
    Gone,
    /// There was no answer, or not in time.
    Unanswered,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Commands,
    Messages,
}

pub(crate) fn acquisition_began(key: &LockKey, mode: Mode) {
    change(&WAITERS, Some(key), 1.0, &[("mode", mode.name())]);
}

pub(crate) fn acquisition_ended(
    key: &LockKey,
    mode: Mode,
    outcome: &'static str,
    waited: impl FnOnce() -> Duration,
) {
    let mode = ("mode", mode.name());
    let labels = &[mode, ("outcome", outcome)];
    change(&WAITERS, Some(key), -1.0, &[mode]);
    count(&ACQUISITIONS, Some(key), labels);
    observe(&WAIT, Some(key), waited, labels);
}

pub(crate) fn hold_began(key: &LockKey, via: Via) {
    change(&HOLDS, Some(key), 1.0, &[]);
    if let Some(via) = via.label() {
        count(&HANDOFFS, Some(key), &[("via", via)]);
    }
}

pub(crate) fn hold_ended(key: &LockKey, mode: Mode, since: Stopwatch) {
    change(&HOLDS, Some(key), -1.0, &[]);
    observe(
        &HOLD,
        Some(key),
        || since.elapsed(),
        &[("mode", mode.name())],
    );
}

pub(crate) fn reentered(key: &LockKey) {
    count(&REENTRIES, Some(key), &[]);
}

pub(crate) fn renewed(key: &LockKey, answer: Renewal) {
    let answer = match answer {
        Renewal::Confirmed => "renewed",
        Renewal::Gone => "gone",
        Renewal::Unanswered => "unknown",
    };
    count(&RENEWALS, Some(key), &[("answer", answer)]);
}

pub(crate) fn lost(key: &LockKey, reason: &'static str) {
    count(&LOSSES, Some(key), &[("reason", reason)]);
}

pub(crate) fn connected(purpose: Purpose) {
    let purpose = match purpose {
        Purpose::Commands => "commands",
        Purpose::Messages => "messages",
    };
    count(&CONNECTIONS, None, &[("purpose", purpose)]);
}

pub(crate) fn subscribe_failed() {
    count(&SUBSCRIBE_FAILURES, None, &[]);
}

pub(crate) fn disconnected() {
    count(&DISCONNECTS, None, &[]);
}

/// So many releases more, or less, go on in the background.
pub(crate) fn background(change_by: f64) {
    change(&BACKGROUND, None, change_by, &[]);
}

//! The report of an outermost acquisition: its span, its outcome, and how long it took.

use tokio::time::Instant;

use crate::base::error::LockError;
use crate::base::key::LockKey;
use crate::base::metrics;
use crate::base::mode::Mode;
use crate::base::span::Span;

/// Reports an acquisition until it ends. An acquisition that is dropped before its end was cancelled.
pub(crate) struct Acquisition<'a> {
    keys: &'a [LockKey],
    mode: Mode,
    since: Instant,
    span: Span,
    outcome: &'static str,
}

impl<'a> Acquisition<'a> {
    /// An acquisition of these keys begins.
    pub(crate) fn begin(keys: &'a [LockKey], mode: Mode, since: Instant) -> Self {
        for key in keys {
            metrics::acquisition_began(key.class(), mode);
        }
        Self {
            keys,
            mode,
            since,
            span: Span::wait(keys, mode),
            outcome: "cancelled",
        }
    }

    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// Returns the result of a step as it is, and notes its error, which ends the acquisition.
    pub(crate) fn noted<T>(&mut self, step: Result<T, LockError>) -> Result<T, LockError> {
        step.inspect_err(|error| {
            self.outcome = outcome(error);
            // A caller may ask only whether the lock is free, so a busy lock is no failure.
            if !matches!(error, LockError::Busy { .. }) {
                self.span.fail(self.outcome);
            }
        })
    }

    pub(crate) fn succeed(mut self) {
        self.outcome = "acquired";
    }
}

impl Drop for Acquisition<'_> {
    fn drop(&mut self) {
        self.span.end(self.outcome);
        for key in self.keys {
            metrics::acquisition_ended(key.class(), self.mode, self.outcome, self.since);
        }
    }
}

/// The outcome of an acquisition that ended with `error`, as spans and metrics name it.
fn outcome(error: &LockError) -> &'static str {
    match error {
        LockError::Busy { .. } => "busy",
        LockError::Timeout { .. } => "timeout",
        LockError::Deadlock { .. } => "deadlock",
        LockError::Unconfirmed { .. } => "unconfirmed",
        LockError::Closed { .. } => "closed",
        LockError::Lost { .. } => "lost",
        LockError::Store { .. } => "store",
        // No request is sent for these.
        LockError::AlreadyHeld { .. }
        | LockError::Upgrade { .. }
        | LockError::InUse { .. }
        | LockError::InvalidKey { .. }
        | LockError::Config { .. }
        | LockError::NoLocks { .. }
        | LockError::AlreadyInstalled => "refused",
    }
}

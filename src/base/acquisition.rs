//! An outermost acquisition as it is seen from outside: its span, what it came to, and how long that took.

use tokio::time::Instant;

use crate::base::{error::LockError, key::LockKey, metrics, mode::Mode, span::Span};

/// Reports an acquisition until it ends. One that is dropped before was cancelled.
pub(crate) struct Acquisition<'a> {
    keys: &'a [LockKey],
    mode: Mode,
    since: Instant,
    span: Span,
    outcome: &'static str,
}

impl<'a> Acquisition<'a> {
    /// One of the locks of these keys begins.
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

    /// What a step of it came to, as it was. It ends with an error.
    pub(crate) fn noted<T>(&mut self, step: Result<T, LockError>) -> Result<T, LockError> {
        step.inspect_err(|error| {
            self.outcome = outcome(error);
            // To find a lock busy is what a caller may ask for.
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

/// In spans and metrics.
fn outcome(error: &LockError) -> &'static str {
    match error {
        LockError::Busy { .. } => "busy",
        LockError::Timeout { .. } => "timeout",
        LockError::Deadlock { .. } => "deadlock",
        LockError::Unconfirmed { .. } => "unconfirmed",
        LockError::Closed { .. } => "closed",
        LockError::Lost { .. } => "lost",
        LockError::Store { .. } => "store",
        // Nothing is sent for these.
        LockError::AlreadyHeld { .. }
        | LockError::Upgrade { .. }
        | LockError::InUse { .. }
        | LockError::InvalidKey { .. }
        | LockError::Config { .. }
        | LockError::NoLocks { .. }
        | LockError::AlreadyInstalled => "refused",
    }
}

//! The spans of `tracing`: `lock.wait` around the wait for a lock, and `lock.hold` around holding it.
//!
//! Both have the fields `key`, which lists all keys if there are several, and `mode`. A wait has `outcome`. A hold has
//! `hold` and `token`. A failed wait or hold has `error.type` and `otel.status_code`, which are names from
//! OpenTelemetry's conventions.

use std::borrow::Cow;
use std::sync::Arc;

use tokio::time::Instant;
use tracing::field::Empty;
use tracing::span::Id;
use tracing::{Instrument, info_span};

use crate::base::error::LockError;
use crate::base::events;
use crate::base::id::{FencingToken, HoldId};
use crate::base::key::LockKey;
use crate::base::metrics;
use crate::base::options::Mode;

/// A span, or nothing if no subscriber wants it. Cloning it does not call the subscriber.
#[derive(Clone, Debug, Default)]
pub(crate) struct Span(Option<Arc<Open>>);

#[derive(Debug)]
struct Open {
    span: tracing::Span,
    /// The span that was entered when this one was opened.
    parent: Option<Id>,
}

impl Span {
    /// Opens the span of a wait for the locks of one acquisition.
    pub(crate) fn wait(keys: &[LockKey], mode: Mode) -> Self {
        Self::open(info_span!(
            target: "reentry",
            "lock.wait",
            key = &*names(keys),
            mode = mode.name(),
            outcome = Empty,
            error.type = Empty,
            otel.status_code = Empty,
        ))
    }

    /// Opens the span of a hold.
    pub(crate) fn hold(keys: &[LockKey], mode: Mode, hold: HoldId, token: FencingToken) -> Self {
        Self::open(info_span!(
            target: "reentry",
            "lock.hold",
            key = &*names(keys),
            mode = mode.name(),
            %hold,
            token = token.0,
            error.type = Empty,
            otel.status_code = Empty,
        ))
    }

    /// The span that the caller has entered.
    pub(crate) fn current() -> Self {
        Self::open(tracing::Span::current())
    }

    fn open(span: tracing::Span) -> Self {
        let is_open = !span.is_disabled();
        Self(is_open.then(|| {
            // The subscriber is asked for its current span only if it wants this one.
            let parent = tracing::Span::current().id();
            Arc::new(Open { span, parent })
        }))
    }

    /// Returns the span only if the caller is in the span in which it was opened. No other span may be hidden.
    pub(crate) fn unless_elsewhere(self) -> Self {
        let is_here = |open: &Arc<Open>| tracing::Span::current().id() == open.parent;
        Self(self.0.filter(is_here))
    }

    pub(crate) fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Wraps a future, which is polled and dropped inside the span.
    pub(crate) fn around<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        let span = self.0.as_ref().map(|open| open.span.clone());
        future.instrument(span.unwrap_or_else(tracing::Span::none))
    }

    pub(crate) fn in_scope<T>(&self, work: impl FnOnce() -> T) -> T {
        match &self.0 {
            Some(open) => open.span.in_scope(work),
            None => work(),
        }
    }

    /// Records the outcome of a wait.
    pub(crate) fn end(&self, outcome: &'static str) {
        if let Some(open) = &self.0 {
            open.span.record("outcome", outcome);
        }
    }

    /// Records that the wait or the hold has failed.
    pub(crate) fn fail(&self, kind: &'static str) {
        if let Some(open) = &self.0 {
            open.span.record("error.type", kind);
            open.span.record("otel.status_code", "ERROR");
        }
    }
}

/// The keys in the store, as one text.
fn names(keys: &[LockKey]) -> Cow<'_, str> {
    match keys {
        [key] => Cow::Borrowed(key.as_str()),
        keys => {
            let names: Vec<_> = keys.iter().map(LockKey::as_str).collect();
            Cow::Owned(names.join(", "))
        }
    }
}

/// Reports an acquisition until it ends. An acquisition that is dropped before its end counts as cancelled.
pub(crate) struct AcquisitionSpan<'a> {
    keys: &'a [LockKey],
    mode: Mode,
    since: Instant,
    span: Span,
    outcome: &'static str,
}

impl<'a> AcquisitionSpan<'a> {
    /// Begins the report of an acquisition of these keys.
    pub(crate) fn begin(keys: &'a [LockKey], mode: Mode, since: Instant) -> Self {
        // Each lock counts by itself, also those that are acquired together.
        for key in keys {
            metrics::acquisition_began(key.class(), mode);
        }
        Self {
            keys,
            mode,
            since,
            span: Span::wait(keys, mode),
            // It stays if the caller drops the acquisition before it has an outcome.
            outcome: "cancelled",
        }
    }

    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// Returns the result of a step unchanged, and records its error, which ends the acquisition.
    pub(crate) fn note_error<T>(&mut self, step: Result<T, LockError>) -> Result<T, LockError> {
        step.inspect_err(|error| {
            self.outcome = outcome(error);
            let (keys, waited) = (names(self.keys), self.since.elapsed());
            match error {
                LockError::Unavailable { source } => events::unavailable(&keys, waited, source),
                LockError::Misuse { .. } => events::misused(&keys, waited, error),
                _ => {}
            }
            // A caller may only want to know whether the lock is free, so a busy lock is not a failure.
            if self.outcome != BUSY {
                self.span.fail(self.outcome);
            }
        })
    }

    pub(crate) fn succeed(mut self) {
        self.outcome = "acquired";
    }
}

impl Drop for AcquisitionSpan<'_> {
    fn drop(&mut self) {
        // Whatever has ended it, also a caller that has dropped it.
        self.span.end(self.outcome);
        for key in self.keys {
            metrics::acquisition_ended(key.class(), self.mode, self.outcome, self.since);
        }
    }
}

/// The outcome of a single attempt at a lock that is held.
const BUSY: &str = "busy";

/// The outcome of an acquisition that ended with `error`, as spans and metrics name it.
fn outcome(error: &LockError) -> &'static str {
    match error {
        // A single attempt does not wait.
        LockError::Busy { waited, .. } if waited.is_zero() => BUSY,
        LockError::Busy { .. } => "timeout",
        LockError::Deadlock { .. } => "deadlock",
        LockError::Closed => "closed",
        LockError::Lost { .. } => "lost",
        LockError::Unavailable { .. } => "unavailable",
        LockError::Misuse { .. } => "misuse",
    }
}

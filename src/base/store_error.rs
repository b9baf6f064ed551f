//! The error of a request to the store.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

/// An error of the store: the connection failed, the server rejected the request, or its answer cannot be read.
///
/// The type is opaque on purpose: its [`source`](Error::source) is a text, so that the types of the Redis client are no
/// part of this interface.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), reentry::LockError> {
/// use reentry::{LockError, Locks};
/// use std::error::Error;
///
/// let away = Locks::connect("redis://127.0.0.1:1").await;
/// let Err(LockError::Store { source, .. }) = away else { panic!("no server is there") };
/// println!("{source}"); // connecting failed at 127.0.0.1:1
/// assert!(source.source().is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct StoreError(Arc<StoreFault>);

/// The answer of a store to one request.
pub(crate) type Answer<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

struct StoreFault {
    step: &'static str,
    endpoint: Arc<str>,
    effect: Effect,
    cause: Box<dyn Error + Send + Sync>,
}

/// What a failed request may have done, and whether it makes sense to send it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The request may have been executed, or may still be.
    Unknown,
    /// The request was not executed. Another attempt may succeed.
    None,
    /// The request was not executed: the server, or a proxy before it, rejects the process. A caller without a lock fails at
    /// once. A caller with a lock asks again, since a password may be corrected.
    TurnedAway,
    /// The request was not executed, and never will be: another attempt is of no use.
    Refused,
}

impl Effect {
    /// Whether a caller without a lock gives up.
    pub(crate) fn is_refused(self) -> bool {
        matches!(self, Self::TurnedAway | Self::Refused)
    }
}

impl StoreError {
    pub(crate) fn new(
        step: &'static str,
        endpoint: &Arc<str>,
        effect: Effect,
        cause: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        let endpoint = Arc::clone(endpoint);
        Self(Arc::new(StoreFault {
            step,
            endpoint,
            effect,
            cause: cause.into(),
        }))
    }

    pub(crate) fn effect(&self) -> Effect {
        self.0.effect
    }

    /// See [`Effect::is_refused`].
    pub(crate) fn is_refused(&self) -> bool {
        self.effect().is_refused()
    }

    /// Whether the request may have been executed although no answer came.
    #[must_use]
    pub fn is_outcome_unknown(&self) -> bool {
        self.effect() == Effect::Unknown
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed at {}", self.0.step, self.0.endpoint)
    }
}

impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreError")
            .field("step", &self.0.step)
            .field("endpoint", &self.0.endpoint)
            .field("effect", &self.0.effect)
            .field("cause", &self.0.cause)
            .finish()
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0.cause)
    }
}

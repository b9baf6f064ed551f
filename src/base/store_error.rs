//! The error of a store, with what became of the request, and the mistake behind it.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use crate::base::sanitize::Sanitized;

/// An error of the store: the connection failed, the server rejected the request, or its response cannot be read.
///
/// The type is opaque on purpose. Its [`source`](Error::source) is a text, so that the types of the Redis client are
/// not a part of this interface.
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
/// let Err(LockError::Unavailable { source, .. }) = away else { panic!("no server is there") };
/// println!("{source}"); // connect failed at 127.0.0.1:1
/// assert!(source.source().is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct StoreError(Arc<StoreFault>);

/// The future of a store's response to one request.
pub(crate) type StoreFuture<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

#[derive(Debug)]
struct StoreFault {
    step: &'static str,
    endpoint: Arc<str>,
    class: FailureClass,
    mistake: Option<Mistake>,
    cause: Sanitized<Box<dyn Error + Send + Sync>>,
}

/// The mistake behind a failed request. Repeating the request is useless until the mistake is corrected, so it is no outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// The key holds the data of another program.
    NotALock,
    /// The user lacks a permission.
    Permission,
    /// The user or the password is missing or wrong.
    Login,
    /// Another wrong setting, or a bug. The cause describes it.
    Other,
}

impl Mistake {
    /// Describes the mistake, and what to do about it.
    pub(super) fn describe(self, key: Option<&str>) -> String {
        match (self, key) {
            (Self::NotALock, Some(key)) => format!(
                "`{key}` holds something other than a lock: does another program use this key, for example with SET NX?"
            ),
            (Self::Permission, Some(key)) => format!(
                "the Redis user lacks a permission for `{key}`: `reentry doctor` names what is missing"
            ),
            (Self::Permission, None) => {
                "the Redis user lacks a permission: `reentry doctor` names what is missing"
                    .to_owned()
            }
            (Self::Login, _) => {
                "Redis rejects the login: check the password and the user".to_owned()
            }
            (Self::Other, Some(key)) => format!("Redis rejects the request for `{key}`"),
            // A request about several keys names none of them.
            (Self::NotALock | Self::Other, None) => "Redis rejects the request".to_owned(),
        }
    }
}

/// What a failed request may have done, and whether it makes sense to send it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureClass {
    /// The request may have been executed, or may still be executed.
    OutcomeUnknown,
    /// The request was not executed. Another attempt may succeed.
    NotExecuted,
    /// The request was not executed, because the server, or a proxy in front of it, rejects the process. A caller
    /// without a lock fails immediately. A caller with a lock tries again, because a password may be corrected.
    AccessDenied,
    /// The request was not executed, because the user lacks a permission. Every caller fails immediately. Only a release
    /// is repeated, because permissions may be changed back.
    PermissionMissing,
    /// The request was not executed, and never will be. Another attempt is useless.
    Permanent,
}

impl FailureClass {
    /// Whether a caller without a lock gives up.
    pub(crate) fn is_denied(self) -> bool {
        self == Self::AccessDenied || self.is_rejected()
    }

    /// Whether the server rejects the request itself, and not the process.
    pub(crate) fn is_rejected(self) -> bool {
        matches!(self, Self::PermissionMissing | Self::Permanent)
    }
}

impl StoreError {
    pub(crate) fn new(
        step: &'static str,
        endpoint: &Arc<str>,
        class: FailureClass,
        cause: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        let endpoint = Arc::clone(endpoint);
        Self(Arc::new(StoreFault {
            step,
            endpoint,
            class,
            mistake: None,
            cause: Sanitized(cause.into()),
        }))
    }

    /// The error of a request that was not sent, because no connection leads to a server that may execute it.
    pub(crate) fn not_connected(
        endpoint: &Arc<str>,
        cause: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self::new("connect", endpoint, FailureClass::NotExecuted, cause)
    }

    /// The error of a request to servers whose connections were closed for good.
    pub(crate) fn closed(endpoint: &Arc<str>) -> Self {
        Self::new(
            "connect",
            endpoint,
            FailureClass::Permanent,
            "it was closed",
        )
    }

    /// Adds the mistake behind the failure to an error that was just created.
    pub(crate) fn with_mistake(mut self, mistake: Option<Mistake>) -> Self {
        // No other code has an error that was just created.
        if let Some(fault) = Arc::get_mut(&mut self.0) {
            fault.mistake = mistake;
        }
        self
    }

    /// The error that the source shows.
    pub(crate) fn cause(&self) -> &(dyn Error + 'static) {
        &*self.0.cause.0
    }

    /// The name of the server, without the password.
    pub(crate) fn endpoint(&self) -> &Arc<str> {
        &self.0.endpoint
    }

    pub(crate) fn mistake(&self) -> Option<Mistake> {
        self.0.mistake
    }

    pub(crate) fn failure_class(&self) -> FailureClass {
        self.0.class
    }

    /// See [`FailureClass::is_denied`].
    pub(crate) fn is_denied(&self) -> bool {
        self.failure_class().is_denied()
    }

    /// Returns whether the request may have been executed although no response arrived.
    #[must_use]
    pub fn is_outcome_unknown(&self) -> bool {
        self.failure_class() == FailureClass::OutcomeUnknown
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} failed at {}",
            self.0.step,
            Sanitized(&self.0.endpoint)
        )
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0.cause)
    }
}

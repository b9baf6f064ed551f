//! How a `Locks` is set up.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::base::metrics::Classifier;
use crate::base::options::{Options, Queueing};
use crate::store::records::waits::Enclosing;
use crate::store::redis::Servers;
use crate::store::redis::link::source::Source;
#[cfg(any(test, feature = "test-util"))]
use crate::store::{Store, redis::Timeouts};

mod open;
mod pool;
mod queueing;
mod servers;

/// Sets up a [`Locks`](crate::Locks); made by [`Locks::builder`](crate::Locks::builder).
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), reentry::LockError> {
/// let locks = reentry::Locks::builder()
///     .url("memory:")
///     .prefix("billing:")
///     .ttl(Duration::from_secs(10))
///     .wait(Duration::from_secs(5))
///     .build()
///     .await?;
/// assert!(locks.inspect("invoice:7").await?.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct LocksBuilder {
    url: Option<String>,
    servers: Option<Servers>,
    /// The source of connections for commands, if not the URL or the servers.
    commands: Option<Arc<dyn Source>>,
    #[cfg(any(test, feature = "test-util"))]
    pub(crate) store: Option<OpenStore>,
    prefix: String,
    pub(super) options: Options,
    pub(super) queueing: Queueing,
    pub(super) inside: Vec<Enclosing>,
    connect_timeout: Option<Duration>,
    response_timeout: Option<Duration>,
    class: Classifier,
}

/// Opens the store of one process.
#[cfg(any(test, feature = "test-util"))]
type OpenStore = Arc<dyn Fn(Timeouts) -> Arc<Store> + Send + Sync>;

impl LocksBuilder {
    /// The prefix of every key in the store (default: none). The API shows keys without it.
    ///
    /// The prefix must not begin with `reentry:`, and its first pair of braces must not be `{}`: no key would be valid
    /// after it, and [`build`](Self::build) returns an error.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::builder().url("memory:").prefix("billing:").build().await?;
    /// let guard = locks.lock("invoice:7").await?; // "billing:invoice:7" in the store
    /// assert_eq!(guard.held().key(), "invoice:7");
    /// # Ok(())
    /// # }
    /// ```
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// The label `class` of a key in the metrics (default: there is none).
    ///
    /// A key itself is no label, since each combination of labels is a separate time series, and there may be millions
    /// of keys. So use few classes, and derive them from the subject of the key, not from a number in it. `class` is
    /// called for each acquisition, with the key without the prefix.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// // "order:42" is counted as "order".
    /// let locks = reentry::Locks::builder()
    ///     .url("memory:")
    ///     .metrics_class(|key| key.split(':').next().unwrap_or("other").to_owned())
    ///     .build()
    ///     .await?;
    /// assert_eq!(locks.with_lock("order:42", async { 6 * 7 }).await?, 42);
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "metrics")]
    #[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
    pub fn metrics_class<S: Into<Arc<str>>>(
        mut self,
        class: impl Fn(&str) -> S + Send + Sync + 'static,
    ) -> Self {
        self.class = Classifier::new(class);
        self
    }
}

/// Leaves out the URL, which may contain a password.
impl fmt::Debug for LocksBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocksBuilder")
            .field("prefix", &self.prefix)
            .field("options", &self.options)
            .field("queueing", &self.queueing)
            .finish_non_exhaustive()
    }
}

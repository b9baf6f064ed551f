//! How a `Locks` is set up.

use std::{fmt, sync::Arc, time::Duration};

#[cfg(any(test, feature = "test-util"))]
use crate::store::{Store, redis::Timeouts};
use crate::{
    base::{
        metrics::Classifier,
        options::{DepthSync, OnLost, Options, Queueing, Reentrancy, WaitLimit},
    },
    store::{
        records::waits::Enclosing,
        redis::{Servers, link::source::Source},
    },
};

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

    /// The default of [`LockRequest::ttl`](crate::LockRequest::ttl) (30 s).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let ttl = Duration::from_secs(5);
    /// let locks = reentry::Locks::builder().url("memory:").ttl(ttl).build().await?;
    /// assert!(locks.lock("order:42").await?.held().remaining() <= ttl);
    /// # Ok(())
    /// # }
    /// ```
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = Some(ttl);
        self
    }

    /// The default of [`LockRequest::wait`](crate::LockRequest::wait) (60 s: longer than the TTL,
    /// so that waiters outlive a holder that crashed).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::builder().url("memory:").wait(Duration::from_secs(5)).build().await?;
    /// let _elsewhere = locks.lock("order:42").await?;
    /// assert!(locks.lock("order:42").await.unwrap_err().is_contended());
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(mut self, wait: Duration) -> Self {
        self.options.wait = Some(wait.into());
        self
    }

    /// Makes requests wait without a limit by default; see
    /// [`LockRequest::wait_forever`](crate::LockRequest::wait_forever).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::builder().url("memory:").wait_forever().build().await?;
    /// let _elsewhere = locks.lock("order:42").await?;
    /// let hour = Duration::from_secs(60 * 60);
    /// assert!(tokio::time::timeout(hour, locks.lock("order:42").acquire()).await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_forever(mut self) -> Self {
        self.options.wait = Some(WaitLimit::Forever);
        self
    }

    /// The default of [`LockRequest::max_hold`](crate::LockRequest::max_hold) (no limit).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::builder().url("memory:").max_hold(Duration::from_secs(60)).build().await?;
    /// let body = tokio::time::sleep(Duration::from_secs(3600));
    /// assert!(locks.with_lock("order:42", body).await.unwrap_err().is_lost());
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.options.max_hold = Some(max_hold);
        self
    }

    /// The default of [`LockRequest::on_lost`](crate::LockRequest::on_lost) (the body is dropped).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use reentry::{Locks, OnLost};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let builder = Locks::builder().url("memory:").max_hold(Duration::from_secs(60));
    /// let locks = builder.on_lost(OnLost::KeepRunning).build().await?;
    /// let body = tokio::time::sleep(Duration::from_secs(3600));
    /// assert!(locks.with_lock("order:42", body).await.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.options.on_lost = Some(on_lost);
        self
    }

    /// The default of [`LockRequest::reentrancy`](crate::LockRequest::reentrancy) (locks may be
    /// re-entered).
    ///
    /// # Examples
    ///
    /// ```
    /// # use reentry::{LockError, Locks, Reentrancy};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = Locks::builder().url("memory:").reentrancy(Reentrancy::Forbid).build().await?;
    /// let nested = locks.with_lock("order:42", locks.with_lock("order:42", async {})).await?;
    /// assert!(matches!(nested, Err(LockError::AlreadyHeld { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn reentrancy(mut self, reentrancy: Reentrancy) -> Self {
        self.options.reentrancy = Some(reentrancy);
        self
    }

    /// The default of [`LockRequest::depth_sync`](crate::LockRequest::depth_sync) (nested entries
    /// and exits wait for the store).
    ///
    /// # Examples
    ///
    /// ```
    /// # use reentry::{DepthSync, Locks};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = Locks::builder().url("memory:").depth_sync(DepthSync::Background).build().await?;
    /// let nested = locks.with_lock("order:42", async { locks.held("order:42").map(|held| held.depth()) });
    /// assert_eq!(locks.with_lock("order:42", nested).await??, Some(2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn depth_sync(mut self, depth_sync: DepthSync) -> Self {
        self.options.depth_sync = Some(depth_sync);
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

//! The configuration of a `Locks`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::base::metrics::Classifier;
use crate::base::options::{Options, Queueing};
use crate::base::time::Grace;
use crate::store::records::Enclosing;
use crate::store::redis::link::source::Source;
use crate::store::redis::{Login, Servers};
#[cfg(any(test, feature = "test-util"))]
use crate::store::{Store, redis::Timeouts};

mod login;
mod open;
#[cfg(feature = "pool")]
mod pool;
#[cfg(test)]
#[path = "../../tests/properties/durations.rs"]
mod properties;
mod shown;

/// A builder that configures a [`Locks`](crate::Locks). [`Locks::builder`](crate::Locks::builder) returns one.
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
    login: Login,
    /// The source of connections for commands, if it is neither the URL nor the servers.
    commands: Option<Arc<dyn Source>>,
    #[cfg(any(test, feature = "test-util"))]
    pub(crate) store: Option<OpenStore>,
    prefix: String,
    name: Option<Arc<str>>,
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
    /// Sets the prefix of every key in the store (default: none). The API shows keys without it.
    ///
    /// The prefix must not begin with `reentry:`, and its first pair of braces must not be `{}`. Otherwise no key would
    /// be valid with it, and [`build`](Self::build) returns an error.
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

    /// Sets how long the store keeps a lease after the holder has stopped relying on it. The default is 1 % of the
    /// lease, and at least 5 ms, which allows for clocks that run at different rates.
    ///
    /// A holder that cannot renew its lease ends its body `grace` before the store gives the lock to another caller.
    /// This leaves time for requests that the body has already sent to a database or service that does not check the
    /// [fencing token](crate::Held::fencing_token). Consul calls this time `lock-delay`. Choose the longest time that
    /// such a request may take. A dead holder still blocks others for a TTL. `grace` is at most a third of the TTL and
    /// of `max_hold`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let grace = Duration::from_secs(5);
    /// let locks = reentry::Locks::builder().url("memory:").grace(grace).build().await?;
    /// let guard = locks.lock("order:42").await?; // with a TTL of 30 s
    /// assert_eq!(guard.held().remaining(), Duration::from_secs(25));
    /// # Ok(())
    /// # }
    /// ```
    pub fn grace(mut self, grace: Duration) -> Self {
        self.options.grace = Grace::new(grace);
        self
    }

    /// Sets the URL of the store:
    ///
    /// | URL | |
    /// |---|---|
    /// | `redis://user:password@host:port/database` | one server |
    /// | `rediss://…` | one server, over TLS (feature `tls`); also `rediss+sentinel` |
    /// | `unix:///path?user=…&pass=…` | one server on this machine |
    /// | `redis+sentinel://user:password@host:port,host:port/primary` | the primary that [sentinels](Servers::sentinel) monitor; further parameters: `sentinel_username`, `sentinel_password`, `sentinel_tls=false` |
    /// | `redis+cluster://user:password@host:port,host:port` | a [cluster](Servers::cluster); also `rediss+cluster` |
    /// | `memory:` | the memory of this process |
    ///
    /// `?db=3` names a database, like `/3` in the path. A parameter that the URL does not know is an error, and so are two
    /// different databases.
    ///
    /// Connections speak RESP3. They speak RESP2 if a server or a proxy rejects RESP3, and with the parameter
    /// `protocol=resp2`. With RESP2, each process has an additional connection to each server, for messages.
    ///
    /// In a user name, a password or a parameter, characters with a special meaning in a URL must be percent-encoded.
    ///
    /// With a `pool`, the URL is used only for the subscription that informs waiters when it is their
    /// turn. All commands go through the pool.
    ///
    /// # Examples
    ///
    /// ```
    /// # use reentry::{LockError, Locks};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let nonsense = Locks::builder().url("localhost:6379").build().await;
    /// assert!(matches!(nonsense, Err(LockError::Config { .. })));
    /// Locks::builder().url("memory:").build().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.url = Some(url.into());
        self
    }

    /// Sets the servers of a deployment with more than one server. The [URL](Self::url) can name them as well.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), reentry::LockError> {
    /// use reentry::{Locks, Servers};
    ///
    /// let servers = Servers::sentinel(["sentinel-1", "sentinel-2", "sentinel-3"], "orders");
    /// let locks = Locks::builder().servers(servers).build_lazy()?;
    /// # drop(locks);
    /// # Ok(())
    /// # }
    /// ```
    pub fn servers(mut self, servers: Servers) -> Self {
        self.servers = Some(servers);
        self
    }

    /// Sets how long to wait for a connection (default 2 s). Must not be zero.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use reentry::{LockError, Locks};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let builder = Locks::builder().url("memory:").connect_timeout(Duration::from_millis(500));
    /// assert!(builder.build().await.is_ok());
    /// let builder = Locks::builder().url("memory:").connect_timeout(Duration::ZERO);
    /// assert!(matches!(builder.build().await, Err(LockError::Config { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = Some(timeout);
        self
    }

    /// Sets how long to wait for a response of the store (default 1 s). After that, the outcome of the request counts
    /// as unknown, and a release continues in the background. Must not be zero.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use reentry::{LockError, Locks};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let builder = Locks::builder().url("memory:").response_timeout(Duration::from_millis(500));
    /// assert!(builder.build().await.is_ok());
    /// let builder = Locks::builder().url("memory:").response_timeout(Duration::ZERO);
    /// assert!(matches!(builder.build().await, Err(LockError::Config { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.response_timeout = Some(timeout);
        self
    }

    /// Limits how long an acquisition waits for a store that does not respond (default: as long as its
    /// [`wait`](crate::LockRequest::wait)). The minimum is 2 s, because a waiter may send only one request in a second.
    /// Make the limit longer than that by the [`response_timeout`](Self::response_timeout).
    ///
    /// When the store has not responded to requests for the lock for this long, the acquisition ends with
    /// [`Unavailable`](crate::LockError::Unavailable), even if some of its `wait` is left. So a service can let callers
    /// wait a minute for each other, and still report an outage after some seconds. The limit does not apply to holds,
    /// which last as long as their leases.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// // There is no server at this address.
    /// let builder = reentry::Locks::builder().url("redis://127.0.0.1:1");
    /// let locks = builder.outage(Duration::from_secs(5)).build_lazy()?;
    /// let error = locks.lock("order:42").wait(Duration::from_secs(60)).await.unwrap_err();
    /// assert!(error.is_unavailable());
    /// # Ok(())
    /// # }
    /// ```
    pub fn outage(mut self, limit: Duration) -> Self {
        self.queueing.outage = Some(limit);
        self
    }

    /// Replaces the longest interval between two requests of a waiter, for the tests of this crate: what a waiter does
    /// must not depend on how long a test takes.
    #[doc(hidden)]
    pub fn __heartbeat(mut self, heartbeat: Duration) -> Self {
        self.queueing.heartbeat = heartbeat;
        self
    }

    /// Sets how many times in a row a lock passes from caller to caller inside this process while another process waits
    /// (default 16).
    ///
    /// Such a turn takes no request. While no other process waits, there is no limit. With 0, every caller goes through
    /// the store, and the next one is always that of the process that has waited longest.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::builder().url("memory:").turns(0).build().await?;
    /// assert_eq!(locks.with_lock("order:42", async { 6 * 7 }).await?, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn turns(mut self, count: u32) -> Self {
        self.queueing.turns = count;
        self
    }

    /// Sets how long a caller waits before it reports that it is still waiting (default 5 s). It reports again each
    /// time it has waited twice as long. The report is the event `waiting`, which names the holder of the lock.
    /// [`Duration::MAX`] disables the report.
    ///
    /// For the report, the process asks the store for the holder. It does so at most once per heartbeat for all of its
    /// callers that wait for the lock. Reports of one caller are at least 10 ms apart.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let builder = reentry::Locks::builder().url("memory:");
    /// let locks = builder.report_waiting_after(Duration::from_secs(30)).build().await?;
    /// assert_eq!(locks.with_lock("order:42", async { 6 * 7 }).await?, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn report_waiting_after(mut self, waited: Duration) -> Self {
        self.queueing.report_after = waited;
        self
    }
}

/// Omits the URL, which may contain a password.
impl fmt::Debug for LocksBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocksBuilder")
            .field("prefix", &self.prefix)
            .field("options", &self.options)
            .field("queueing", &self.queueing)
            .finish_non_exhaustive()
    }
}

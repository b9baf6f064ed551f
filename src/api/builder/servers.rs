//! The servers of a `Locks`: their addresses, timeouts and confirmations.

use std::time::Duration;

use super::LocksBuilder;
use crate::{base::confirm::Replicas, store::redis::Servers};

impl LocksBuilder {
    /// The URL of the store that has the locks:
    ///
    /// | URL | |
    /// |---|---|
    /// | `redis://user:password@host:port/database` | one server |
    /// | `rediss://…` | one server, over TLS (feature `tls`); also `rediss+sentinel` |
    /// | `unix:///path` | one server on this machine |
    /// | `redis+sentinel://user:password@host:port,host:port/primary` | the primary that [sentinels](Servers::sentinel) watch; further parameters: `?db=2`, `sentinel_username`, `sentinel_password`, `sentinel_tls=false` |
    /// | `redis+cluster://user:password@host:port,host:port` | a [cluster](Servers::cluster); also `rediss+cluster` |
    /// | `memory:` | the memory of this process |
    ///
    /// In a user name, a password and a parameter, characters that have a meaning in a URL must be percent-encoded.
    ///
    /// With a [`pool`](Self::pool), the URL serves only the subscription on which waiters receive the message that it
    /// is their turn. All commands go through the pool.
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

    /// The servers of a deployment with more than one server. The [URL](Self::url) can name them as well.
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

    /// How long to wait for a connection (default 2 s). Must not be zero.
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

    /// How long to wait for an answer of the store (default 1 s). After that the outcome of the request counts as
    /// unknown, and a release continues in the background. Must not be zero.
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

    /// How many replicas must have a lock before it counts, and a renewal before it counts (default: none is waited
    /// for).
    ///
    /// A server answers before its replicas have the change. If it fails then, the replica that is promoted may not
    /// have the lock, and gives it to another holder. With this option the body begins when the replicas have the lock.
    /// If they do not have it `within` that time, the lock is given back, and the error is
    /// [`LockError::Unconfirmed`](crate::LockError::Unconfirmed). A renewal that they do not have lengthens no lease.
    /// So a holder that is cut off from the replicas together with the server ends its body in time.
    ///
    /// Confirmation costs a round trip to the server and to its replicas for each outermost acquisition. Callers at the
    /// same time share it. Confirmation uses its own connection, also with a pool. Releases and changes of the depth
    /// are not waited for. The time `within` comes on top of [`wait`](Self::wait). It is at least 1 ms; a few times
    /// what a replica needs to answer is a good choice. A store in memory has no replicas, and confirms at once.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # fn main() -> Result<(), reentry::LockError> {
    /// use reentry::{Locks, Replicas};
    ///
    /// let locks = Locks::builder()
    ///     .url("redis+sentinel://sentinel-1,sentinel-2,sentinel-3/orders")
    ///     .confirm(Replicas::all(), Duration::from_millis(500))
    ///     .build_lazy()?;
    /// # drop(locks);
    /// # Ok(())
    /// # }
    /// ```
    pub fn confirm(mut self, replicas: Replicas, within: Duration) -> Self {
        self.options.confirm = Some((replicas, within));
        self
    }
}

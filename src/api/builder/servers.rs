//! Where the locks live, and how the servers are spoken to.

use std::time::Duration;

use super::LocksBuilder;
use crate::{base::confirm::Replicas, store::redis::Servers};

impl LocksBuilder {
    /// Where the locks live:
    ///
    /// | URL | |
    /// |---|---|
    /// | `redis://user:password@host:port/database` | one server |
    /// | `rediss://…` | the same by TLS (feature `tls`); also `rediss+sentinel` |
    /// | `unix:///path` | one server on this machine |
    /// | `redis+sentinel://user:password@host:port,host:port/primary` | the primary that [sentinels](Servers::sentinel) watch; `?db=2`, `sentinel_username`, `sentinel_password` and `sentinel_tls=false` say more |
    /// | `redis+cluster://user:password@host:port,host:port` | a [cluster](Servers::cluster); also `rediss+cluster` |
    /// | `memory:` | the memory of this process |
    ///
    /// In a user name, a password and a parameter, letters that mean something in a URL are percent-encoded.
    ///
    /// Beside a [`pool`](Self::pool) it serves only the subscription on which waiters are told that it is
    /// their turn; all commands go through the pool.
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

    /// Several servers as one place for locks. The [URL](Self::url) can say the same.
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

    /// How long to wait for an answer of the store (default 1 s). After that the outcome of the
    /// request counts as unknown, and a release goes on in the background. Must not be zero.
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

    /// A lock counts only once so many replicas have it, and so does each renewal (default: none is waited for).
    ///
    /// A server answers before its replicas have what it did. If it fails then, the one that is promoted may not have the
    /// lock, and gives it to another holder. With this the body begins when the replicas have the lock; where they do not
    /// have it `within` that time, it is given back, and the error is
    /// [`LockError::Unconfirmed`](crate::LockError::Unconfirmed). A renewal that they do not have lengthens no lease, so
    /// that a holder which is cut off from them together with the server ends its body in time.
    ///
    /// It costs a round trip to the server and to its replicas for each outermost acquisition; callers at the same time
    /// share it, on a connection of its own, also beside a pool. Releases and changes of the depth are not waited for. The time comes on top of
    /// [`wait`](Self::wait). It is at least 1 ms; a few times what a replica needs to answer is a good choice. A
    /// store in memory has no replicas, and confirms at once.
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

//! The servers of a `Locks`: their addresses and timeouts.

use std::time::Duration;

use super::LocksBuilder;
use crate::store::redis::Servers;

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
}

//! Locks that use the program's connection pool. No other file uses pools.
//!
//! A connection is taken out of the pool permanently. The pool checks a connection with a round trip before each loan.
//! It would also lend the connection to other code, which may select another database on it, or block it.

use std::sync::Arc;

use deadpool_redis::{Connection, Pool, PoolError};

use super::LocksBuilder;
use crate::base::error::{Effect, StoreError};
use crate::store::redis::link::source::{Opened, Opening, Receiver, Source, Timeouts, refused};

impl LocksBuilder {
    /// Takes connections from a pool of `deadpool-redis` 0.23 that the program already has.
    ///
    /// One connection is taken out of the pool permanently, and serves all commands until it fails. Then another
    /// connection is taken. The connections of such a pool do not report when they are closed. So an idle hold learns
    /// of it at its next renewal, not immediately. If the program selects another database on a connection, it must not
    /// return that connection to the pool.
    ///
    /// A pool does not expose its client. Set the [`url`](Self::url) as well, so that a message informs waiters when it
    /// is their turn. Without a URL they send requests after pauses of 10 to 100 ms.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use deadpool_redis::{Config, Runtime};
    ///
    /// let pool = Config::from_url("redis://localhost").create_pool(Some(Runtime::Tokio1))?;
    /// let locks = reentry::Locks::builder().pool(pool).build().await?;
    /// assert!(locks.inspect("order:42").await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "pool")))]
    pub fn pool(mut self, pool: Pool) -> Self {
        self.commands = Some(Arc::new(Pooled(pool)));
        self
    }
}

struct Pooled(Pool);

impl Source for Pooled {
    fn endpoint(&self) -> Arc<str> {
        Arc::from("the given pool")
    }

    fn open(self: Arc<Self>, timeouts: Timeouts, _receiver: Receiver) -> Opening {
        Box::pin(async move {
            let endpoint = self.endpoint();
            let failed = |effect, error: PoolError| {
                StoreError::new("connect", &endpoint, effect, error.to_string())
            };
            let pooled = self.0.get().await.map_err(|error| match error {
                PoolError::Backend(error) => refused(&endpoint, error),
                PoolError::Closed => failed(Effect::Refused, error),
                error => failed(Effect::None, error),
            })?;
            let mut driver = Connection::take(pooled);
            // The crate has its own limit. This one only ends the task that waits for the response.
            driver.set_response_timeout(timeouts.response.saturating_mul(2));
            Ok(Opened::made_elsewhere(driver, endpoint, self))
        })
    }
}

#[cfg(test)]
mod tests {
    use deadpool_redis::{Config, Runtime};

    use crate::{LockError, Locks};

    #[tokio::test]
    async fn a_url_beside_a_pool_is_checked_before_anything_is_sent() {
        for url in ["memory:", "localhost", "http://localhost"] {
            // No server listens on this port. An attempt to connect would return `LockError::Unavailable`.
            let pool = Config::from_url("redis://127.0.0.1:1").create_pool(Some(Runtime::Tokio1));
            let builder = Locks::builder().url(url);
            let built = match pool {
                Ok(pool) => builder.pool(pool).build().await,
                Err(error) => panic!("{error}"),
            };
            assert!(matches!(built, Err(LockError::Config { .. })), "{url}");
        }
    }
}

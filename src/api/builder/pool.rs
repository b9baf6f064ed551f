//! Locks over the program's connection pool. No other file uses pools.
//!
//! A connection is taken out of the pool permanently. The pool checks a connection with a round trip before each loan.
//! It would also lend the connection to other code, which may select another database on it, or block it.

use std::future::pending;
use std::sync::Arc;

use deadpool_redis::{Connection, Pool, PoolError};

use super::{Backend, LocksBuilder};
use crate::api::locks::Locks;
use crate::base::error::{FailureClass, StoreError, StoreFuture};
use crate::redis::Timeouts;
use crate::redis::failure::connect_error;
use crate::redis::source::{RawConnection, Source};

impl Locks {
    /// Makes a builder for locks over a pool of `deadpool-redis` 0.23 that the program already has.
    ///
    /// One connection is taken out of the pool, and serves all commands until it fails. It brings no messages, so
    /// waiters ask every 10 to 100 ms. Prefer a [URL](Self::builder) where locks are contended.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = deadpool_redis::Runtime::Tokio1;
    /// let pool = deadpool_redis::Config::from_url("redis://localhost").create_pool(Some(runtime))?;
    /// let locks = reentry::Locks::builder_with_pool(pool).build_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "pool")))]
    pub fn builder_with_pool(pool: Pool) -> LocksBuilder {
        LocksBuilder::new(Backend::Pool(Arc::new(Pooled(pool))))
    }
}

struct Pooled(Pool);

impl Source for Pooled {
    fn endpoint(&self) -> Arc<str> {
        Arc::from("the given pool")
    }

    fn open(self: Arc<Self>, timeouts: Timeouts) -> StoreFuture<RawConnection> {
        Box::pin(async move {
            let endpoint = self.endpoint();
            let failed =
                |class, e: PoolError| StoreError::new("connect", &endpoint, class, e.to_string());
            let pooled = self.0.get().await.map_err(|error| match error {
                PoolError::Backend(error) => connect_error(&endpoint, error),
                // A pool that was closed gives out no connection any more.
                PoolError::Closed => failed(FailureClass::Permanent, error),
                error => failed(FailureClass::NotExecuted, error),
            })?;
            let mut driver = Connection::take(pooled);
            // The crate has its own limit. This one only ends the task that waits for the response.
            driver.set_response_timeout(timeouts.response.saturating_mul(2));
            Ok(RawConnection {
                driver,
                server: self,
                task: None,
                writes: None,
                moved: Box::pin(pending()),
            })
        })
    }
}

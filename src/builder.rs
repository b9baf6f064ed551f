//! How a `Locks` is set up.

use std::{fmt, sync::Arc, time::Duration};

use deadpool_redis::Pool;

use crate::{
    engine::{Engine, Setup},
    error::LockError,
    locks::Locks,
    options::{DepthSync, OnLost, Options, Wait, Wake, config},
    store::{
        Store,
        memory::MemoryStore,
        redis::{RedisStore, Timeouts},
    },
};

/// The URL scheme of the in-memory store.
const MEMORY: &str = "memory:";

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);

impl Locks {
    /// Connects to `redis://…`, to `rediss://…` (feature `tls`), or to a new `memory:` store, with
    /// the defaults of the [builder](Self::builder).
    ///
    /// # Errors
    ///
    /// [`LockError::Store`] if the server cannot be reached within the connect timeout of 2 s or
    /// refuses the credentials; [`LockError::Config`] for a URL that makes no sense.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn connect(url: impl Into<String>) -> Result<Self, LockError> {
        Self::builder().url(url).build().await
    }

    /// Locks in the memory of this process, for demos and tests. They keep every promise within
    /// the process, on the tokio clock: with `start_paused` a test decides when a lease ends.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// assert_eq!(locks.with_lock("order:42", async { 6 * 7 }).await?, 42);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn in_memory() -> Self {
        Self::builder().over(Arc::new(MemoryStore::new()), RESPONSE_TIMEOUT)
    }

    /// Options for all locks of one `Locks`.
    pub fn builder() -> LocksBuilder {
        LocksBuilder::default()
    }
}

/// Sets up a [`Locks`]; made by [`Locks::builder`].
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
    pool: Option<Pool>,
    prefix: String,
    options: Options,
    wake: Wake,
    connect_timeout: Option<Duration>,
    response_timeout: Option<Duration>,
}

impl LocksBuilder {
    /// Where the locks live: `redis://…`, `rediss://…` (feature `tls`), `unix://…`, or `memory:`.
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.url = Some(url.into());
        self
    }

    /// Takes connections from a pool that the program has already.
    ///
    /// One connection is taken, and kept and shared for all commands until it fails. The
    /// connections of a foreign pool do not report their end: an idle hold learns of it at its next
    /// renewal, not at once.
    pub fn pool(mut self, pool: Pool) -> Self {
        self.pool = Some(pool);
        self
    }

    /// What stands before every key in the store (default: nothing). It does not show in the API.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// The default of [`LockRequest::ttl`](crate::LockRequest::ttl) (30 s).
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = Some(ttl);
        self
    }

    /// The default of [`LockRequest::wait`](crate::LockRequest::wait) (60 s: longer than the TTL,
    /// so that waiters outlive a holder that crashed).
    pub fn wait(mut self, wait: Duration) -> Self {
        self.options.wait = Some(wait.into());
        self
    }

    /// By default requests wait as long as it takes.
    pub fn wait_forever(mut self) -> Self {
        self.options.wait = Some(Wait::Forever);
        self
    }

    /// The default of [`LockRequest::on_lost`](crate::LockRequest::on_lost) (the body is dropped).
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.options.on_lost = Some(on_lost);
        self
    }

    /// The default of [`LockRequest::depth_sync`](crate::LockRequest::depth_sync) (nested entries
    /// and exits wait for the store).
    pub fn depth_sync(mut self, depth_sync: DepthSync) -> Self {
        self.options.depth_sync = Some(depth_sync);
        self
    }

    /// How waiters learn that a lock may be free (default: [`Wake::Backoff`]).
    pub fn wake(mut self, wake: Wake) -> Self {
        self.wake = wake;
        self
    }

    /// How long to wait for a connection (default 2 s).
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = Some(timeout);
        self
    }

    /// How long to wait for an answer of the store (default 1 s). After it the outcome of the
    /// request counts as unknown, and a release goes on in the background.
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.response_timeout = Some(timeout);
        self
    }

    /// Connects.
    ///
    /// # Errors
    ///
    /// [`LockError::Config`] for options that contradict each other and for a URL that makes no
    /// sense, before anything is sent;
    /// [`LockError::Store`] if the server cannot be reached.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn build(self) -> Result<Locks, LockError> {
        let timeouts = Timeouts {
            connect: self.connect_timeout.unwrap_or(CONNECT_TIMEOUT),
            response: self.response_timeout.unwrap_or(RESPONSE_TIMEOUT),
        };
        if timeouts.connect.is_zero() || timeouts.response.is_zero() {
            return Err(config("a timeout must not be zero".to_owned()));
        }
        self.wake.check()?;
        self.options.resolve(Options::default())?;
        let store: Arc<dyn Store> = match (&self.pool, self.url.as_deref()) {
            (Some(_), Some(MEMORY)) => {
                return Err(config("a pool and `memory:` exclude each other".to_owned()));
            }
            (Some(pool), _) => Arc::new(
                RedisStore::over(pool.clone(), timeouts)
                    .await
                    .map_err(|source| LockError::Store { key: None, source })?,
            ),
            (None, Some(MEMORY)) => Arc::new(MemoryStore::new()),
            (None, Some(url)) => Arc::new(RedisStore::connect(url, timeouts).await?),
            (None, None) => return Err(config("neither a URL nor a pool was given".to_owned())),
        };
        Ok(self.over(store, timeouts.response))
    }

    fn over(self, store: Arc<dyn Store>, response_timeout: Duration) -> Locks {
        let Self {
            prefix,
            options,
            wake,
            ..
        } = self;
        let setup = Setup {
            prefix,
            defaults: options,
            response_timeout,
            wake,
        };
        Locks::new(Engine::new(store, setup))
    }
}

/// Without the URL, which may hold a password.
impl fmt::Debug for LocksBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocksBuilder")
            .field("prefix", &self.prefix)
            .field("options", &self.options)
            .field("wake", &self.wake)
            .finish_non_exhaustive()
    }
}

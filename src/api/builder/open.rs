//! How a `Locks` is opened: its store, and its timeouts.

use std::sync::Arc;
use std::time::Duration;

use super::LocksBuilder;
use crate::api::engine::{Engine, Setup};
use crate::api::locks::Locks;
use crate::base::error::LockError;
use crate::base::key::LockKey;
use crate::base::options::Options;
use crate::base::process;
use crate::store::Store;
use crate::store::memory::MemoryStore;
use crate::store::redis::{Origin, RedisStore, Timeouts};

#[cfg(test)]
use crate::store::Wire;

/// The URL scheme of the in-memory store.
const MEMORY: &str = "memory:";

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);

impl Locks {
    /// Connects to `redis://…`, to `rediss://…` (feature `tls`), or to a new `memory:` store, with the defaults of the
    /// [builder](Self::builder).
    ///
    /// # Errors
    ///
    /// [`LockError::Unavailable`] if the server cannot be reached within the connect timeout of 2 s.
    /// [`LockError::Misuse`] if it rejects the credentials. [`LockError::Config`] for an invalid URL.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::connect("memory:").await?; // or "redis://localhost"
    /// assert_eq!(locks.with_lock("order:42", async { 6 * 7 }).await?, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(url: impl Into<String>) -> Result<Self, LockError> {
        Self::builder().url(url).build().await
    }

    /// Creates locks in the memory of this process, for demos and tests. They keep every guarantee within the process.
    /// They use the tokio clock, so a test with `start_paused` controls when a lease expires.
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
        Self::builder().over(
            Arc::new(Store::Memory(MemoryStore::new())),
            RESPONSE_TIMEOUT,
        )
    }

    /// Returns a builder with options for all locks of one `Locks`.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let builder = reentry::Locks::builder().url("memory:").wait(std::time::Duration::MAX);
    /// assert!(builder.build().await?.inspect("order:42").await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder() -> LocksBuilder {
        LocksBuilder::default()
    }
}

impl LocksBuilder {
    /// Builds the `Locks`, and connects to its store.
    ///
    /// # Errors
    ///
    /// [`LockError::Config`], before anything is sent, for options that contradict each other, for an invalid URL, and
    /// for a prefix with which no key is valid. [`LockError::Unavailable`] if the server cannot be reached, and
    /// [`LockError::Misuse`] if it rejects the credentials.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::builder().url("memory:").build().await?;
    /// assert_eq!(locks.with_lock("order:42", async { 6 * 7 }).await?, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn build(self) -> Result<Locks, LockError> {
        let locks = self.build_lazy()?;
        let connected = locks.engine().store().connect().await;
        connected.map_err(|source| LockError::of_store(None, source))?;
        Ok(locks)
    }

    /// Builds the `Locks` without connecting. The first call that needs a connection makes it, and each later call
    /// tries again until it succeeds. So a service can start before its Redis server.
    ///
    /// An acquisition that cannot reach the server tries again until its [`wait`](crate::LockRequest::wait) is over. If
    /// the server rejects the credentials, the first acquisition fails with [`LockError::Misuse`].
    ///
    /// This method may be called outside a runtime.
    ///
    /// # Errors
    ///
    /// [`LockError::Config`], as for [`build`](Self::build).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), reentry::LockError> {
    /// // There is no server yet, and nothing is sent to one.
    /// let locks = reentry::Locks::builder().url("redis://localhost:1").build_lazy()?;
    /// # drop(locks);
    /// # Ok(())
    /// # }
    /// ```
    pub fn build_lazy(self) -> Result<Locks, LockError> {
        self.check()?;
        let store = self.store()?;
        if let Some(name) = &self.name {
            process::set_name(Arc::clone(name));
        }
        let response_timeout = self.timeouts().response;
        Ok(self.over(store, response_timeout))
    }

    /// Checks the options that are independent of the store.
    fn check(&self) -> Result<(), LockError> {
        let timeouts = self.timeouts();
        if timeouts.connect.is_zero() || timeouts.response.is_zero() {
            return Err(LockError::config("a timeout must not be zero"));
        }
        if let Some(reason) = LockKey::refusal_of(&self.prefix) {
            let prefix = &self.prefix;
            return Err(LockError::config(format!(
                "no key is valid with the prefix `{prefix}`: {reason}"
            )));
        }
        self.queueing.check()?;
        self.options.resolve(Options::default()).map(drop)
    }

    /// Opens the store, without connecting.
    fn store(&self) -> Result<Arc<Store>, LockError> {
        let timeouts = self.timeouts();
        let refused = |reason: &str| Err(LockError::config(reason));
        let has_client = self.login.has_client();
        #[cfg(any(test, feature = "test-util"))]
        if let Some(open) = &self.store {
            let others = [self.commands.is_some(), self.url.is_some()];
            if others.contains(&true) || self.servers.is_some() || !self.login.is_empty() {
                return refused(
                    "a test server cannot be combined with a URL, servers, a pool or a login",
                );
            }
            return Ok(open(timeouts));
        }
        let given = [self.url.is_some(), self.servers.is_some(), has_client];
        if given.iter().filter(|is_given| **is_given).count() > 1 {
            return refused("set only one of a URL, servers and a client");
        }
        if self.url.as_deref() == Some(MEMORY) {
            return match &self.commands {
                Some(_) => refused("a pool cannot be combined with `memory:`"),
                None if self.login.is_empty() => Ok(Arc::new(Store::Memory(MemoryStore::new()))),
                None => refused("credentials and certificates cannot be combined with `memory:`"),
            };
        }
        let store = match (&self.commands, self.origin()?) {
            (Some(_), None) if !self.login.is_empty() => {
                return refused("credentials and certificates require a URL or servers");
            }
            (Some(commands), origin) => RedisStore::over(Arc::clone(commands), origin, timeouts),
            (None, Some(origin)) => RedisStore::open(origin, timeouts),
            (None, None) => {
                return refused("no store is configured: set a URL, servers, a client or a pool");
            }
        };
        store.introduce();
        Ok(Arc::new(Store::Redis(store)))
    }

    /// Returns the servers, if any are given.
    pub(in crate::api) fn origin(&self) -> Result<Option<Origin>, LockError> {
        let origin = match (&self.servers, &self.url) {
            (Some(servers), _) => Some(servers.resolve()?),
            (None, Some(url)) => Some(Origin::parse(url)?),
            (None, None) => self.login.origin()?,
        };
        origin.map(|origin| self.login.on(origin)).transpose()
    }

    pub(crate) fn timeouts(&self) -> Timeouts {
        Timeouts {
            connect: self.connect_timeout.unwrap_or(CONNECT_TIMEOUT),
            response: self.response_timeout.unwrap_or(RESPONSE_TIMEOUT),
        }
    }

    /// Creates in-memory locks at the other end of a simulated wire.
    #[cfg(test)]
    pub(crate) fn behind(
        self,
        wire: Arc<impl Wire + 'static>,
        response_timeout: Duration,
    ) -> Locks {
        self.over(Arc::new(Store::Behind(wire)), response_timeout)
    }

    pub(crate) fn over(self, store: Arc<Store>, response_timeout: Duration) -> Locks {
        let Self {
            prefix,
            options,
            queueing,
            inside,
            class,
            ..
        } = self;
        let setup = Setup {
            prefix,
            defaults: options,
            response_timeout,
            queueing,
            inside,
            class,
        };
        Locks::new(Engine::new(store, setup))
    }
}

#[cfg(all(test, not(feature = "tls")))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn without_the_feature_a_tls_url_is_rejected_with_its_reason() {
        let built = Locks::connect("rediss://:secret@localhost:1").await;
        let Err(error @ LockError::Config { .. }) = built else {
            panic!("{built:?}");
        };
        let told = format!("{error} {error:?}");
        assert!(told.contains("feature `tls`"), "{told}");
        assert!(!told.contains("secret"), "{told}");
    }
}

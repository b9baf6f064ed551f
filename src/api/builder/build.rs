//! From the configuration to a `Locks`: the checks, the store, and the engine.

use std::sync::Arc;
#[cfg(test)]
use std::time::Duration;

use super::{Backend, LocksBuilder};
use crate::api::engine::Engine;
use crate::api::locks::Locks;
use crate::base::error::LockError;
use crate::base::key::LockKey;
use crate::base::options::{Confirm, LockOptions};
use crate::base::{metrics, process};
use crate::hold::core::Core;
use crate::redis::ServerSpec;
use crate::store::Store;
use crate::store::memory::MemoryStore;
use crate::store::redis::RedisStore;

#[cfg(test)]
use crate::store::Wire;

/// The URL of the in-memory store.
const MEMORY: &str = "memory:";

const NO_LOGIN: &str = "only a Redis URL can be combined with a login, credentials or certificates";

impl Locks {
    /// Connects to the servers of a [URL](Self::builder), with the defaults of all options.
    ///
    /// # Errors
    ///
    /// - [`LockError::Unavailable`] if the server cannot be reached within the connect timeout of 2 s.
    /// - [`LockError::Misuse`] for an invalid URL, and if the server rejects the login.
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
    pub async fn connect(url: impl AsRef<str>) -> Result<Self, LockError> {
        Self::builder(url).build().await
    }

    /// Makes locks in the memory of this process, for demos and tests: each call another store.
    ///
    /// All guarantees hold within the process. They use the tokio clock, so a test with `start_paused` controls when a
    /// lease expires.
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
        Self::builder(MEMORY).build_on(Arc::new(Store::Memory(MemoryStore::new())))
    }

    /// Makes a builder for locks on the servers of a URL:
    ///
    /// | URL | |
    /// |---|---|
    /// | `redis://user:password@host:port/database` | one server |
    /// | `rediss://…` | one server, over TLS (feature `tls`); also `rediss+sentinel` and `rediss+cluster` |
    /// | `unix:///path?user=…&pass=…` | one server on this machine |
    /// | `redis+sentinel://user:password@host:port,host:port/primary` | the primary with this name that sentinels monitor; further parameters: `sentinel_username`, `sentinel_password`, `sentinel_tls=false` |
    /// | `redis+cluster://user:password@host:port,host:port` | a cluster |
    /// | `memory:` | the memory of this process |
    ///
    /// One host that responds is enough: it names the others. Without a port, a sentinel is at 26379, and any other
    /// server at 6379. The page [operations](crate::guide::operations#more-than-one-server) says which of them to
    /// choose.
    ///
    /// `?db=3` names a database, like `/3` in the path. `?protocol=` is accepted, because other clients read it, and
    /// has no effect. An unknown parameter is an error, as are two databases.
    ///
    /// In a user name, a password or a parameter, characters with a special meaning in a URL must be percent-encoded. A
    /// [`login`](LocksBuilder::login) needs no such encoding.
    ///
    /// # Examples
    ///
    /// ```
    /// # use reentry::{LockError, Locks};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// let locks = Locks::builder("memory:").wait(std::time::Duration::MAX).build().await?;
    /// assert!(locks.admin().inspect("order:42").await?.is_none());
    /// let nonsense = Locks::builder("localhost:6379").build().await;
    /// assert!(matches!(nonsense, Err(LockError::Misuse { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(url: impl AsRef<str>) -> LocksBuilder {
        LocksBuilder::new(Backend::Url(url.as_ref().to_owned()))
    }
}

impl LocksBuilder {
    /// Builds the `Locks`, and connects.
    ///
    /// # Errors
    ///
    /// - [`LockError::Misuse`], before anything is sent, for an invalid URL, options that contradict each other, or a
    ///   prefix with which no key is valid; and if the server rejects the login.
    /// - [`LockError::Unavailable`] if the server cannot be reached.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn build(self) -> Result<Locks, LockError> {
        let locks = self.build_lazy()?;
        let connected = locks.engine.core.store.connect().await;
        connected.map_err(|source| LockError::of_store(None, source))?;
        Ok(locks)
    }

    /// Builds the `Locks` without connecting, so that a service can start before its Redis. The first call that needs a
    /// connection makes it.
    ///
    /// An acquisition that cannot reach the server tries for an [`outage`](Self::outage). If the server rejects the
    /// login, it fails with [`LockError::Misuse`]. This method may be called outside a runtime.
    ///
    /// # Errors
    ///
    /// [`LockError::Misuse`], as for [`build`](Self::build).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), reentry::LockError> {
    /// // There is no server yet, and nothing is sent to one.
    /// let locks = reentry::Locks::builder("redis://localhost:1").build_lazy()?;
    /// # drop(locks);
    /// # Ok(())
    /// # }
    /// ```
    pub fn build_lazy(self) -> Result<Locks, LockError> {
        // Everything is checked before a store is opened or the process gets its name.
        let terms = self.check()?;
        // No connection is opened yet.
        let store = self.open_store()?;
        if let Some(name) = &self.name {
            process::set_name(Arc::clone(name));
        }
        Ok(Self { terms, ..self }.build_on(store))
    }

    /// Checks the options that are independent of the store. Returns those with which each request begins.
    fn check(&self) -> Result<LockOptions, LockError> {
        if self.timeouts.connect.is_zero() || self.timeouts.response.is_zero() {
            return Err(LockError::config("a timeout must not be zero"));
        }
        // Otherwise each lock would fail, and not the builder.
        if let Some(reason) = LockKey::refusal_of(&self.prefix) {
            let prefix = &self.prefix;
            return Err(LockError::config(format!(
                "no key is valid with the prefix `{prefix}`: {reason}"
            )));
        }
        self.queueing.check()?;
        self.terms.resolve()?;
        let mut terms = self.terms;
        if let Some((replicas, within)) = self.confirm {
            terms.confirm = Some(Confirm::new(replicas, within)?);
        }
        Ok(terms)
    }

    /// Opens the store, without connecting.
    fn open_store(&self) -> Result<Arc<Store>, LockError> {
        let timeouts = self.timeouts;
        let store = match &self.backend {
            Backend::Url(url) if url != MEMORY => RedisStore::open(self.servers()?, timeouts),
            // Only the servers of a URL take a login, credentials or certificates.
            _ if !self.login.is_empty() => return Err(LockError::config(NO_LOGIN)),
            Backend::Url(_) => return Ok(Arc::new(Store::Memory(MemoryStore::new()))),
            #[cfg(feature = "pool")]
            Backend::Pool(pool) => RedisStore::over(Arc::clone(pool), timeouts),
            #[cfg(any(test, feature = "test-util"))]
            Backend::Test(open) => return Ok(open(timeouts)),
        };
        store.describe_from_now_on();
        Ok(Arc::new(Store::Redis(store)))
    }

    /// The servers of the URL.
    pub(in crate::api) fn servers(&self) -> Result<ServerSpec, LockError> {
        match &self.backend {
            Backend::Url(url) => self.login.apply(ServerSpec::parse(url)?),
            #[cfg(any(test, feature = "test-util", feature = "pool"))]
            _ => Err(LockError::config("no URL is given")),
        }
    }

    /// Creates in-memory locks at the other end of a simulated wire.
    #[cfg(test)]
    pub(crate) fn build_on_wire(
        mut self,
        wire: Arc<impl Wire + 'static>,
        response_timeout: Duration,
    ) -> Locks {
        self.timeouts.response = response_timeout;
        self.terms = self.check().expect("valid options");
        self.build_on(Arc::new(Store::Behind(wire)))
    }

    /// Creates locks over a store, without any check.
    pub(crate) fn build_on(self, store: Arc<Store>) -> Locks {
        metrics::describe();
        let engine = Arc::new(Engine {
            core: Core::new(store, self.queueing, self.timeouts.response),
            prefix: self.prefix,
            defaults: self.terms,
            outer_holds: self.outer_holds,
            class: self.class,
        });
        Locks { engine }
    }
}

#[cfg(all(test, not(feature = "tls")))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn without_the_feature_a_tls_url_is_rejected_with_its_reason() {
        let built = Locks::connect("rediss://:secret@localhost:1").await;
        let Err(error @ LockError::Misuse { .. }) = built else {
            panic!("{built:?}");
        };
        let text = format!("{error} {error:?}");
        assert!(text.contains("feature `tls`"), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }
}

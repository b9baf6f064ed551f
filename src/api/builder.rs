//! The configuration of a `Locks`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::base::error::LockError;
use crate::base::metrics::Classifier;
use crate::base::options::{LockOptions, QueueOptions};
#[cfg(feature = "tls")]
use crate::redis::Certificates;
#[cfg(feature = "credentials")]
use crate::redis::Credentials;
#[cfg(feature = "tls")]
use crate::redis::Topology;
#[cfg(feature = "pool")]
use crate::redis::source::Source;
use crate::redis::{ServerSpec, Timeouts};
use crate::store::OuterHold;
#[cfg(any(test, feature = "test-util"))]
use crate::store::Store;

mod build;
mod connection_options;
#[cfg(feature = "pool")]
mod pool;
#[cfg(test)]
#[path = "../../tests/mounted/properties/durations.rs"]
mod properties;
pub(super) mod url; // the servers that a URL names

/// The options of a [`Locks`](crate::Locks), and what its requests begin with.
/// [`Locks::builder`](crate::Locks::builder) makes one. The page [options](crate::guide::options) has all of them, with
/// typical values.
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), reentry::LockError> {
/// let locks = reentry::Locks::builder("memory:")
///     .prefix("billing:")
///     .ttl(Duration::from_secs(10))
///     .wait(Duration::from_secs(5))
///     .build()
///     .await?;
/// assert!(locks.admin().inspect("invoice:7").await?.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct LocksBuilder {
    backend: Backend,
    login: Login,
    prefix: String,
    name: Option<Arc<str>>,
    pub(super) terms: LockOptions,
    pub(super) confirm: Option<(u32, Duration)>,
    pub(super) queueing: QueueOptions,
    pub(super) outer_holds: Vec<OuterHold>,
    pub(crate) timeouts: Timeouts,
    class: Classifier,
}

/// The servers that have the locks, or what takes their place.
#[derive(Clone)]
pub(crate) enum Backend {
    Url(String),
    #[cfg(feature = "pool")]
    Pool(Arc<dyn Source>),
    /// Opens the store of one process.
    #[cfg(any(test, feature = "test-util"))]
    Test(Arc<dyn Fn(Timeouts) -> Arc<Store> + Send + Sync>),
}

impl LocksBuilder {
    pub(crate) fn new(backend: Backend) -> Self {
        Self {
            backend,
            login: Login::default(),
            prefix: String::new(),
            name: None,
            terms: LockOptions::default(),
            confirm: None,
            queueing: QueueOptions::default(),
            outer_holds: Vec::new(),
            timeouts: Timeouts {
                connect: Duration::from_secs(2),
                response: Duration::from_secs(1),
            },
            class: Classifier::default(),
        }
    }

    /// Begins every key in Redis with `prefix` (default: none), to keep programs or tenants apart. The API shows keys
    /// without it.
    ///
    /// It must not begin with `reentry:`, and its first pair of braces must not be `{}`: no key would be valid with it,
    /// and [`build`](Self::build) returns an error.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::builder("memory:").prefix("billing:").build().await?;
    /// let guard = locks.lock("invoice:7").await?; // "billing:invoice:7" in the store
    /// assert_eq!(guard.held().key(), "invoice:7");
    /// # Ok(())
    /// # }
    /// ```
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the default of [`LockRequest::ttl`](crate::LockRequest::ttl): how long others wait if this process crashes
    /// (30 s).
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.terms.ttl = ttl;
        self
    }

    /// Sets the default of [`LockRequest::wait`](crate::LockRequest::wait): how long a caller waits (60 s, longer than
    /// the TTL, so that waiters outlast a dead holder).
    pub fn wait(mut self, wait: Duration) -> Self {
        self.terms.wait = wait;
        self
    }

    /// Sets the default of [`LockRequest::max_hold`](crate::LockRequest::max_hold), which ends a body that hangs (no
    /// limit).
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.terms.max_hold = Some(max_hold);
        self
    }

    /// Ends a body that much sooner than Redis gives the lock to the next caller (default: 1 % of the lease, at least 5
    /// ms, which allows for clocks that run at different rates).
    ///
    /// This leaves time for requests that the body has already sent, to a database or a service that does not check the
    /// [fencing token](crate::Held::fencing_token). Choose the longest time that such a request may take. Consul calls
    /// it `lock-delay`. It is at most a third of the TTL and of `max_hold`, and does not change for how long a dead
    /// holder blocks others.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let grace = Duration::from_secs(5);
    /// let locks = reentry::Locks::builder("memory:").grace(grace).build().await?;
    /// let guard = locks.lock("order:42").await?; // with a TTL of 30 s
    /// assert_eq!(guard.held().remaining(), Duration::from_secs(25));
    /// # Ok(())
    /// # }
    /// ```
    pub fn grace(mut self, grace: Duration) -> Self {
        self.terms.grace = grace;
        self
    }

    /// Sets how long an acquisition tries while Redis does not respond (default 5 s). [`Duration::MAX`] leaves that to
    /// [`wait`](crate::LockRequest::wait).
    ///
    /// So a dead Redis is a 503 after 5 s, while callers may wait a minute for each other. Make it longer than a
    /// failover, if callers should outlast one. Holds are not affected: they last as long as their leases.
    ///
    /// The minimum is 2 s, because a waiter may send only one request in a second; longer by the
    /// [`response_timeout`](Self::response_timeout) is better.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// // There is no server at this address.
    /// let builder = reentry::Locks::builder("redis://127.0.0.1:1");
    /// let locks = builder.outage(Duration::from_secs(3)).build_lazy()?;
    /// let error = locks.lock("order:42").wait(Duration::from_secs(60)).await.unwrap_err();
    /// assert!(error.is_unavailable());
    /// # Ok(())
    /// # }
    /// ```
    pub fn outage(mut self, limit: Duration) -> Self {
        self.queueing.outage = limit;
        self
    }

    /// Replaces the longest interval between two requests of a waiter, for the tests of this crate: what a waiter does
    /// must not depend on how long a test takes.
    #[doc(hidden)]
    pub fn __heartbeat(mut self, heartbeat: Duration) -> Self {
        self.queueing.heartbeat = heartbeat;
        // A shorter one would be rejected.
        self.queueing.outage = self.queueing.outage.max(2 * heartbeat);
        self
    }

    /// Sets how many times in a row a lock passes from caller to caller inside this process, without a request, while
    /// another process waits (default 16).
    ///
    /// While no other process waits, there is no limit. With 0, every caller goes through Redis, in strict order across
    /// processes.
    pub fn turns(mut self, count: u32) -> Self {
        self.queueing.turns = count;
        self
    }

    /// Names this process to waiters, operators and `CLIENT LIST`, beside its process id and host (default: the name of
    /// the executable file). See [`Process`](crate::admin::Process).
    ///
    /// The name is for the whole process: of several `Locks` with names, the last one counts, from the next connection
    /// on. At most 100 characters are shown.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// use reentry::LockError;
    ///
    /// let locks = reentry::Locks::builder("memory:").name("orders").build().await?;
    /// let _guard = locks.lock("order:42").await?;
    /// let late = locks.lock("order:42").wait(Duration::from_secs(1)).await;
    /// let Err(LockError::Busy { holder: Some(holder), .. }) = late else { panic!("it is held") };
    /// assert_eq!(holder.process.map(|process| process.name).as_deref(), Some("orders"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Gives the metrics about a lock the label `class`, made from its key without the prefix (default: no label).
    ///
    /// Return one of few classes, and never the key itself: each value is a time series of its own. `class` is called
    /// for each acquisition.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// // "order:42" is counted as "order".
    /// let locks = reentry::Locks::builder("memory:")
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

/// Omits the URL, which may contain a password.
impl fmt::Debug for LocksBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocksBuilder")
            .field("prefix", &self.prefix)
            .field("terms", &self.terms)
            .field("queueing", &self.queueing)
            .finish_non_exhaustive()
    }
}

/// The settings of the login that do not come from the URL.
#[derive(Clone, Default)]
pub(crate) struct Login {
    /// A user and a password, in place of those of the URL.
    pub(crate) user_and_password: Option<(String, String)>,
    #[cfg(feature = "credentials")]
    pub(crate) credentials: Option<Credentials>,
    #[cfg(feature = "tls")]
    pub(crate) certificates: Option<Certificates>,
}

impl Login {
    /// Returns whether there are no settings.
    pub(crate) fn is_empty(&self) -> bool {
        #[cfg(feature = "credentials")]
        if self.credentials.is_some() {
            return false;
        }
        #[cfg(feature = "tls")]
        if self.certificates.is_some() {
            return false;
        }
        self.user_and_password.is_none()
    }

    /// Returns the servers with these settings. Sentinels have logins of their own.
    pub(crate) fn apply(&self, mut spec: ServerSpec) -> Result<ServerSpec, LockError> {
        #[cfg(feature = "tls")]
        if let Some(certificates) = &self.certificates {
            // The certificates are for TLS with every server of the URL, the sentinels among them. The login is not.
            let sentinel = match &mut spec.topology {
                Topology::Sentinels { sentinel, .. } => Some(sentinel),
                _ => None,
            };
            for address in sentinel.into_iter().chain([&mut spec.server]) {
                if !address.is_tls() {
                    let needed = "the certificates require TLS: use a `rediss://` URL";
                    return Err(LockError::config(needed));
                }
                address.tls = Arc::new(certificates.config()?.into());
            }
        }
        // Sentinels have a login of their own, which the URL names.
        if let Some((user, password)) = &self.user_and_password {
            let server = &mut spec.server;
            server.change_settings(|it| it.set_username(user).set_password(password));
        }
        #[cfg(feature = "credentials")]
        spec.server.credentials.clone_from(&self.credentials);
        Ok(spec)
    }
}

//! The options about connections, beyond what a URL says: the login, the timeouts, and the replicas that confirm.

use std::time::Duration;

use super::LocksBuilder;
#[cfg(feature = "tls")]
use crate::redis::Certificates;
#[cfg(feature = "credentials")]
use crate::redis::Credentials;

impl LocksBuilder {
    /// Logs in as `user` with `password`, for a secret that is not in the URL, in place of what the URL says.
    ///
    /// It applies to one server, to a primary that sentinels monitor, and to a cluster. The sentinels themselves use
    /// the login of the URL. A server with a password and no users has the user `default`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let secret = std::env::temp_dir().join(format!("redis-password-{}", std::process::id()));
    /// # std::fs::write(&secret, "secret")?;
    /// let password = std::fs::read_to_string(&secret)?; // /run/secrets/redis
    /// # std::fs::remove_file(&secret)?;
    /// let builder = reentry::Locks::builder("redis://localhost").login("app", password);
    /// let locks = builder.build_lazy()?;
    /// # drop(locks);
    /// # Ok(())
    /// # }
    /// ```
    pub fn login(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.login.user_and_password = Some((user.into(), password.into()));
        self
    }

    /// Logs in with credentials that change while the program runs, such as a token that lives an hour, in place of a
    /// [`login`](Self::login). See [`credentials`](crate::credentials).
    ///
    /// The provider is asked before each new connection, within the [`connect_timeout`](Self::connect_timeout), and
    /// existing connections log in again with each value that it provides. Provide a value only when the server accepts
    /// it: a connection whose login was rejected keeps its old one, and does not try later ones.
    ///
    /// If the provider fails, or does not respond for a second, connections stay as they are, new ones use the last
    /// credentials, and the event `credentials_failed` reports it. Connections of a
    /// [pool](crate::Locks::builder_with_pool) log in as the pool specifies.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), reentry::LockError> {
    /// use reentry::credentials::{BasicAuth, watched};
    /// use tokio::sync::watch;
    ///
    /// let first = BasicAuth::new("app".to_owned(), "the first password".to_owned());
    /// let (newest, receiver) = watch::channel(first);
    /// let builder = reentry::Locks::builder("redis://localhost");
    /// let locks = builder.credentials(watched(receiver)).build_lazy()?;
    /// # drop((newest, locks));
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "credentials")]
    #[cfg_attr(docsrs, doc(cfg(feature = "credentials")))]
    pub fn credentials(
        mut self,
        provider: impl redis::StreamingCredentialsProvider + 'static,
    ) -> Self {
        self.login.credentials = Some(Credentials::new(provider));
        self
    }

    /// Uses the program's own certificates for TLS (default: the system's certificate authorities, and no client
    /// certificate).
    ///
    /// They apply to the servers and sentinels of a `rediss` URL. Without TLS, or if a certificate cannot be read,
    /// [`build`](Self::build) returns [`LockError::Misuse`](crate::LockError::Misuse).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let authority = std::fs::read("ca.pem")?;
    /// let certificates = reentry::Certificates::new().authority(authority);
    /// let builder = reentry::Locks::builder("rediss://cache.example.com");
    /// let locks = builder.certificates(certificates).build_lazy()?;
    /// # drop(locks);
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
    pub fn certificates(mut self, certificates: Certificates) -> Self {
        self.login.certificates = Some(certificates);
        self
    }

    /// Sets how long to wait for a connection (default 2 s). Must not be zero.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.timeouts.connect = timeout;
        self
    }

    /// Sets how long to wait for a response of Redis (default 1 s). After that, the outcome of the request counts as
    /// unknown, and a release continues in the background. Must not be zero.
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.timeouts.response = timeout;
        self
    }

    /// Makes each lock, and each of its renewals, count only when that many replicas have it (default: none).
    ///
    /// Without it, a replica that is promoted may not have the lock, and may give it to another holder. With it, the
    /// body begins when the replicas have the lock. If they do not confirm it `within` that time, the lock is released,
    /// and the error is [`LockError::Unavailable`](crate::LockError::Unavailable). A renewal that they do not confirm
    /// does not lengthen the lease, so a holder that is cut off together with the server ends its body in time.
    ///
    /// It costs each outermost acquisition a round trip to the server and to its replicas, which concurrent callers
    /// share, on a connection of its own. Releases do not wait for it. `within` comes on top of [`wait`](Self::wait),
    /// and is at least 1 ms: a few times the response time of a replica. The page
    /// [operations](crate::guide::operations#confirmed-by-replicas) says what can still be lost.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # fn main() -> Result<(), reentry::LockError> {
    /// use reentry::Locks;
    ///
    /// let locks = Locks::builder("redis+sentinel://sentinel-1,sentinel-2,sentinel-3/orders")
    ///     .confirm(2, Duration::from_millis(500))
    ///     .build_lazy()?;
    /// # drop(locks);
    /// # Ok(())
    /// # }
    /// ```
    pub fn confirm(mut self, replicas: u32, within: Duration) -> Self {
        self.confirm = Some((replicas, within));
        self
    }
}

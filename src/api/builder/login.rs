//! How connections log in, beyond what a URL says.

use super::LocksBuilder;
#[cfg(feature = "tls")]
use crate::redis::Certificates;
#[cfg(feature = "credentials")]
use crate::redis::Credentials;

impl LocksBuilder {
    /// Logs in as `user` with `password`, for a secret that is not in the URL.
    ///
    /// The login replaces the user and the password of the URL. It applies to one server, to a primary that sentinels
    /// monitor, and to a cluster. The sentinels themselves use the login of the URL. A server with a password and no
    /// users has the user `default`.
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

    /// Uses credentials that change while the program runs in place of a [`login`](Self::login). See
    /// [`credentials`](crate::credentials).
    ///
    /// The provider is asked before each new connection, within the [`connect_timeout`](Self::connect_timeout).
    /// Existing connections log in again with each value that it provides. If the provider fails, or does not respond
    /// for a second, they stay as they are, and new connections use the last credentials that it provided. The event
    /// `credentials_failed` reports the failure.
    ///
    /// Provide new credentials only when the server accepts them. A connection whose login the server has rejected
    /// keeps its old login, and does not try later ones. The next connection uses the newest credentials. Connections
    /// of a [pool](crate::Locks::builder_with_pool) log in as the pool specifies.
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
        self.login.credentials = Some(Credentials::of(provider));
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
}

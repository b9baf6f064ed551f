//! How connections log in, beyond what a URL says: a client of the program, credentials that change, certificates.

use redis::Client;

use super::LocksBuilder;
#[cfg(feature = "tls")]
use crate::store::redis::Certificates;
#[cfg(feature = "credentials")]
use crate::store::redis::Credentials;

impl LocksBuilder {
    /// Uses the server of a client that the program already has, instead of a [URL](Self::url).
    ///
    /// The `Locks` opens its own connections, which can receive messages, with the client's address, login, database
    /// and TLS settings. They speak RESP3 if the server does, whatever the client's protocol is. The client's own
    /// connections are not used.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = redis::Client::open("redis://app:secret@localhost/2")?;
    /// let locks = reentry::Locks::builder().client(client).build_lazy()?;
    /// # drop(locks);
    /// # Ok(())
    /// # }
    /// ```
    pub fn client(mut self, client: Client) -> Self {
        self.login.client = Some(client);
        self
    }

    /// Uses credentials that change while the program runs (default: the credentials of the URL or of the servers). See
    /// [`credentials`](crate::credentials). They apply to one server, to a primary that sentinels monitor, and to a
    /// cluster. The sentinels themselves use the credentials of the URL.
    ///
    /// The provider is asked before each new connection, within the [`connect_timeout`](Self::connect_timeout).
    /// Existing connections log in again with each value that it provides. If the provider fails, or does not respond
    /// for a second, they stay as they are, and new connections use the last credentials that it provided. The event
    /// `credentials_failed` reports the failure.
    ///
    /// Provide new credentials only when the server accepts them. A connection whose login the server has rejected
    /// keeps its old login, and does not try later ones. The next connection uses the newest credentials. Connections
    /// of a [`pool`](Self::pool) log in as the pool specifies.
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
    /// let builder = reentry::Locks::builder().url("redis://localhost");
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
    /// They apply to the servers and sentinels of a `rediss` URL, or of [`Servers::tls`](crate::Servers::tls). Without
    /// TLS, or if a certificate cannot be read, [`build`](Self::build) returns
    /// [`LockError::Config`](crate::LockError::Config).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let authority = std::fs::read("ca.pem")?;
    /// let certificates = reentry::Certificates::new().authority(authority);
    /// let builder = reentry::Locks::builder().url("rediss://cache.example.com");
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

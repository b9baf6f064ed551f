//! How the connections log in, beyond what a URL says: a client of the program, credentials that change, certificates.

use redis::Client;

use super::LocksBuilder;
#[cfg(feature = "tls")]
use crate::store::redis::Certificates;
#[cfg(feature = "credentials")]
use crate::store::redis::Credentials;

impl LocksBuilder {
    /// The server of a client that the program has already, instead of a [URL](Self::url).
    ///
    /// The client's address, login, database and TLS settings are used for connections of the `Locks`' own, which
    /// receive messages. They speak RESP3 where the server does, whatever the client's protocol is. The client's own connections
    /// are not used. Its type is also in [`driver`](crate::driver).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = reentry::driver::Client::open("redis://app:secret@localhost/2")?;
    /// let locks = reentry::Locks::builder().client(client).build_lazy()?;
    /// # drop(locks);
    /// # Ok(())
    /// # }
    /// ```
    pub fn client(mut self, client: Client) -> Self {
        self.login.client = Some(client);
        self
    }

    /// Credentials that change while the program runs (default: those of the URL or of the servers), for one server, for a
    /// primary that sentinels watch, and for a cluster; the sentinels themselves have the credentials of the URL. See
    /// [`credentials`](crate::credentials).
    ///
    /// The provider is asked before each connection, within the [`connect_timeout`](Self::connect_timeout). Connections that
    /// are there log in again with each value that it gives. If it fails, or is silent for a second, they stay as they are,
    /// the event `credentials_failed` reports it, and new connections use the credentials that it gave last. So give it new
    /// credentials when the server accepts them: a connection whose login the server has rejected keeps the login that it has,
    /// and does not try later ones. The next connection uses the newest. Connections of a [`pool`](Self::pool) log in as the
    /// pool says.
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

    /// Certificates of the program's own for TLS (default: the authorities of the system, and no certificate of the client).
    ///
    /// They are for the servers and the sentinels of a URL with `rediss`, or of [`Servers::tls`](crate::Servers::tls). Without
    /// TLS, and for a certificate that cannot be read, [`build`](Self::build) returns [`LockError::Config`](crate::LockError::Config).
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

//! The program's own certificates for TLS.

use std::fmt;

use redis::{Client, ClientTlsConfig, ConnectionInfo, TlsCertificates};

use crate::base::error::LockError;

/// Certificates for [`LocksBuilder::certificates`](crate::LocksBuilder::certificates). Each is the content of a PEM
/// file.
///
/// # Examples
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::fs;
///
/// let certificates = reentry::Certificates::new()
///     .authority(fs::read("ca.pem")?)
///     .client(fs::read("client.pem")?, fs::read("client-key.pem")?);
/// let builder = reentry::Locks::builder("rediss://cache.example.com");
/// let locks = builder.certificates(certificates).build_lazy()?;
/// # drop(locks);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
#[must_use = "certificates do nothing until a `Locks` is built with them"]
pub struct Certificates {
    authority: Option<Vec<u8>>,
    client: Option<(Vec<u8>, Vec<u8>)>,
}

impl Certificates {
    /// Creates an empty set. The servers are checked against the system's certificate authorities, and the program
    /// presents no certificate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the certificates of the authorities that sign the servers' certificates (default: the system's
    /// authorities).
    pub fn authority(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.authority = Some(pem.into());
        self
    }

    /// Sets the certificate that the program presents to the servers, with its private key (default: none). Servers
    /// with `tls-auth-clients yes`, which is their default, require one.
    pub fn client(mut self, certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.client = Some((certificate.into(), key.into()));
        self
    }

    /// Returns the connection parameters with these certificates.
    pub(crate) fn on(&self, info: &ConnectionInfo) -> Result<ConnectionInfo, LockError> {
        let client_tls = self.client.clone();
        let certificates = TlsCertificates {
            client_tls: client_tls.map(|(client_cert, client_key)| ClientTlsConfig {
                client_cert,
                client_key,
            }),
            root_cert: self.authority.clone(),
        };
        let client = Client::build_with_tls(info.clone(), certificates);
        let client = client.map_err(|error| {
            let needed = "they require TLS: use a `rediss://` URL";
            LockError::config(format!(
                "the certificates cannot be used: {error}; {needed}"
            ))
        })?;
        Ok(client.get_connection_info().clone())
    }
}

/// Omits the certificates, and above all the private key.
impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates")
            .field("authority", &self.authority.is_some())
            .field("client", &self.client.is_some())
            .finish()
    }
}

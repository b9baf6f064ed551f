//! The program's own certificates for TLS.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use rustls_native_certs::load_native_certs;

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

    /// The configuration of TLS with these certificates.
    pub(crate) fn config(&self) -> Result<Arc<ClientConfig>, LockError> {
        self.try_config()
            .map(Arc::new)
            .map_err(|error| LockError::config(format!("the certificates cannot be used: {error}")))
    }

    fn try_config(&self) -> Result<ClientConfig, Box<dyn Error>> {
        // The process has one provider, and that of the program counts.
        if CryptoProvider::get_default().is_none() {
            // If another thread was faster, there is one.
            drop(rustls::crypto::ring::default_provider().install_default());
        }
        let mut roots = RootCertStore::empty();
        match &self.authority {
            Some(pem) => {
                for authority in CertificateDer::pem_slice_iter(pem) {
                    roots.add(authority?)?;
                }
            }
            None => {
                // A system may have some that are invalid.
                roots.add_parsable_certificates(load_native_certs().certs);
            }
        }
        let config = ClientConfig::builder().with_root_certificates(roots);
        Ok(match &self.client {
            Some((certificate, key)) => {
                let chain =
                    CertificateDer::pem_slice_iter(certificate).collect::<Result<_, _>>()?;
                config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key)?)?
            }
            None => config.with_no_client_auth(),
        })
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

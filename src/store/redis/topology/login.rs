//! The login of the connections, beyond what a URL contains.

use redis::Client;

use super::servers::Origin;
use crate::base::error::LockError;
#[cfg(feature = "tls")]
use crate::store::redis::link::certificates::Certificates;
#[cfg(feature = "credentials")]
use crate::store::redis::link::credentials::Credentials;

/// The settings of the login that do not come from the URL.
#[derive(Clone, Default)]
pub(crate) struct Login {
    pub(crate) client: Option<Client>,
    #[cfg(feature = "credentials")]
    pub(crate) credentials: Option<Credentials>,
    #[cfg(feature = "tls")]
    pub(crate) certificates: Option<Certificates>,
}

impl Login {
    /// The server of the program's client, if there is one.
    pub(crate) fn origin(&self) -> Result<Option<Origin>, LockError> {
        self.client.as_ref().map(Origin::of_client).transpose()
    }

    pub(crate) fn has_client(&self) -> bool {
        self.client.is_some()
    }

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
        self.client.is_none()
    }

    /// Returns the origin with these certificates and credentials.
    pub(crate) fn on(&self, origin: Origin) -> Result<Origin, LockError> {
        #[cfg(feature = "tls")]
        let origin = match &self.certificates {
            Some(certificates) => origin.map(|mut address| {
                address.info = certificates.on(&address.info)?;
                Ok(address)
            })?,
            None => origin,
        };
        #[cfg(feature = "credentials")]
        let origin = match &self.credentials {
            Some(credentials) => origin.with_credentials(credentials),
            None => origin,
        };
        Ok(origin)
    }
}

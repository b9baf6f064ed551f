//! The login of the connections, beyond what a URL contains.

use super::servers::Origin;
use crate::base::error::LockError;
#[cfg(feature = "tls")]
use crate::store::redis::link::certificates::Certificates;
#[cfg(feature = "credentials")]
use crate::store::redis::link::credentials::Credentials;

/// The settings of the login that do not come from the URL.
#[derive(Clone, Default)]
pub(crate) struct Login {
    /// A user and a password, in place of those of the URL.
    pub(crate) fixed: Option<(String, String)>,
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
        self.fixed.is_none()
    }

    /// Returns the origin with these settings. Sentinels have logins of their own.
    pub(crate) fn on(&self, origin: Origin) -> Result<Origin, LockError> {
        origin.map(|mut address, is_sentinel| {
            #[cfg(feature = "tls")]
            if let Some(certificates) = &self.certificates {
                address.info = certificates.on(&address.info)?;
            }
            if is_sentinel {
                return Ok(address);
            }
            if let Some((user, password)) = &self.fixed {
                address = address.with(|it| it.set_username(user).set_password(password));
            }
            #[cfg(feature = "credentials")]
            address.credentials.clone_from(&self.credentials);
            Ok(address)
        })
    }
}

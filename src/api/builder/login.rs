//! The settings of the login that do not come from the URL.

#[cfg(feature = "tls")]
use std::sync::Arc;

use crate::base::error::LockError;
#[cfg(feature = "tls")]
use crate::redis::Certificates;
#[cfg(feature = "credentials")]
use crate::redis::Credentials;
use crate::redis::ServerSpec;
#[cfg(feature = "tls")]
use crate::redis::Topology;

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

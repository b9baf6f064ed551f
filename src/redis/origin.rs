//! The servers that a URL names, and the login to them.

use std::sync::Arc;

use super::cluster::Cluster;
use super::sentinels::Sentinels;
use super::servers::Servers;
use crate::base::error::LockError;
use crate::redis::address::{Address, Place};
#[cfg(feature = "tls")]
use crate::redis::certificates::Certificates;
use crate::redis::common::Common;
#[cfg(feature = "credentials")]
use crate::redis::credentials::Credentials;
use crate::redis::source::Source;

#[cfg(any(test, fuzzing))]
#[path = "../../tests/properties/address.rs"]
pub(crate) mod properties;
#[cfg(test)]
mod tests;
mod url;

/// The servers that a URL names. It is checked; nothing is connected yet.
pub(crate) enum Origin {
    Server(Address),
    Sentinels(Arc<Sentinels>),
    Cluster { server: Address, seeds: Vec<Place> },
}

impl Origin {
    /// These servers, with other addresses. `change` is told whether an address is that of the sentinels.
    pub(crate) fn map(
        self,
        change: impl Fn(Address, bool) -> Result<Address, LockError>,
    ) -> Result<Self, LockError> {
        Ok(match self {
            Self::Server(server) => Self::Server(change(server, false)?),
            Self::Sentinels(set) => {
                let sentinel = change(set.sentinel.clone(), true)?;
                let server = change(set.server.clone(), false)?;
                let set = Sentinels::new(&set.name, sentinel, server, set.seeds.clone());
                Self::Sentinels(Arc::new(set))
            }
            Self::Cluster { server, seeds } => Self::Cluster {
                server: change(server, false)?,
                seeds,
            },
        })
    }

    /// The servers to which requests go.
    pub(crate) fn open(self, common: &Common) -> Servers {
        let source: Arc<dyn Source> = match self {
            Self::Server(address) => Arc::new(address),
            Self::Sentinels(sentinels) => sentinels,
            Self::Cluster { server, seeds } => {
                let cluster = Cluster::new(server, seeds, common.clone());
                return Servers::Cluster(Arc::new(cluster));
            }
        };
        Servers::one(source, common.clone())
    }
}

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
                if !address.is_tls() {
                    let needed = "the certificates require TLS: use a `rediss://` URL";
                    return Err(LockError::config(needed));
                }
                address.tls = Arc::new(certificates.config()?.into());
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

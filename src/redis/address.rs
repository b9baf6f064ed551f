//! The address of a server, and how it is connected to.

use std::fmt;
use std::sync::Arc;
#[cfg(feature = "tls")]
use std::sync::OnceLock;

use redis::{ConnectionAddr, ConnectionInfo, RedisConnectionInfo};

#[cfg(feature = "tls")]
use rustls::ClientConfig;

#[cfg(feature = "credentials")]
use super::credentials::Credentials;

/// The place where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HostPort {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl HostPort {
    pub(crate) fn new(host: impl Into<String>, port: u16) -> Self {
        let host = host.into();
        Self { host, port }
    }

    /// The place that the server at `asked` names. Without a host it is that of the server itself.
    pub(super) fn named_by(asked: &Self, host: &str, port: u16) -> Self {
        match host {
            "" | "?" => Self::new(&asked.host, port),
            host => Self::new(host, port),
        }
    }

    /// Splits `host:port` or `[v6]:port`. Each of the two may be missing. The brackets are kept.
    pub(crate) fn split(address: &str) -> Option<(&str, Option<u16>)> {
        // The colons of `[v6]` separate no port.
        let Some((host, port)) = address.rsplit_once(':').filter(|_| !address.ends_with(']'))
        else {
            return Some((address, None));
        };
        // `parse` would accept a sign.
        let port = (!port.starts_with('+')).then(|| port.parse().ok())??;
        Some((host, Some(port)))
    }

    /// Several of them, for messages.
    pub(crate) fn list(all: &[Self]) -> String {
        let all: Vec<_> = all.iter().map(Self::to_string).collect();
        all.join(",")
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// A server, and how it is connected to.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) info: ConnectionInfo,
    /// Host and port for messages, without the password.
    pub(crate) endpoint: Arc<str>,
    /// How TLS is spoken. Without certificates of the program, those of the system are read for the first connection.
    #[cfg(feature = "tls")]
    pub(crate) tls: Arc<OnceLock<Arc<ClientConfig>>>,
    /// The credentials that replace those in `info`.
    #[cfg(feature = "credentials")]
    pub(crate) credentials: Option<Credentials>,
}

impl Address {
    pub(crate) fn new(info: ConnectionInfo) -> Self {
        let endpoint = match info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                HostPort::new(host, *port).to_string()
            }
            other => other.to_string(),
        };
        Self {
            endpoint: endpoint.into(),
            info,
            #[cfg(feature = "tls")]
            tls: Arc::default(),
            #[cfg(feature = "credentials")]
            credentials: None,
        }
    }

    pub(crate) fn is_tls(&self) -> bool {
        matches!(self.info.addr(), ConnectionAddr::TcpTls { .. })
    }

    /// Changes the settings of its connections.
    pub(crate) fn change_settings(
        &mut self,
        change: impl FnOnce(RedisConnectionInfo) -> RedisConnectionInfo,
    ) {
        let settings = change(self.info.redis_settings().clone());
        self.info = self.info.clone().set_redis_settings(settings);
    }

    /// The address of another server, which is connected to in the same way.
    pub(crate) fn with_place(&self, place: &HostPort) -> Self {
        // Everything else stays: the login, the database and the certificates are the same for all servers.
        let addr = connection_addr(place.clone(), self.is_tls());
        let mut other = self.clone();
        other.endpoint = place.to_string().into();
        other.info = other.info.set_addr(addr);
        other
    }
}

/// The driver's form of an address.
pub(crate) fn connection_addr(HostPort { host, port }: HostPort, is_tls: bool) -> ConnectionAddr {
    if is_tls {
        ConnectionAddr::TcpTls {
            host,
            port,
            insecure: false,
            tls_params: None,
        }
    } else {
        ConnectionAddr::Tcp(host, port)
    }
}

//! The address of a server, read from its URL, and the parameters of any URL.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
#[cfg(feature = "tls")]
use std::sync::OnceLock;

use redis::{
    ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo,
    parse_redis_url,
};

#[cfg(feature = "tls")]
use rustls::ClientConfig;

#[cfg(feature = "credentials")]
use super::credentials::Credentials;
use crate::base::error::LockError;

const ACCEPTED: &str = "use `redis://host:port/database`, `rediss://…` for TLS, `unix:///path`, \
                        `redis+sentinel://host:port,host:port/primary`, `redis+cluster://host:port,host:port`, or `memory:`";

/// The reason why a text is not the URL of a server.
fn mistake(url: &str) -> &'static str {
    if url.is_empty() {
        "it is empty"
    } else if url.starts_with("memory:") {
        "nothing may follow after `memory:`"
    } else if url.contains("://") {
        "it is not the URL of a Redis server"
    } else {
        "it does not begin with `redis://`"
    }
}

/// The place where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Place {
    pub(crate) fn new(host: impl Into<String>, port: u16) -> Self {
        let host = host.into();
        Self { host, port }
    }
}

/// The host and the port of `host:port` or `[v6]:port`. Each of the two may be missing. The brackets are kept.
pub(crate) fn host_and_port(address: &str) -> Option<(&str, Option<u16>)> {
    let Some((host, port)) = address.rsplit_once(':').filter(|_| !address.ends_with(']')) else {
        return Some((address, None));
    };
    // `parse` would accept a sign.
    let port = (!port.starts_with('+')).then(|| port.parse().ok())??;
    Some((host, Some(port)))
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// A list of places, for messages.
pub(crate) fn list(places: &[Place]) -> String {
    let places: Vec<_> = places.iter().map(Place::to_string).collect();
    places.join(",")
}

/// A checked URL.
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
                Place::new(host, *port).to_string()
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

    /// Reads a URL. An error says why it cannot be used, without showing it.
    pub(crate) fn parse(url: &str) -> Result<Self, LockError> {
        let Some(mut parsed) = parse_redis_url(url) else {
            return Err(refused(&format!("{}; {ACCEPTED}", mistake(url))));
        };
        let is_tls = matches!(parsed.scheme(), "rediss" | "valkeys");
        if is_tls {
            if cfg!(not(feature = "tls")) {
                let reason = "it requires TLS: enable the feature `tls` of this crate";
                return Err(refused(reason));
            }
            // The driver reads the rest of the URL, and opens no socket.
            let _ = parsed.set_scheme("redis");
        }
        // The part before the last `@` is meant as user name and password. If it contains one of these letters, it ends
        // too early, and its beginning is taken for the host.
        let login = url
            .rsplit_once('@')
            .and_then(|(login, _)| login.split_once(':'));
        let login = login.map(|(_, login)| login.trim_start_matches(['/', '\t', '\r', '\n']));
        if login.is_some_and(is_cut) && parsed.host_str().is_some_and(|host| !host.is_empty()) {
            return Err(refused(LETTERS));
        }
        let is_socket = parsed.scheme().ends_with("unix");
        let parameters: &[_] = if is_socket {
            &["db", "protocol", "user", "pass"]
        } else {
            &["db", "protocol"]
        };
        let parameters = Parameters::read(parsed.query_pairs(), parameters);
        let database = parameters.map_err(|reason| refused(&reason))?.database;
        if parsed.fragment().is_some() {
            return Err(refused(FRAGMENT));
        }
        if is_socket && (!parsed.username().is_empty() || parsed.password().is_some()) {
            return Err(refused(
                "the login of a socket is in its parameters: `unix:///path?user=…&pass=…`",
            ));
        }
        let has_path = !is_socket && !parsed.path().trim_matches('/').is_empty();
        let info = parsed.into_connection_info().map_err(|error| {
            // The detail quotes the URL.
            let text = error.to_string();
            let detail = error.detail().map(|detail| format!(": {detail}"));
            refused(text.trim_end_matches(detail.as_deref().unwrap_or_default()))
        })?;
        let given = info.redis_settings().clone();
        // The driver reads the parameter only of a socket.
        let database = database.map_or(given.db(), i64::from);
        if has_path && database != given.db() {
            return Err(refused("its path and `db` name two databases"));
        }
        let settings = settings(given).set_db(database);
        let mut address = Self::new(info.set_redis_settings(settings));
        if let ConnectionAddr::Tcp(host, port) = address.info.addr().clone()
            && is_tls
        {
            address.info = address.info.set_addr(ConnectionAddr::TcpTls {
                host,
                port,
                insecure: false,
                tls_params: None,
            });
        }
        Ok(address)
    }

    /// Returns whether its servers are connected to through TLS.
    #[cfg(feature = "tls")]
    pub(crate) fn is_tls(&self) -> bool {
        matches!(self.info.addr(), ConnectionAddr::TcpTls { .. })
    }

    /// This address with other settings.
    pub(crate) fn with(
        mut self,
        change: impl FnOnce(RedisConnectionInfo) -> RedisConnectionInfo,
    ) -> Self {
        let settings = change(self.info.redis_settings().clone());
        self.info = self.info.set_redis_settings(settings);
        self
    }

    /// The address of another server, which is connected to in the same way.
    pub(crate) fn at(&self, place: &Place) -> Self {
        let Place { host, port } = place.clone();
        let addr = match self.info.addr() {
            ConnectionAddr::TcpTls { .. } => ConnectionAddr::TcpTls {
                host,
                port,
                insecure: false,
                tls_params: None,
            },
            _ => ConnectionAddr::Tcp(host, port),
        };
        Self {
            endpoint: place.to_string().into(),
            info: self.info.clone().set_addr(addr),
            #[cfg(feature = "tls")]
            tls: Arc::clone(&self.tls),
            #[cfg(feature = "credentials")]
            credentials: self.credentials.clone(),
        }
    }
}

/// The settings that all connections have in common.
fn settings(settings: RedisConnectionInfo) -> RedisConnectionInfo {
    let settings = settings.set_protocol(ProtocolVersion::RESP2);
    settings.set_lib_name("reentry", env!("CARGO_PKG_VERSION"))
}

pub(crate) fn refused(reason: &str) -> LockError {
    LockError::config(format!("invalid URL: {reason}"))
}

pub(crate) const LETTERS: &str =
    "in a user name or password, write `/`, `?` and `#` as `%2F`, `%3F` and `%23`";

pub(crate) const FRAGMENT: &str = "write `#` as `%23`";

/// Returns whether one of these letters ends a user name or password too early.
pub(crate) fn is_cut(login: &str) -> bool {
    login.contains(['/', '?', '#'])
}

/// The parameters whose values are secret.
const SECRETS: [&str; 2] = ["pass", "sentinel_password"];

/// The parameters of a URL. The URL supports each of them, and sets it once.
pub(crate) struct Parameters {
    pub(crate) database: Option<u32>,
    others: BTreeMap<&'static str, String>,
}

impl Parameters {
    /// Reads the parameters of a URL that supports these names. The error is the reason why they cannot be used, and
    /// has no value of a parameter.
    pub(crate) fn read<'u>(
        pairs: impl Iterator<Item = (Cow<'u, str>, Cow<'u, str>)>,
        supported: &[&'static str],
    ) -> Result<Self, String> {
        let pairs: Vec<_> = pairs.collect();
        let mut read = BTreeMap::new();
        for (name, value) in &pairs {
            let Some(known) = supported.iter().find(|known| *known == name) else {
                let has_secret = read.keys().any(|it| SECRETS.contains(it))
                    || pairs
                        .iter()
                        .any(|(name, value)| [name, value].iter().any(|it| it.contains('@')));
                return Err(unknown(name, has_secret, supported));
            };
            if read.insert(*known, value.clone().into_owned()).is_some() {
                return Err(format!("`{known}` is set twice"));
            }
        }
        let database = read.remove("db").map(|value| value.parse());
        let database = database.transpose();
        // Other clients of the same URL read it.
        drop(read.remove("protocol"));
        Ok(Self {
            database: database.map_err(|_| "`db` must be the number of a database")?,
            others: read,
        })
    }

    /// The value of another parameter.
    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        self.others.remove(name)
    }
}

/// The reason why a parameter cannot be used. With a secret in the URL, the name may be a part of it: an unescaped `&`
/// or `?` ends a password too early.
fn unknown(name: &str, has_secret: bool, supported: &[&str]) -> String {
    let is_name = |letter: char| letter.is_ascii_alphabetic() || "_-".contains(letter);
    let what = if has_secret || name.is_empty() || !name.chars().all(is_name) {
        "an unknown parameter (in a value, write `&` as `%26`)".to_owned()
    } else {
        format!("the unknown parameter `{name}`")
    };
    let supported = supported.join("`, `");
    format!("it has {what}; the supported parameters are `{supported}`")
}

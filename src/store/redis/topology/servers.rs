//! Several servers that hold the locks together: a primary that sentinels monitor, or a cluster.

use std::fmt;
use std::net::Ipv6Addr;
use std::sync::Arc;

use redis::{Client, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo};

use super::Topology;
use super::cluster::Cluster;
use super::sentinels::Sentinels;
use crate::base::error::LockError;
use crate::store::redis::connect::common::{Common, Outages};
use crate::store::redis::link::address::{
    Address, Place, host_and_port, provide_tls, refused, settings,
};
#[cfg(feature = "credentials")]
use crate::store::redis::link::credentials::Credentials;
use crate::store::redis::link::source::Source;

#[cfg(any(test, fuzzing))]
#[path = "../../../../tests/properties/address.rs"]
pub(crate) mod properties;
#[cfg(test)]
mod tests;
mod url;

/// The default ports of sentinels and of servers.
const SENTINEL_PORT: u16 = 26_379;
const SERVER_PORT: u16 = 6_379;

/// Several servers that hold the locks together: a primary that sentinels monitor, or a cluster. Pass it to
/// [`LocksBuilder::servers`](crate::LocksBuilder::servers). The [URL](crate::LocksBuilder::url) can express the same in
/// one line.
///
/// An address is `host:port`, or `host` with the default port: 26379 for a sentinel, 6379 for a server of a cluster. It
/// is enough if one server responds, because it names the others.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), reentry::LockError> {
/// use reentry::{Locks, Servers};
///
/// let servers = Servers::sentinel(["sentinel-1", "sentinel-2", "sentinel-3"], "orders")
///     .username("app")
///     .password("secret");
/// let locks = Locks::builder().servers(servers).build_lazy()?;
/// // Written as a URL:
/// let url = "redis+sentinel://app:secret@sentinel-1,sentinel-2,sentinel-3/orders";
/// let same = Locks::builder().url(url).build_lazy()?;
/// # drop((locks, same));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "servers do nothing until a `Locks` is built with them"]
pub struct Servers {
    addresses: Vec<String>,
    kind: Kind,
    is_tls: bool,
    protocol: ProtocolVersion,
    database: i64,
    login: Login,
    sentinel_login: Login,
    /// Whether the connections to the sentinels use TLS. `None` means the same as for the servers.
    is_sentinel_tls: Option<bool>,
}

#[derive(Clone, Debug)]
enum Kind {
    Sentinel { primary: String },
    Cluster,
}

#[derive(Clone, Default)]
struct Login {
    username: Option<String>,
    password: Option<String>,
}

/// The servers that a URL or a [`Servers`] names. It is checked; nothing is connected yet.
pub(crate) enum Origin {
    Server(Address),
    Sentinels(Arc<Sentinels>),
    Cluster { server: Address, seeds: Vec<Place> },
}

impl Servers {
    /// Describes the primary with the name `primary`, as these sentinels know it.
    ///
    /// The `Locks` asks the sentinels where the primary is, and keeps following it. After a failover, the connection
    /// moves as soon as one of the sentinels reports the new primary.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), reentry::LockError> {
    /// let servers = reentry::Servers::sentinel(["10.0.0.1:26379", "10.0.0.2:26379"], "orders");
    /// let locks = reentry::Locks::builder().servers(servers).build_lazy()?;
    /// # drop(locks);
    /// # Ok(())
    /// # }
    /// ```
    pub fn sentinel(
        addresses: impl IntoIterator<Item = impl Into<String>>,
        primary: impl Into<String>,
    ) -> Self {
        let primary = primary.into();
        Self::new(addresses, Kind::Sentinel { primary })
    }

    /// Describes a cluster. Any of its servers is enough, because they name the others.
    ///
    /// Each lock is in one slot, and so on one server at a time. The `Locks` follows a slot that migrates, and a
    /// replica that is promoted. A request that is redirected takes as long as both servers need.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), reentry::LockError> {
    /// let servers = reentry::Servers::cluster(["10.0.0.1:7000", "10.0.0.2:7000"]);
    /// let locks = reentry::Locks::builder().servers(servers).build_lazy()?;
    /// # drop(locks);
    /// # Ok(())
    /// # }
    /// ```
    pub fn cluster(addresses: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::new(addresses, Kind::Cluster)
    }

    fn new(addresses: impl IntoIterator<Item = impl Into<String>>, kind: Kind) -> Self {
        Self {
            addresses: addresses.into_iter().map(Into::into).collect(),
            kind,
            is_tls: false,
            protocol: ProtocolVersion::RESP3,
            database: 0,
            login: Login::default(),
            sentinel_login: Login::default(),
            is_sentinel_tls: None,
        }
    }

    /// Sets the user for the servers (default: none, which means `default`).
    pub fn username(mut self, username: impl Into<String>) -> Self {
        self.login.username = Some(username.into());
        self
    }

    /// Sets the password for the servers (default: none).
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.login.password = Some(password.into());
        self
    }

    /// Sets the user for the sentinels (default: none). They have their own logins.
    pub fn sentinel_username(mut self, username: impl Into<String>) -> Self {
        self.sentinel_login.username = Some(username.into());
        self
    }

    /// Sets the password for the sentinels (default: none).
    pub fn sentinel_password(mut self, password: impl Into<String>) -> Self {
        self.sentinel_login.password = Some(password.into());
        self
    }

    /// Uses TLS for the servers and the sentinels (default: no TLS). Requires the feature `tls`.
    pub fn tls(mut self) -> Self {
        self.is_tls = true;
        self
    }

    /// Sets whether the connections to the sentinels use TLS (default: the same as for the servers).
    pub fn sentinel_tls(mut self, is_tls: bool) -> Self {
        self.is_sentinel_tls = Some(is_tls);
        self
    }

    /// Sets the number of the database (default 0). A cluster has only database 0.
    pub fn database(mut self, database: u32) -> Self {
        self.database = database.into();
        self
    }

    /// Uses only RESP2 (default: RESP3, and RESP2 if a server or a proxy rejects RESP3). Messages then use additional
    /// connections.
    pub fn resp2(mut self) -> Self {
        self.protocol = ProtocolVersion::RESP2;
        self
    }

    /// The place in each address; `None` for one that cannot be read.
    fn places(&self) -> impl Iterator<Item = Option<Place>> {
        let port = match self.kind {
            Kind::Sentinel { .. } => SENTINEL_PORT,
            Kind::Cluster => SERVER_PORT,
        };
        let addresses = self.addresses.iter();
        addresses.map(move |address| place(address, port))
    }

    /// Checks everything. Connects nowhere.
    pub(crate) fn resolve(&self) -> Result<Origin, LockError> {
        let seeds = self.places().collect::<Option<Vec<_>>>();
        let seeds = seeds.unwrap_or_default();
        // The first of them stands for all.
        let Some(first) = seeds.first() else {
            return Err(refused(
                "the address of a server must have the form `host:port`",
            ));
        };
        let server = self.address(first, self.is_tls, &self.login, self.database)?;
        match &self.kind {
            Kind::Sentinel { primary } => {
                let is_named =
                    |letter: char| letter.is_ascii_alphanumeric() || ".-_".contains(letter);
                if primary.is_empty() || !primary.chars().all(is_named) {
                    let reason =
                        "the name of a primary may contain only letters, digits, `.`, `-` and `_`";
                    return Err(refused(reason));
                }
                let is_tls = self.is_sentinel_tls.unwrap_or(self.is_tls);
                let sentinel = self.address(first, is_tls, &self.sentinel_login, 0)?;
                let sentinels = Sentinels::new(primary, sentinel, server, seeds);
                Ok(Origin::Sentinels(Arc::new(sentinels)))
            }
            Kind::Cluster if self.database != 0 => Err(LockError::config(DATABASE)),
            Kind::Cluster => Ok(Origin::Cluster { server, seeds }),
        }
    }

    /// The address of the server at a place.
    fn address(
        &self,
        place: &Place,
        is_tls: bool,
        login: &Login,
        database: i64,
    ) -> Result<Address, LockError> {
        if is_tls {
            provide_tls()?;
        }
        let mut settings = settings(RedisConnectionInfo::default(), self.protocol).set_db(database);
        if let Some(username) = &login.username {
            settings = settings.set_username(username);
        }
        if let Some(password) = &login.password {
            settings = settings.set_password(password);
        }
        let Place { host, port } = place.clone();
        let addr = if is_tls {
            ConnectionAddr::TcpTls {
                host,
                port,
                insecure: false,
                tls_params: None,
            }
        } else {
            ConnectionAddr::Tcp(host, port)
        };
        let info = addr.into_connection_info();
        let info = info.map_err(|error| refused(&error.to_string()))?;
        Ok(Address::new(info.set_redis_settings(settings)))
    }
}

const DATABASE: &str = "a cluster has only database 0";

/// `host:port`, `host`, `[v6]:port` or `[v6]`.
fn place(address: &str, port: u16) -> Option<Place> {
    let (host, given) = host_and_port(address)?;
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .filter(|host| {
            let (address, zone) = host.split_once('%').unwrap_or((host, ""));
            address.parse::<Ipv6Addr>().is_ok() && !zone.contains(['[', ']'])
        });
    let is_plain = |host: &&str| {
        !host.is_empty()
            && !host.contains(|letter: char| letter.is_whitespace() || ":/?#@[]".contains(letter))
    };
    let host = bare.or_else(|| Some(host).filter(is_plain))?;
    Some(Place::new(host, given.unwrap_or(port)))
}

impl Origin {
    /// Reads the URL of one server, or of several. Connects nowhere.
    pub(crate) fn parse(url: &str) -> Result<Self, LockError> {
        match Servers::parse(url) {
            Some(servers) => servers?.resolve(),
            None => Address::parse(url).map(Self::Server),
        }
    }

    /// The server of a client.
    pub(crate) fn of_client(client: &Client) -> Result<Self, LockError> {
        let info = client.get_connection_info();
        if matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            provide_tls()?;
        }
        // The client's own default is RESP2, so nothing tells whether its owner has asked for that.
        let settings = settings(info.redis_settings().clone(), ProtocolVersion::RESP3);
        let info = info.clone().set_redis_settings(settings);
        Ok(Self::Server(Address::new(info)))
    }

    /// These servers, with other addresses of servers and sentinels.
    #[cfg(feature = "tls")]
    pub(crate) fn map(
        self,
        change: impl Fn(Address) -> Result<Address, LockError>,
    ) -> Result<Self, LockError> {
        Ok(match self {
            Self::Server(server) => Self::Server(change(server)?),
            Self::Sentinels(set) => {
                let sentinel = change(set.sentinel.clone())?;
                let server = change(set.server.clone())?;
                Self::Sentinels(Arc::new(set.with(sentinel, server)))
            }
            Self::Cluster { server, seeds } => Self::Cluster {
                server: change(server)?,
                seeds,
            },
        })
    }

    /// These servers, with credentials that change. Sentinels have logins of their own.
    #[cfg(feature = "credentials")]
    pub(crate) fn with_credentials(self, credentials: &Credentials) -> Self {
        let on = |mut address: Address| {
            address.credentials = Some(credentials.clone());
            address
        };
        match self {
            Self::Server(server) => Self::Server(on(server)),
            Self::Sentinels(set) => {
                let sentinel = set.sentinel.clone();
                let server = on(set.server.clone());
                Self::Sentinels(Arc::new(set.with(sentinel, server)))
            }
            Self::Cluster { server, seeds } => Self::Cluster {
                server: on(server),
                seeds,
            },
        }
    }

    /// The counters of lost connections; a cluster has one for each slot.
    pub(crate) fn outages(&self) -> Outages {
        match self {
            Self::Server(_) | Self::Sentinels(_) => Outages::of_one(),
            Self::Cluster { .. } => Outages::of_slots(),
        }
    }

    /// The servers to which requests go, and the source of connections for messages.
    pub(crate) fn open(self, common: &Common) -> (Topology, Arc<dyn Source>) {
        let source: Arc<dyn Source> = match self {
            Self::Server(address) => Arc::new(address),
            Self::Sentinels(sentinels) => sentinels,
            Self::Cluster { server, seeds } => {
                let cluster = Arc::new(Cluster::new(server, seeds, common.clone()));
                return (Topology::Cluster(Arc::clone(&cluster)), cluster);
            }
        };
        (Topology::one(Arc::clone(&source), common.clone()), source)
    }
}

/// Omits the passwords. An address that cannot be read is not shown either, because it may contain one.
impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |place: Option<Place>| place.map_or("?".to_owned(), |place| place.to_string());
        f.debug_struct("Servers")
            .field("kind", &self.kind)
            .field("addresses", &self.places().map(shown).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

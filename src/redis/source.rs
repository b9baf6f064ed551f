//! The source of connections to one place, for commands and for messages, and the address of a server, which is the usual
//! one.
//!
//! The socket is ours, and so is the task that reads and writes it: so the end of a connection is noticed even if no
//! request is in flight, and dropping the task ends all of its requests. Every connection uses RESP2, which all servers
//! and proxies have. Nothing here needs more: the messages have a connection of their own.

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
#[cfg(feature = "tls")]
use std::sync::OnceLock;
use std::time::Duration;
use std::{fmt, io};

use futures_util::future::select_ok;
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{
    AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, RedisConnectionInfo, RedisError, cmd,
};
#[cfg(feature = "tls")]
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::net::{TcpStream, lookup_host};

use super::context::{Timeouts, with_timeout};
#[cfg(feature = "credentials")]
use super::credentials::Credentials;
use super::failure::connect_error;
use super::writes::{WatchedSocket, Writes, drive};
use crate::base::background::AbortOnDrop;
use crate::base::error::{StoreError, StoreFuture};
use crate::base::process;
use crate::base::timer::{Elapsed, timeout};

/// The capacity for requests that wait to be sent, which is larger than their number can be. Otherwise a request that
/// waits for room, and is not polled when it gets some, would keep the room from all requests behind it.
const SEND_BUFFER: usize = 1 << 20;

/// The source of connections to one place.
pub(crate) trait Source: Send + Sync {
    /// The name of the servers in messages, without the password.
    fn endpoint(&self) -> Arc<str>;

    /// Opens a connection for commands. [`open_in_time`] limits the time.
    fn open(self: Arc<Self>, timeouts: Timeouts) -> StoreFuture<RawConnection>;

    /// Opens a connection for messages, if there are any.
    fn open_messages(self: Arc<Self>) -> StoreFuture<PubSub> {
        Box::pin(pending())
    }

    /// Doubts that the server is still the right one, because it has no replicas.
    fn doubt(&self) {}
}

/// A connection that was just opened.
pub(crate) struct RawConnection {
    pub(crate) driver: MultiplexedConnection,
    /// Its server, to which it opens further connections.
    pub(crate) server: Arc<dyn Source>,
    /// The task that reads and writes its socket. It ends with the connection, and the connection with it. `None` if
    /// other code has opened it, on any runtime: then its end is not reported, and only the runtime that made its timers
    /// may poll them.
    pub(crate) task: Option<AbortOnDrop>,
    /// What that task has written.
    pub(crate) writes: Option<Arc<Writes>>,
    /// Ends when the connection leads to the wrong server.
    pub(crate) moved: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// Opens a connection of any kind within the connect timeout.
pub(crate) async fn open_in_time<T>(
    source: &Arc<dyn Source>,
    timeouts: Timeouts,
    open: impl FnOnce(Arc<dyn Source>) -> StoreFuture<T>,
) -> Result<T, StoreError> {
    let limit = timeouts.connect;
    let opened = timeout(limit, open(Arc::clone(source))).await;
    opened.unwrap_or_else(|Elapsed| {
        let cause = format!("no connection within {limit:?}");
        let endpoint = source.endpoint();
        Err(StoreError::not_connected(&endpoint, cause))
    })
}

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

impl Source for Address {
    fn endpoint(&self) -> Arc<str> {
        Arc::clone(&self.endpoint)
    }

    fn open(self: Arc<Self>, timeouts: Timeouts) -> StoreFuture<RawConnection> {
        Box::pin(async move {
            let connected = connect(&self, timeouts.connect).await;
            connected.map_err(|error| connect_error(&self.endpoint, error))
        })
    }

    fn open_messages(self: Arc<Self>) -> StoreFuture<PubSub> {
        Box::pin(async move {
            let connected = connect_for_messages(&self).await;
            connected.map_err(|error| connect_error(&self.endpoint, error))
        })
    }
}

/// Connects to one server within this time. The driver does not limit the response time: its callers do. `CLIENT LIST`
/// shows the connection under the name of this process.
pub(crate) async fn connect(
    address: &Arc<Address>,
    limit: Duration,
) -> Result<RawConnection, RedisError> {
    let config = AsyncConnectionConfig::new()
        .set_response_timeout(None)
        .set_pipeline_buffer_size(SEND_BUFFER);
    #[cfg(feature = "credentials")]
    let config = match &address.credentials {
        Some(credentials) => config.set_credentials_provider(credentials.clone()),
        None => config,
    };
    let writes = Arc::<Writes>::default();
    let connecting = async {
        let (login, socket) = (address.info.redis_settings(), open_socket(address).await?);
        let writes = Arc::clone(&writes);
        let socket = WatchedSocket { socket, writes };
        MultiplexedConnection::new_with_config(login, socket, config).await
    };
    let (driver, driving) = with_timeout(limit, connecting).await?;
    // From here on the connection is read even if no request polls it, so its end is noticed at once.
    let task = AbortOnDrop::spawn(drive(driving, Arc::clone(&writes)));
    // No request waits for the response. A server may reject it.
    let mut named = driver.clone();
    tokio::spawn(async move {
        let mut naming = cmd("CLIENT");
        naming.arg("SETNAME").arg(process::connection_name());
        let _ = with_timeout(limit, naming.exec_async(&mut named)).await;
    });
    Ok(RawConnection {
        driver,
        server: Arc::clone(address) as _,
        task: Some(task),
        writes: Some(writes),
        moved: Box::pin(pending()),
    })
}

/// Opens a connection that only receives messages.
async fn connect_for_messages(address: &Address) -> Result<PubSub, RedisError> {
    let login = address.info.redis_settings();
    // The driver passes no credentials to such a connection, which cannot log in again either.
    #[cfg(feature = "credentials")]
    let login = &match &address.credentials {
        Some(credentials) => {
            // Asked for each connection, because those of the last one may have expired.
            let newest = credentials.newest().await?;
            let login = login.clone().set_username(newest.username());
            login.set_password(newest.password())
        }
        None => login.clone(),
    };
    PubSub::new(login, open_socket(address).await?).await
}

/// A socket of any kind.
trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

/// Opens the socket of a connection: TCP, TLS or Unix.
async fn open_socket(address: &Address) -> io::Result<Box<dyn Socket>> {
    match address.info.addr() {
        ConnectionAddr::Tcp(host, port) => Ok(Box::new(open_tcp(host, *port).await?)),
        #[cfg(feature = "tls")]
        ConnectionAddr::TcpTls { host, port, .. } => {
            use rustls::pki_types::ServerName;
            use tokio_rustls::TlsConnector;

            use super::certificates::Certificates;

            let config = match address.tls.get() {
                Some(config) => config,
                None => {
                    // Loaded when they are first needed, and kept for later connections.
                    let of_system = Certificates::new().config().map_err(io::Error::other)?;
                    address.tls.get_or_init(|| of_system)
                }
            };
            // The name is checked before the connection is opened, which then would be in vain.
            let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
            let tcp = open_tcp(host, *port).await?;
            let connector = TlsConnector::from(Arc::clone(config));
            Ok(Box::new(connector.connect(name, tcp).await?))
        }
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Connects to the first address of the host that answers. A request is sent even if the ones before it are not
/// acknowledged yet.
async fn open_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let addresses = lookup_host((host, port)).await?;
    let connecting: Vec<_> = addresses
        .map(|it| Box::pin(TcpStream::connect(it)))
        .collect();
    // `select_ok` panics without a future.
    if connecting.is_empty() {
        return Err(io::Error::other("the host has no address"));
    }
    // All addresses at once: one that does not respond would use up the time for the others.
    let (tcp, _others) = select_ok(connecting).await?;
    tcp.set_nodelay(true)?;
    Ok(tcp)
}

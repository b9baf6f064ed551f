//! The driver of a connection. The socket is ours, and so is the task that reads and writes it: so the end of the
//! connection is noticed even if no request is in flight, and dropping the task ends all of its requests.
//!
//! Every connection uses RESP2, which all servers and proxies have. Nothing here needs more: the messages have a
//! connection of their own.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select_ok;
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, ConnectionAddr, RedisError, cmd};
use tokio::io::{AsyncRead, AsyncWrite};
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::net::{TcpStream, lookup_host};

use super::address::Address;
use super::writes::{Driving, WatchedSocket, Writes};
use crate::base::background::AbortOnDrop;
use crate::base::process;
use crate::redis::failure::within;

/// The capacity for requests that wait to be sent, which is larger than their number can be. Otherwise a request that
/// waits for room, and is not polled when it gets some, would keep the room from all requests behind it.
const UNSENT: usize = 1 << 20;

/// The task that reads and writes the socket of a connection. It ends with the connection, and the connection with it.
pub(crate) struct DriverTask {
    pub(crate) task: AbortOnDrop,
    pub(crate) writes: Arc<Writes>,
}

/// Connects to one server within this time. The driver does not limit the response time: its callers do. `CLIENT LIST`
/// shows the connection under the name of this process.
pub(crate) async fn connect(
    address: &Address,
    limit: Duration,
) -> Result<(MultiplexedConnection, DriverTask), RedisError> {
    let config = AsyncConnectionConfig::new()
        .set_response_timeout(None)
        .set_pipeline_buffer_size(UNSENT);
    #[cfg(feature = "credentials")]
    let config = match &address.credentials {
        Some(credentials) => config.set_credentials_provider(credentials.clone()),
        None => config,
    };
    let writes = Arc::<Writes>::default();
    let connecting = async {
        let (login, socket) = (address.info.redis_settings(), open_socket(address).await?);
        let socket = WatchedSocket::new(socket, Arc::clone(&writes));
        MultiplexedConnection::new_with_config(login, socket, config).await
    };
    let (driver, driving) = within(limit, connecting).await?;
    let task = AbortOnDrop::spawn(Driving::new(driving, Arc::clone(&writes)));
    // No request waits for the response. A server may reject it.
    let naming = name(driver.clone(), limit);
    tokio::spawn(async move { drop(naming.await) });
    Ok((driver, DriverTask { task, writes }))
}

/// Opens a connection that only receives messages.
pub(super) async fn connect_for_messages(address: &Address) -> Result<PubSub, RedisError> {
    let login = address.info.redis_settings();
    // The driver passes no credentials to such a connection, which cannot log in again either.
    #[cfg(feature = "credentials")]
    let login = &match &address.credentials {
        Some(credentials) => {
            let newest = credentials.newest().await?;
            let login = login.clone().set_username(newest.username());
            login.set_password(newest.password())
        }
        None => login.clone(),
    };
    PubSub::new(login, open_socket(address).await?).await
}

/// Gives a connection the name of this process.
async fn name(mut driver: MultiplexedConnection, limit: Duration) -> Result<(), RedisError> {
    let mut naming = cmd("CLIENT");
    naming.arg("SETNAME").arg(process::connection_name());
    within(limit, naming.exec_async(&mut driver)).await
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

            use crate::redis::certificates::Certificates;

            let config = match address.tls.get() {
                Some(config) => config,
                None => {
                    let of_system = Certificates::new().config().map_err(io::Error::other)?;
                    address.tls.get_or_init(|| of_system)
                }
            };
            let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
            let tcp = open_tcp(host, *port).await?;
            Ok(Box::new(
                TlsConnector::from(Arc::clone(config))
                    .connect(name, tcp)
                    .await?,
            ))
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
    if connecting.is_empty() {
        return Err(io::Error::other("the host has no address"));
    }
    let (tcp, _others) = select_ok(connecting).await?;
    tcp.set_nodelay(true)?;
    Ok(tcp)
}

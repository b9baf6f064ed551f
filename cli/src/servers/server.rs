//! One server, and the connection to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, FromRedisValue,
    ProtocolVersion, RedisError, ToRedisArgs, Value, cmd,
};
use reentry::__admin::{closed_at_once, refuses_resp3};
use tokio::sync::Mutex;
use tokio::time::timeout;

/// The role of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A primary: locks are acquired there.
    Primary,
    /// A replica of a primary.
    Replica,
    /// A sentinel: it says where the primary of this name is.
    Sentinel(String),
}

/// The response of a server, or the error text with which it rejects a command.
pub(crate) type Answer<T> = Result<T, String>;

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Resp3,
    /// RESP2, for which the address asks.
    Resp2,
    /// RESP2, because the server rejects RESP3.
    Resp3Refused,
}

/// Pairs of a name and a value.
pub(crate) type Fields = BTreeMap<String, String>;

/// A server. The first command connects. Clones share the connection.
#[derive(Clone)]
pub(crate) struct Server {
    role: Role,
    address: String,
    info: ConnectionInfo,
    timeouts: Timeouts,
    connection: Arc<Mutex<Option<(MultiplexedConnection, Protocol)>>>,
}

/// The time limits for a connection and for a response.
#[derive(Clone, Copy, Default)]
pub(super) struct Timeouts {
    pub(super) connect: Duration,
    pub(super) response: Duration,
}

impl Server {
    pub(super) fn new(role: Role, info: ConnectionInfo, timeouts: Timeouts) -> Self {
        Self {
            role,
            address: address(info.addr()),
            info,
            timeouts,
            connection: Arc::default(),
        }
    }

    /// Another server, with a connection made in the same way. A server that does not know its own name leaves the
    /// host out.
    pub(super) fn at(&self, role: Role, host: &str, port: u16) -> Self {
        let mut addr = self.info.addr().clone();
        match &mut addr {
            ConnectionAddr::Tcp(of_this, its_port)
            | ConnectionAddr::TcpTls {
                host: of_this,
                port: its_port,
                ..
            } => {
                if !["", "?"].contains(&host) {
                    host.clone_into(of_this);
                }
                *its_port = port;
            }
            _ => addr = ConnectionAddr::Tcp(host.to_owned(), port),
        }
        Self::new(role, self.info.clone().set_addr(addr), self.timeouts)
    }

    /// Another server, with the address from these fields.
    pub(super) fn named(&self, role: Role, fields: &Fields) -> Option<Self> {
        let port = fields.get("port")?.parse().ok()?;
        Some(self.at(role, fields.get("ip")?, port))
    }

    pub(crate) fn role(&self) -> &Role {
        &self.role
    }

    /// The address, without the password.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The host and the port, by which servers are ordered.
    pub(super) fn place(&self) -> (String, u16) {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                (host.clone(), *port)
            }
            _ => (self.address.clone(), 0),
        }
    }

    /// Sends one command, exactly once, and waits for the response.
    ///
    /// # Errors
    ///
    /// There is no connection, or no response.
    pub(crate) async fn ask<T: FromRedisValue>(
        &self,
        words: &[impl ToRedisArgs],
    ) -> anyhow::Result<Answer<T>> {
        let mut command = Cmd::new();
        command.arg(words);
        let (mut connection, _) = self.connected().await?;
        let limit = self.timeouts.response;
        let asking = timeout(limit, command.query_async::<Value>(&mut connection));
        let error = match asking.await {
            Ok(Ok(value)) => return Ok(T::from_redis_value(value).map_err(|it| it.to_string())),
            Ok(Err(error)) if is_answer(&error) => return Ok(Err(words_of(&error))),
            // The error repeats itself in its own sources.
            Ok(Err(error)) => anyhow!(error.to_string()),
            Err(_elapsed) => silence(limit),
        };
        // The next command makes another connection.
        self.connection.lock().await.take();
        Err(error.context(self.failed("command")))
    }

    /// The protocol of the connection.
    ///
    /// # Errors
    ///
    /// There is no connection.
    pub(crate) async fn protocol(&self) -> anyhow::Result<Protocol> {
        Ok(self.connected().await?.1)
    }

    async fn connected(&self) -> anyhow::Result<(MultiplexedConnection, Protocol)> {
        let mut present = self.connection.lock().await;
        if let Some(connection) = &*present {
            return Ok(connection.clone());
        }
        let limit = self.timeouts.connect;
        let connected = match timeout(limit, connect(&self.info)).await {
            Ok(connected) => connected,
            Err(_elapsed) => return Err(silence(limit).context(self.failed("command"))),
        };
        let connected = connected.map_err(|error| reason(error).context(self.failed("connect")))?;
        Ok(present.insert(connected).clone())
    }

    fn failed(&self, step: &str) -> String {
        format!("{step} failed at {}", self.address)
    }
}

/// Connects. A server that rejects RESP3 gets RESP2, as for the locks.
async fn connect(info: &ConnectionInfo) -> Result<(MultiplexedConnection, Protocol), RedisError> {
    let asked = match info.redis_settings().protocol() {
        ProtocolVersion::RESP2 => Protocol::Resp2,
        _ => Protocol::Resp3,
    };
    match open(info.clone()).await {
        Err(error) if asked == Protocol::Resp3 && refuses_resp3(&error) => {
            let settings = info.redis_settings().clone();
            let settings = settings.set_protocol(ProtocolVersion::RESP2);
            let connection = open(info.clone().set_redis_settings(settings)).await?;
            Ok((connection, Protocol::Resp3Refused))
        }
        connection => Ok((connection?, asked)),
    }
}

/// Opens a connection. If the driver sends several requests for that, and the server responds with one error and ends the
/// connection, the driver reports only the end. So in RESP3 it sends only HELLO. In RESP2 it might send nothing.
async fn open(mut info: ConnectionInfo) -> Result<MultiplexedConnection, RedisError> {
    let settings = info.redis_settings().clone();
    let mut database = 0;
    if settings.protocol() != ProtocolVersion::RESP2 {
        database = settings.db();
        info = info.set_redis_settings(settings.set_skip_set_lib_name().set_db(0));
    }
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None);
    let client = Client::open(info)?;
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    let mut connection = connecting.await?;
    if database != 0 {
        let mut select = cmd("SELECT");
        select.arg(database).exec_async(&mut connection).await?;
    }
    Ok(connection)
}

/// The reason why a connection was rejected.
fn reason(error: RedisError) -> anyhow::Error {
    if rejects_login(&error) {
        return error.into();
    }
    let text = error.to_string();
    if text.contains("max number of clients") {
        return anyhow!(
            "the server has no free connection: raise its `maxclients`, or close connections that `CLIENT LIST` shows"
        );
    }
    anyhow!(closed_at_once(&error).map_or(text, str::to_owned))
}

/// Whether the server has responded that the user or the password is wrong.
pub(crate) fn rejects_login(error: &RedisError) -> bool {
    error.kind() == ErrorKind::AuthenticationFailed
        || matches!(error.code(), Some("NOAUTH" | "WRONGPASS"))
}

/// The response of a server that does not reject the command.
pub(crate) fn accepted<T>(answer: Answer<T>) -> anyhow::Result<T> {
    answer.map_err(|words| anyhow!(words).context("the server rejected the command"))
}

/// The name and the value in each part.
pub(crate) fn fields<'p>(parts: impl Iterator<Item = &'p str>, between: char) -> Fields {
    let pairs = parts.filter_map(|part| part.split_once(between));
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.trim().to_owned());
    pairs.map(owned).collect()
}

fn address(addr: &ConnectionAddr) -> String {
    match addr {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. }
            if host.contains(':') =>
        {
            format!("[{host}]:{port}")
        }
        addr => addr.to_string(),
    }
}

fn silence(limit: Duration) -> anyhow::Error {
    anyhow!("no response within {limit:?}")
}

/// Whether the error comes from the server itself.
fn is_answer(error: &RedisError) -> bool {
    error.code().is_some() && !error.is_io_error() && !error.is_unrecoverable_error()
}

/// The error text of the server, as it was sent.
fn words_of(error: &RedisError) -> String {
    let words = [error.code(), error.detail()].into_iter().flatten();
    words.collect::<Vec<_>>().join(" ")
}

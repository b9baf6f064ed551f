//! One server, and the connection to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use redis::{Cmd, ErrorKind, FromRedisValue, RedisError, ToRedisArgs, Value};
use reentry::__admin::{self, ServerConnection, closed_at_once};
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

/// Pairs of a name and a value.
pub(crate) type Fields = BTreeMap<String, String>;

/// A server. The first command connects. Clones share the connection.
#[derive(Clone)]
pub(crate) struct Server {
    role: Role,
    address: String,
    server: __admin::RedisServer,
    timeouts: Timeouts,
    connection: Arc<Mutex<Option<ServerConnection>>>,
}

/// The time limits for a connection and for a response.
#[derive(Clone, Copy, Default)]
pub(super) struct Timeouts {
    pub(super) connect: Duration,
    pub(super) response: Duration,
}

impl Server {
    pub(super) fn new(role: Role, server: __admin::RedisServer, timeouts: Timeouts) -> Self {
        Self {
            role,
            address: server.to_string(),
            server,
            timeouts,
            connection: Arc::default(),
        }
    }

    /// Another server, with a connection made in the same way. A server that does not know its own name leaves the
    /// host out.
    pub(super) fn at(&self, role: Role, host: &str, port: u16) -> Self {
        let own = self.server.host_port().map(|(host, _)| host);
        let host = own.filter(|_| ["", "?"].contains(&host)).unwrap_or(host);
        Self::new(role, self.server.with_host_port(host, port), self.timeouts)
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
        match self.server.host_port() {
            Some((host, port)) => (host.to_owned(), port),
            None => (self.address.clone(), 0),
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
        let (mut connection, _open) = self.connected().await?;
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

    async fn connected(&self) -> anyhow::Result<ServerConnection> {
        let mut present = self.connection.lock().await;
        if let Some(connection) = &*present {
            return Ok(connection.clone());
        }
        let limit = self.timeouts.connect;
        let connected = self.server.connect(limit).await.map_err(|error| {
            let reason = if error.is_timeout() {
                silence(limit)
            } else {
                reason(error)
            };
            reason.context(self.failed("connect"))
        })?;
        Ok(present.insert(connected).clone())
    }

    fn failed(&self, step: &str) -> String {
        format!("{step} failed at {}", self.address)
    }
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

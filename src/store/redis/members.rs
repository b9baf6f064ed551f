//! The servers one by one, and commands to each of them.
//!
//! Each has a connection of its own, beside those of the locks, which is made when it is first needed. Nothing is sent
//! twice: a command whose connection fails is an error.

use std::{error::Error, sync::Arc, time::Duration};

use redis::{Cmd, RedisError, Value, aio::MultiplexedConnection};

use super::{
    failure::{self, DriverError},
    link::{
        address::{Address, Place},
        pushes::Receiver,
        source::{Limit, Timeouts, open_at},
    },
};
use crate::{
    base::{
        error::{Effect, StoreError},
        mutex::Mutex,
        timer::{Elapsed, timeout},
    },
    store::{
        Answer,
        members::{Commands, Member, Reply, Role},
    },
};

/// The connection to one server.
struct Link {
    address: Arc<Address>,
    timeouts: Timeouts,
    connection: Mutex<Option<MultiplexedConnection>>,
}

/// A server that is not connected to yet.
pub(super) fn member(role: Role, address: Address, timeouts: Timeouts) -> Member {
    let link = Link {
        address: Arc::new(address),
        timeouts,
        connection: Mutex::default(),
    };
    Member {
        role,
        commands: Arc::new(Unresent(Arc::new(link))),
    }
}

/// Sends what it is given once.
struct Unresent(Arc<Link>);

impl Commands for Unresent {
    fn address(&self) -> &str {
        &self.0.address.endpoint
    }

    fn command(&self, words: Vec<Vec<u8>>) -> Answer<Reply> {
        let link = Arc::clone(&self.0);
        Box::pin(async move { link.ask(&words).await })
    }
}

impl Link {
    async fn ask(&self, words: &[Vec<u8>]) -> Result<Reply, StoreError> {
        let mut connection = self.connected().await?;
        let mut command = Cmd::new();
        words.iter().for_each(|word| {
            command.arg(word);
        });
        let limit = self.timeouts.response;
        let asked = timeout(limit, command.query_async::<Value>(&mut connection)).await;
        let failed = match asked {
            Ok(Ok(value)) => return Ok(reply(value)),
            Ok(Err(error)) if is_answer(&error) => return Ok(Reply::Error(words_of(&error))),
            Ok(Err(error)) => self.failed(failure::effect(&error), DriverError(error)),
            Err(Elapsed) => self.failed(Effect::Unknown, silence(limit)),
        };
        // The next command gets another one.
        self.connection.lock().take();
        Err(failed)
    }

    async fn connected(&self) -> Result<MultiplexedConnection, StoreError> {
        if let Some(connection) = &*self.connection.lock() {
            return Ok(connection.clone());
        }
        let address = Arc::clone(&self.address);
        let opening = open_at(address, self.timeouts, Limit::None, Receiver::deaf());
        let limit = self.timeouts.connect;
        let opened = timeout(limit, opening).await;
        let opened =
            opened.unwrap_or_else(|Elapsed| Err(self.failed(Effect::None, silence(limit))))?;
        *self.connection.lock() = Some(opened.driver.clone());
        Ok(opened.driver)
    }

    fn failed(&self, effect: Effect, cause: impl Into<Box<dyn Error + Send + Sync>>) -> StoreError {
        StoreError::new("command", &self.address.endpoint, effect, cause)
    }
}

fn silence(limit: Duration) -> String {
    format!("no answer within {limit:?}")
}

/// Whether the server itself has said so.
fn is_answer(error: &RedisError) -> bool {
    error.code().is_some() && !error.is_io_error() && !error.is_unrecoverable_error()
}

/// What it has said, as it stands on the wire.
fn words_of(error: &RedisError) -> String {
    let words = [error.code(), error.detail()].into_iter().flatten();
    words.collect::<Vec<_>>().join(" ")
}

fn reply(value: Value) -> Reply {
    let list = |values: Vec<Value>| Reply::List(values.into_iter().map(reply).collect());
    match value {
        Value::Nil => Reply::Nil,
        Value::Int(int) => Reply::Int(int),
        Value::Boolean(is_so) => Reply::Int(i64::from(is_so)),
        Value::BulkString(bytes) => Reply::Text(String::from_utf8_lossy(&bytes).into_owned()),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Reply::Text(text),
        Value::Okay => Reply::Text("OK".to_owned()),
        Value::Double(number) => Reply::Text(number.to_string()),
        Value::Array(values) | Value::Set(values) => list(values),
        Value::Map(pairs) => list(pairs.into_iter().flat_map(|(key, it)| [key, it]).collect()),
        Value::ServerError(error) => Reply::Error(words_of(&error.into())),
        other => Reply::Text(format!("{other:?}")),
    }
}

/// One server, and those that it names as its replicas, or as its primary. It stands as a primary whatever it says of
/// itself: all locks are asked for there.
pub(super) async fn around(
    address: &Address,
    timeouts: Timeouts,
) -> Result<Vec<Member>, StoreError> {
    let this = member(Role::Primary, address.clone(), timeouts);
    let words = [b"INFO".to_vec(), b"replication".to_vec()].to_vec();
    // A user who may not ask is told of this one alone.
    let Reply::Text(info) = this.commands.command(words).await? else {
        return Ok(vec![this]);
    };
    let of = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
    let replicas = info.lines().filter_map(|line| {
        let (number, fields) = line.strip_prefix("slave")?.split_once(':')?;
        number.parse::<u32>().ok()?;
        let field = |name: &str| fields.split(',').find_map(|field| field.strip_prefix(name));
        Some((Role::Replica, place(field("ip=")?, field("port=")?)?))
    });
    let primary = of("master_host:").zip(of("master_port:"));
    let primary = primary.and_then(|(host, port)| Some((Role::Primary, place(host, port)?)));
    let others = replicas.chain(primary);
    let others = others.map(|(role, place)| member(role, address.at(&place), timeouts));
    Ok([this].into_iter().chain(others).collect())
}

fn place(host: &str, port: &str) -> Option<Place> {
    let (host, port) = (host.to_owned(), port.parse().ok()?);
    Some(Place { host, port })
}

/// The replicas of a primary, as a sentinel lists them: for each a list of names and values.
pub(super) fn listed(reply: &Reply) -> Vec<Place> {
    let Reply::List(replicas) = reply else {
        return Vec::new();
    };
    let of = |fields: &[Reply], name: &str| {
        fields.chunks_exact(2).find_map(|pair| match pair {
            [Reply::Text(key), Reply::Text(value)] if key == name => Some(value.clone()),
            _ => None,
        })
    };
    let named = |replica: &Reply| match replica {
        Reply::List(fields) => place(&of(fields, "ip")?, &of(fields, "port")?),
        _ => None,
    };
    replicas.iter().filter_map(named).collect()
}

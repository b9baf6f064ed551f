//! One sentinel, with its answers and a connection to it that is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use redis::aio::{MultiplexedConnection, SendError};
use redis::{Cmd, FromRedisValue, PushInfo, PushKind, RedisError, cmd};
use tokio::join;
use tokio::sync::watch;

use crate::base::sync::Mutex;
use crate::base::timer::timeout;
use crate::store::redis::link::address::{Address, Place};
use crate::store::redis::link::attempt::Kept;
use crate::store::redis::link::messages::Subscribed;
use crate::store::redis::link::protocol::connect;
use crate::store::redis::link::source::Timeouts;
use crate::store::redis::wire::failure::within;

/// The channels on which a sentinel reports that another server is the primary, that a replica was promoted, and that
/// there is another sentinel.
const CHANNELS: [&str; 3] = ["+switch-master", "+promoted-slave", "+sentinel"];

/// One sentinel.
pub(super) struct Sentinel {
    address: Address,
    kept: Mutex<Kept<SentinelConnection>>,
    /// Counts the messages of all sentinels, and their connections that have ended.
    news: watch::Sender<u64>,
}

/// A connection to a sentinel that has subscribed.
struct SentinelConnection {
    driver: MultiplexedConnection,
    _subscribed: Subscribed,
}

/// The answer of a sentinel.
#[derive(Debug, Default)]
pub(super) struct SentinelAnswer {
    /// The primary; `None` if the sentinel knows no primary of this name.
    pub(super) primary: Option<Named>,
    /// The other sentinels.
    pub(super) others: BTreeSet<Place>,
}

/// The primary that a sentinel names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Named {
    /// The configuration epoch, which grows with each failover.
    pub(super) epoch: u64,
    pub(super) place: Place,
}

impl Sentinel {
    pub(super) fn new(address: Address, news: watch::Sender<u64>) -> Self {
        Self {
            address,
            kept: Mutex::default(),
            news,
        }
    }

    /// Asks for the primary of this name, over the present connection, or over another one if that has ended.
    pub(super) async fn ask(
        &self,
        name: &str,
        timeouts: Timeouts,
    ) -> Result<SentinelAnswer, RedisError> {
        let (present, number) = {
            let kept = self.kept.lock();
            (kept.present().map(|it| it.driver.clone()), kept.number())
        };
        if let Some(connection) = present {
            // The caller may only have the time for one connection. This limit leaves time for another one, if this one
            // is stalled with its sentinel, or with the runtime that opened it.
            let limit = timeouts.response.min(timeouts.connect / 2);
            let answer = timeout(limit, ask(&connection, name)).await;
            if let Ok(Ok(answer)) = answer {
                return Ok(answer);
            }
            drop(self.kept.lock().forget(number));
            // A new connection would be stalled too.
            if answer.is_err() {
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
        }
        let connection = self.connect(timeouts).await?;
        let answer = within(timeouts.response, ask(&connection.driver, name)).await?;
        let replaced = {
            let mut kept = self.kept.lock();
            let number = kept.begin();
            kept.keep(number, Some(connection))
        };
        drop(replaced);
        Ok(answer)
    }

    /// Closes the connection, and keeps no later one.
    pub(super) fn close(&self) {
        drop(self.kept.lock().close());
    }

    async fn connect(&self, timeouts: Timeouts) -> Result<SentinelConnection, RedisError> {
        let news = self.news.clone();
        let told = move |push: PushInfo| -> Result<(), SendError> {
            if matches!(push.kind, PushKind::Message | PushKind::Disconnection) {
                news.send_modify(|count| *count += 1);
            }
            Ok(())
        };
        let connecting = connect(&self.address, timeouts.connect, told);
        let (driver, messages) = connecting.await?;
        let subscribed = messages.subscribe(&CHANNELS, timeouts.response).await?;
        Ok(SentinelConnection {
            driver,
            _subscribed: subscribed,
        })
    }
}

/// Sends all requests for an answer. The connection has subscribed, so that no change after the answer is missed.
async fn ask(connection: &MultiplexedConnection, name: &str) -> Result<SentinelAnswer, RedisError> {
    let (place, state, others) = join!(
        query::<Option<(String, u16)>>(connection, sentinel("GET-MASTER-ADDR-BY-NAME", name)),
        query::<BTreeMap<String, String>>(connection, sentinel("MASTER", name)),
        query::<Vec<BTreeMap<String, String>>>(connection, sentinel("SENTINELS", name)),
    );
    let Some((host, port)) = place? else {
        return Ok(SentinelAnswer::default());
    };
    let state = state?;
    let epoch = state.get("config-epoch").and_then(|it| it.parse().ok());
    let others = others?.into_iter().filter_map(|mut sentinel| {
        let port = sentinel.get("port")?.parse().ok()?;
        let host = sentinel.remove("ip")?;
        Some(Place::new(host, port))
    });
    Ok(SentinelAnswer {
        primary: Some(Named {
            epoch: epoch.unwrap_or_default(),
            place: Place::new(host, port),
        }),
        others: others.collect(),
    })
}

fn sentinel(verb: &str, name: &str) -> Cmd {
    cmd("SENTINEL").arg(verb).arg(name).to_owned()
}

async fn query<T: FromRedisValue>(
    connection: &MultiplexedConnection,
    command: Cmd,
) -> Result<T, RedisError> {
    command.query_async(&mut connection.clone()).await
}

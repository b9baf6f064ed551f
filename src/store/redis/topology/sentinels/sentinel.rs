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
    /// The number of healthy replicas. A replica that is being promoted counts until this sentinel notices that it has
    /// left its primary.
    pub(super) replicas: u32,
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
    let (place, state, others, replicas) = join!(
        query::<Option<(String, u16)>>(connection, sentinel("GET-MASTER-ADDR-BY-NAME", name)),
        query::<BTreeMap<String, String>>(connection, sentinel("MASTER", name)),
        query::<Vec<BTreeMap<String, String>>>(connection, sentinel("SENTINELS", name)),
        query::<Vec<BTreeMap<String, String>>>(connection, sentinel("REPLICAS", name)),
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
        // A user may not be allowed to list the replicas.
        replicas: replicas.map_or(0, |replicas| well(&replicas)),
    })
}

/// The number of replicas that a sentinel may promote. A server that it considers a primary is not a replica. A server
/// without a run ID was never reached. Sentinels name everything to which the primary has sent its data, for example a
/// backup.
fn well(replicas: &[BTreeMap<String, String>]) -> u32 {
    let is_well = |replica: &&BTreeMap<String, String>| {
        let has = |name: &str, what: &str| replica.get(name).is_some_and(|it| it.contains(what));
        let is_known = replica.get("runid").is_some_and(|id| !id.is_empty());
        is_known && has("role-reported", "slave") && !has("flags", "down")
    };
    let count = replicas.iter().filter(is_well).count();
    u32::try_from(count).unwrap_or(u32::MAX)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The report of a sentinel about a replica, in the words of Redis 7.0.
    fn replica(flags: &str, role: &str, runid: &str) -> BTreeMap<String, String> {
        let fields = [("flags", flags), ("role-reported", role), ("runid", runid)];
        fields
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }

    #[test]
    fn what_a_sentinel_has_never_reached_is_no_replica() {
        let id = "6b0dc6cbd9b6b4bb8b0bd1a1d5f3f6ffb0f4ee9d";
        let replicas = [
            replica("slave", "slave", id),
            // It was cut off a moment ago.
            replica("slave,disconnected", "slave", id),
            replica("slave,s_down", "slave", id),
            replica("slave", "master", id),
            // This is how it names `redis-cli --rdb`.
            replica("slave,disconnected", "slave", ""),
        ];
        assert_eq!(well(&replicas), 2);
        assert_eq!(well(&replicas[4..]), 0);
    }
}

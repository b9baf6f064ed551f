//! One sentinel: a connection to it, which is kept, and what it says.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use redis::aio::{MultiplexedConnection, SendError};
use redis::{Cmd, FromRedisValue, PushInfo, PushKind, RedisError, cmd};
use tokio::join;
use tokio::sync::watch;

use crate::base::sync::Mutex;
use crate::base::timer::timeout;
use crate::store::redis::link::address::{Address, Place};
use crate::store::redis::link::kept::Kept;
use crate::store::redis::link::source::{Limit, Timeouts, connect};

/// What a sentinel tells unasked: that the primary is another one, that a replica has become one, that there is a further
/// sentinel.
const CHANNELS: [&str; 3] = ["+switch-master", "+promoted-slave", "+sentinel"];

/// One sentinel.
pub(super) struct Sentinel {
    address: Address,
    kept: Mutex<Kept<MultiplexedConnection>>,
    /// Counts what the sentinels tell unasked, and the connections to them that have ended.
    news: watch::Sender<u64>,
}

/// What a sentinel says.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// `None` if it knows none of this name.
    pub(super) primary: Option<Named>,
    /// The other sentinels that it knows.
    pub(super) others: BTreeSet<Place>,
    /// How many replicas it sees well. One that is being promoted has left its primary already, and counts until this
    /// sentinel sees that.
    pub(super) replicas: u32,
}

/// The primary that a sentinel names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Named {
    /// The configuration epoch: grows with each failover.
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

    /// Asks for the primary of this name, over the connection that is there, or another one if that has ended.
    pub(super) async fn ask(&self, name: &str, timeouts: Timeouts) -> Result<Answer, RedisError> {
        let (present, number) = {
            let kept = self.kept.lock();
            (kept.present().cloned(), kept.number())
        };
        if let Some(connection) = present {
            // The caller may have no more time than for one connection. Until then it is known whether this one stands
            // still, be it for its sentinel, or for the runtime that made it.
            let limit = timeouts.response.min(timeouts.connect / 2);
            let answer = timeout(limit, ask(&connection, name)).await;
            if let Ok(Ok(answer)) = answer {
                return Ok(answer);
            }
            drop(self.kept.lock().forget(number));
            // The sentinel would do so again.
            if answer.is_err() {
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
        }
        let connection = self.connect(timeouts).await?;
        let answer = ask(&connection, name).await?;
        let replaced = {
            let mut kept = self.kept.lock();
            let number = kept.begin();
            kept.keep(number, Some(connection))
        };
        drop(replaced);
        Ok(answer)
    }

    /// Closes the connection, and keeps no other one.
    pub(super) fn close(&self) {
        drop(self.kept.lock().close());
    }

    async fn connect(&self, timeouts: Timeouts) -> Result<MultiplexedConnection, RedisError> {
        let news = self.news.clone();
        let told = move |push: PushInfo| -> Result<(), SendError> {
            if matches!(push.kind, PushKind::Message | PushKind::Disconnection) {
                news.send_modify(|count| *count += 1);
            }
            Ok(())
        };
        let connecting = connect(&self.address, timeouts, Limit::Response, told);
        let mut connection = connecting.await?;
        connection.subscribe(&CHANNELS[..]).await?;
        Ok(connection)
    }
}

/// Whoever subscribes first misses nothing that comes after the answer.
async fn ask(connection: &MultiplexedConnection, name: &str) -> Result<Answer, RedisError> {
    let (place, state, others, replicas) = join!(
        query::<Option<(String, u16)>>(connection, sentinel("GET-MASTER-ADDR-BY-NAME", name)),
        query::<BTreeMap<String, String>>(connection, sentinel("MASTER", name)),
        query::<Vec<BTreeMap<String, String>>>(connection, sentinel("SENTINELS", name)),
        query::<Vec<BTreeMap<String, String>>>(connection, sentinel("REPLICAS", name)),
    );
    let Some((host, port)) = place? else {
        return Ok(Answer::default());
    };
    let state = state?;
    let epoch = state.get("config-epoch").and_then(|it| it.parse().ok());
    let others = others?.into_iter().filter_map(|mut sentinel| {
        let port = sentinel.get("port")?.parse().ok()?;
        let host = sentinel.remove("ip")?;
        Some(Place::new(host, port))
    });
    Ok(Answer {
        primary: Some(Named {
            epoch: epoch.unwrap_or_default(),
            place: Place::new(host, port),
        }),
        others: others.collect(),
        // A user may have been allowed the rest alone.
        replicas: replicas.map_or(0, |replicas| well(&replicas)),
    })
}

/// How many replicas there are that a sentinel may promote. One that it sees as a primary is none yet, or no more. One that
/// it has never reached has no run id: it names whatever the primary has sent its data to, a backup for example.
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

    /// What a sentinel says of one, in the words of Redis 7.0.
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
            // As it names `redis-cli --rdb`.
            replica("slave,disconnected", "slave", ""),
        ];
        assert_eq!(well(&replicas), 2);
        assert_eq!(well(&replicas[4..]), 0);
    }
}

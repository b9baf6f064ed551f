//! The place of the primary, as the sentinels report it.
//!
//! They are asked before each connection to the primary, and every ten seconds while it exists. Each question has
//! connections of its own. Replies may differ while a failover is in progress. Then the one with the latest
//! [configuration
//! epoch](https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/#configuration-epochs) counts, and the
//! server itself must report that it is a primary.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, TryFutureExt};
use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, FromRedisValue, RedisError, Value, cmd};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio::{join, select};

use super::context::{Timeouts, with_timeout};
use super::failure::connect_error;
use super::shared_attempts::{STRAGGLER_WAIT, ask_most};
use super::source::{Address, HostPort, RawConnection, Source, connect};
use crate::base::error::{StoreError, StoreFuture};
use crate::base::sync::Mutex;
use crate::base::timer::{sleep, timeout};

/// The interval at which the sentinels are asked while a connection to the primary exists.
const ASK_INTERVAL: Duration = Duration::from_secs(10);

/// The interval while a connection is being opened, and the shortest one while requests doubt the server.
const MIN_ASK_INTERVAL: Duration = Duration::from_millis(500);

/// The maximum number of sentinels that are asked beside those of the URL.
const MAX_LEARNED: usize = 32;

/// The error of a sentinel that does not monitor the primary. It is useless to ask again.
const UNKNOWN_PRIMARY: (ErrorKind, &str) = (
    ErrorKind::InvalidClientConfig,
    "the sentinels know no primary with this name",
);

/// The sentinels of one primary.
pub(crate) struct Sentinels {
    /// The name of the primary.
    pub(super) primary: String,
    /// The addresses of one sentinel and of one server. The others are connected to in the same way.
    pub(super) sentinel: Address,
    pub(super) server: Address,
    pub(super) seeds: Vec<HostPort>,
    /// The sentinels that others have named.
    pub(super) learned: Mutex<BTreeSet<HostPort>>,
    /// Makes each connection to the primary ask the sentinels soon.
    pub(super) doubts: watch::Sender<()>,
}

/// The reply of a sentinel, or of all together. The greater reply is the one of the later epoch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SentinelReply {
    /// The configuration epoch, which grows with each failover.
    epoch: u64,
    primary: HostPort,
    /// The other sentinels.
    others: Vec<HostPort>,
    /// Whether each of them has replied, so that none knows a later epoch.
    is_by_all: bool,
}

impl Sentinels {
    /// Connects to the primary, and to another server as soon as the sentinels name one. If they do so while the
    /// connection exists, it has moved.
    async fn open_primary(
        self: Arc<Self>,
        timeouts: Timeouts,
    ) -> Result<RawConnection, StoreError> {
        // First the place, then the server itself, and meanwhile the sentinels again.
        let mut present = self.ask(timeouts).await?;
        // The server that they name may not respond, or not be a primary yet: meanwhile they may name another one.
        let opened = loop {
            let begun = Instant::now();
            let server = Arc::new(self.server.with_place(&present.primary));
            let opening = server.open(timeouts);
            select! {
                biased;
                opened = opening.and_then(require_primary) => {
                    let before = present.primary.clone();
                    if begun.elapsed() >= MIN_ASK_INTERVAL {
                        // If the server was suspended, it may have been replaced.
                        present = self.ask(timeouts).await?;
                    }
                    if present.primary == before {
                        // The sentinels still name this server, so an error of it is that of the attempt.
                        break opened?;
                    }
                }
                another = self.await_another(present.clone(), MIN_ASK_INTERVAL, timeouts) => present = another,
            }
        };
        // The connection before this one may have ended with its server, which the others then have to leave too.
        self.doubt();
        let moved = async move {
            self.await_another(present, ASK_INTERVAL, timeouts).await;
        };
        Ok(RawConnection {
            moved: Box::pin(moved),
            ..opened
        })
    }

    /// Asks at this interval, and when the server is doubted, until the sentinels name another server. An earlier epoch
    /// counts if no sentinel knows the later one any more: then the sentinels were set up again.
    async fn await_another(
        &self,
        mut present: SentinelReply,
        interval: Duration,
        timeouts: Timeouts,
    ) -> SentinelReply {
        // Doubts from before this call do not count: a new connection raises one for the others.
        let mut doubts = self.doubts.subscribe();
        loop {
            // While replicas are unavailable every request doubts.
            let doubted = sleep(MIN_ASK_INTERVAL).then(|()| doubts.changed());
            // The sender lives as long as `self`.
            let _ = timeout(interval, doubted).await;
            match self.ask(timeouts).await {
                Ok(reply) if reply.primary == present.primary => present = reply,
                Ok(reply) if reply.is_by_all || reply.epoch >= present.epoch => return reply,
                _ => {}
            }
        }
    }

    /// Asks all sentinels, and learns which other sentinels exist. Until most have replied, the others have longer after
    /// the first reply, because most may be unreachable.
    async fn ask(&self, timeouts: Timeouts) -> Result<SentinelReply, StoreError> {
        let mut known = self.learned.lock().clone();
        known.extend(self.seeds.iter().cloned());
        let asked = known.iter().map(async |place| {
            let asked = ask(self.sentinel.with_place(place), &self.primary, timeouts).await;
            asked.map_err(|error| connect_error(&self.endpoint(), error))
        });
        // All of them are asked at once, because the latest epoch may be known to any of them.
        let (count, after_any) = (known.len(), STRAGGLER_WAIT.max(timeouts.connect / 4));
        let (replies, error) = ask_most(asked, count, after_any, Duration::MAX).await;
        self.learn(&replies);
        // If one of them is silent, it may know a later epoch than the others.
        let is_by_all = replies.len() == count;
        let latest = replies.into_iter().max();
        let latest = latest.map(|reply| SentinelReply { is_by_all, ..reply });
        let unknown = || connect_error(&self.endpoint(), UNKNOWN_PRIMARY.into());
        latest.ok_or_else(|| error.unwrap_or_else(unknown))
    }

    /// Keeps the sentinels that were named, and forgets those that no sentinel names any more.
    fn learn(&self, replies: &[SentinelReply]) {
        let mut learned = self.learned.lock();
        // A sentinel does not name itself. The others name it.
        if replies.len() > 1 {
            learned.clear();
        }
        // A list that is forged, or grows for another reason, must not become a connection to each of its hosts.
        let named = replies.iter().flat_map(|reply| &reply.others).cloned();
        let room = MAX_LEARNED.saturating_sub(learned.len());
        learned.extend(named.take(room));
    }
}

impl Source for Sentinels {
    fn endpoint(&self) -> Arc<str> {
        format!(
            "{} of the sentinels {}",
            self.primary,
            HostPort::list(&self.seeds)
        )
        .into()
    }

    fn open(self: Arc<Self>, timeouts: Timeouts) -> StoreFuture<RawConnection> {
        Box::pin(self.open_primary(timeouts))
    }

    fn doubt(&self) {
        self.doubts.send_replace(());
    }
}

/// Asks one sentinel for the primary of this name, over a connection for this question alone.
async fn ask(
    sentinel: Address,
    name: &str,
    timeouts: Timeouts,
) -> Result<SentinelReply, RedisError> {
    let opened = connect(&Arc::new(sentinel), timeouts.connect).await?;
    let connection = &opened.driver;
    let queries = async {
        // The epoch is asked for first, so that it is not later than the place.
        Ok(join!(
            query::<BTreeMap<String, String>>(connection, "MASTER", name),
            query::<Option<(String, u16)>>(connection, "GET-MASTER-ADDR-BY-NAME", name),
            query::<Vec<BTreeMap<String, String>>>(connection, "SENTINELS", name),
        ))
    };
    let (state, place, others) = with_timeout(timeouts.response, queries).await?;
    let (host, port) = place?.ok_or(UNKNOWN_PRIMARY)?;
    let epoch = state?.get("config-epoch").and_then(|it| it.parse().ok());
    let others = others?.into_iter().filter_map(|mut other| {
        let port = other.get("port")?.parse().ok()?;
        Some(HostPort::new(other.remove("ip")?, port))
    });
    Ok(SentinelReply {
        // Without an epoch the reply counts as the earliest.
        epoch: epoch.unwrap_or_default(),
        primary: HostPort::new(host, port),
        others: others.collect(),
        is_by_all: false,
    })
}

async fn query<T: FromRedisValue>(
    connection: &MultiplexedConnection,
    subcommand: &str,
    name: &str,
) -> Result<T, RedisError> {
    let mut command = cmd("SENTINEL");
    let asking = command.arg(subcommand).arg(name);
    asking.query_async(&mut connection.clone()).await
}

/// Rejects a server that does not report that it is a primary.
async fn require_primary(mut opened: RawConnection) -> Result<RawConnection, StoreError> {
    let endpoint = opened.server.endpoint();
    let role = role(&mut opened.driver).await;
    let role = role.map_err(|error| connect_error(&endpoint, error))?;
    if role.as_deref() != Some("master") {
        let cause = "the sentinels name it as the primary, but it is not one";
        return Err(StoreError::not_connected(&endpoint, cause));
    }
    Ok(opened)
}

/// The role of a server. Not every user may send `ROLE`, and not every server knows `HELLO`.
async fn role(driver: &mut MultiplexedConnection) -> Result<Option<String>, RedisError> {
    let role = match cmd("HELLO")
        .query_async::<BTreeMap<String, Value>>(driver)
        .await
    {
        Ok(mut hello) => hello.remove("role"),
        Err(_) => cmd("ROLE")
            .query_async::<Vec<Value>>(driver)
            .await?
            .into_iter()
            .next(),
    };
    Ok(role.and_then(|role| String::from_redis_value(role).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_primary_of_the_latest_epoch_counts() {
        let reply = |epoch, port| SentinelReply {
            epoch,
            primary: HostPort::new("10.0.0.1", port),
            others: Vec::new(),
            is_by_all: false,
        };
        for epochs in [[1, 2], [2, 1]] {
            let latest = epochs.map(|epoch| reply(epoch, 9 - epoch as u16));
            assert_eq!(latest.into_iter().max(), Some(reply(2, 7)));
        }
    }
}

//! The holders of the locks, inspected repeatedly, past all proxies.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Client, FromRedisValue, Pipeline, Value, pipe};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::clock;
use crate::plan::KEYS;
use crate::support::server::RedisServer;

/// The time between two inspections.
const PAUSE: Duration = Duration::from_millis(5);

/// An inspection that takes longer does not count, because the server is stalled.
const LIMIT: Duration = Duration::from_secs(5);

/// A lock whose holders differ from those of the previous inspection.
#[derive(Clone, Debug)]
pub(crate) struct Sighting {
    /// The node.
    pub(crate) node: usize,
    pub(crate) key: &'static str,
    pub(crate) holds: Vec<String>,
    /// The instant before this inspection.
    pub(crate) at: u64,
    /// The instant after it.
    pub(crate) after: u64,
    /// The instant before the last inspection with another result.
    pub(crate) before: u64,
}

/// Inspects until it is dropped.
#[derive(Debug)]
pub(crate) struct Lookout {
    seen: Arc<Mutex<Vec<Sighting>>>,
    looking: Vec<JoinHandle<()>>,
}

impl Lookout {
    pub(crate) fn start(nodes: &[RedisServer]) -> Result<Lookout> {
        let seen = Arc::<Mutex<Vec<Sighting>>>::default();
        let mut looking = Vec::new();
        for (node, server) in nodes.iter().enumerate() {
            let socket: PathBuf = server.dir().join("redis.sock");
            let client = Client::open(format!("redis+unix://{}", socket.display()))?;
            looking.push(tokio::spawn(watch(client, node, Arc::clone(&seen))));
        }
        Ok(Lookout { seen, looking })
    }

    /// The sightings of each node in their order.
    pub(crate) fn sightings(&self) -> Vec<Sighting> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.clone()
    }
}

impl Drop for Lookout {
    fn drop(&mut self) {
        self.looking.iter().for_each(JoinHandle::abort);
    }
}

/// A server that is down, or cuts the connection, is inspected again later.
async fn watch(client: Client, node: usize, seen: Arc<Mutex<Vec<Sighting>>>) {
    let mut last = KEYS.map(|_| Vec::new());
    let mut before = 0;
    loop {
        if let Ok(mut connection) = client.get_multiplexed_async_connection().await {
            loop {
                let at = clock::now();
                let Ok(Ok(now)) = timeout(LIMIT, look(&mut connection)).await else {
                    break;
                };
                let after = clock::now();
                for ((key, last), holds) in KEYS.into_iter().zip(&mut last).zip(now) {
                    let Some(holds) = holds.filter(|holds| last != holds) else {
                        continue;
                    };
                    last.clone_from(&holds);
                    let sighting = Sighting {
                        node,
                        key,
                        holds,
                        at,
                        after,
                        before,
                    };
                    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                    seen.push(sighting);
                }
                before = at;
                sleep(PAUSE).await;
            }
        }
        sleep(PAUSE).await;
    }
}

/// The holders of each key. `None` if this server must not be asked for it: a replica, or a server without the slot.
async fn look(connection: &mut MultiplexedConnection) -> Result<Vec<Option<Vec<String>>>> {
    let mut all: Pipeline = pipe();
    all.cmd("ROLE");
    for key in KEYS {
        all.cmd("HKEYS").arg(key);
    }
    let answers = connection
        .req_packed_commands(&all, 0, KEYS.len() + 1)
        .await?;
    let mut answers = answers.into_iter();
    let role = answers.next().map(Vec::<Value>::from_redis_value);
    let role = role.and_then(Result::ok).unwrap_or_default();
    let is_primary = role.first() == Some(&Value::BulkString(b"master".to_vec()));
    let holds = |answer| Vec::<String>::from_redis_value(answer).ok();
    Ok(answers
        .map(|answer| holds(answer).filter(|_| is_primary))
        .collect())
}

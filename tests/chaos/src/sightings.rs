//! Who stands in the locks, looked up again and again past all proxies.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use deadpool_redis::redis::aio::MultiplexedConnection;
use deadpool_redis::redis::{Client, Pipeline, pipe};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::clock;
use crate::plan::KEYS;

/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// A lock in which others stand than at the look before.
#[derive(Clone, Debug)]
pub(crate) struct Sighting {
    pub(crate) key: &'static str,
    pub(crate) holds: Vec<String>,
    /// Before this look.
    pub(crate) at: u64,
    /// After it.
    pub(crate) after: u64,
    /// Before the last look that found otherwise.
    pub(crate) before: u64,
}

/// Looks until it is dropped.
#[derive(Debug)]
pub(crate) struct Lookout {
    seen: Arc<Mutex<Vec<Sighting>>>,
    looking: JoinHandle<()>,
}

impl Lookout {
    pub(crate) fn start(socket: &Path) -> Result<Lookout> {
        let client = Client::open(format!("redis+unix://{}", socket.display()))?;
        let seen = Arc::<Mutex<Vec<Sighting>>>::default();
        let looking = tokio::spawn(watch(client, Arc::clone(&seen)));
        Ok(Lookout { seen, looking })
    }

    pub(crate) fn sightings(&self) -> Vec<Sighting> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.clone()
    }
}

impl Drop for Lookout {
    fn drop(&mut self) {
        self.looking.abort();
    }
}

/// A server that is down, or cuts the connection, is looked at again later.
async fn watch(client: Client, seen: Arc<Mutex<Vec<Sighting>>>) {
    let mut last = KEYS.map(|_| Vec::new());
    let mut before = 0;
    loop {
        if let Ok(mut connection) = client.get_multiplexed_async_connection().await {
            loop {
                let at = clock::now();
                let Ok(now) = look(&mut connection).await else {
                    break;
                };
                let after = clock::now();
                for ((key, last), holds) in KEYS.into_iter().zip(&mut last).zip(now) {
                    if *last != holds {
                        last.clone_from(&holds);
                        let sighting = Sighting {
                            key,
                            holds,
                            at,
                            after,
                            before,
                        };
                        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                        seen.push(sighting);
                    }
                }
                before = at;
                sleep(PAUSE).await;
            }
        }
        sleep(PAUSE).await;
    }
}

async fn look(connection: &mut MultiplexedConnection) -> Result<Vec<Vec<String>>> {
    let mut all: Pipeline = pipe();
    for key in KEYS {
        all.cmd("HKEYS").arg(key);
    }
    Ok(all.query_async(connection).await?)
}

//! The opening of a connection for commands. It finds out which server it leads to, and describes this process there.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, RedisError, Value, pipe};
use tokio::select;
use tokio::time::Instant;

use super::Connector;
use super::connection::{AnswerPace, Connection, Unproven};
use crate::base::background::AbortOnDrop;
use crate::base::error::{Effect, StoreError};
use crate::base::process::ProcessId;
use crate::base::sync::Mutex;
use crate::base::timer::sleep;
use crate::redis::confirmer::{Confirmer, ReplicationId};
use crate::redis::driver::DriverTask;
use crate::redis::failure::{refuses_all, within};
use crate::redis::introduction;
use crate::redis::source::{open, refused};

impl Connector {
    /// Connects, and finds out whether the server executes requests.
    pub(super) async fn open(self: &Arc<Self>, number: u64) -> Result<Connection, StoreError> {
        let kept = self.state.lock().unproven.take();
        let unproven = match kept {
            Some(kept) => kept,
            None => self.connect().await?,
        };
        let endpoint = Arc::clone(&unproven.opened.endpoint);
        let checking = check(unproven.opened.driver.clone());
        let checked = match within(self.opening_limit(), checking).await {
            Ok(checked) => checked,
            Err(error) => {
                // Outside a cluster, another server may respond at the next attempt.
                let is_kept = refuses_all(&error) && self.has_slot.is_some();
                let error = refused(&endpoint, error);
                let unproven = is_kept.then_some(unproven);
                self.state.lock().unproven = unproven;
                return Err(error);
            }
        };
        let replication_id = match checked {
            Checked::Primary(id) => {
                self.state.lock().needs_primary = false;
                id
            }
            // A replica answers requests that only read. In a cluster it leads the others to its primary.
            Checked::Replica if self.needs_primary() => {
                return Err(self.error(Effect::None, "it is a read only replica"));
            }
            // It may be another server each time.
            Checked::Replica | Checked::Unknown => {
                ReplicationId::new(&format!("{endpoint} {number}"))
            }
        };
        Ok(self.proven(unproven, number, replication_id))
    }

    fn needs_primary(&self) -> bool {
        self.has_slot.is_none() && self.state.lock().needs_primary
    }

    fn opening_limit(&self) -> Duration {
        let timeouts = self.common.timeouts;
        timeouts.connect.min(timeouts.response)
    }

    async fn connect(&self) -> Result<Unproven, StoreError> {
        let begun = Instant::now();
        let opened = open(&self.source, self.common.timeouts).await?;
        Ok(Unproven {
            opened,
            pace: AnswerPace::new(begun.elapsed()),
        })
    }

    fn proven(
        self: &Arc<Self>,
        unproven: Unproven,
        number: u64,
        replication_id: ReplicationId,
    ) -> Connection {
        let Unproven { opened, pace } = unproven;
        let introducing = self.introduce(opened.driver.clone(), self.opening_limit());
        let server = Arc::clone(&opened.again);
        let confirmer = Confirmer::new(server, self.common.timeouts, replication_id);
        let (task, writes) = match opened.task {
            Some(DriverTask { task, writes }) => (Some(task), Some(writes)),
            None => (None, None),
        };
        Connection {
            driver: opened.driver,
            endpoint: opened.endpoint,
            server: opened.again,
            confirmer: Arc::new(confirmer),
            number,
            since: Instant::now(),
            pace,
            writes,
            known: Mutex::default(),
            _tasks: [
                task.map(|task| self.watch(number, task, opened.moved)),
                Some(introducing),
            ],
        }
    }

    /// Gives the connection with this number up when it has ended, or leads to the wrong server. Its requests end with
    /// its driver.
    fn watch(
        self: &Arc<Self>,
        number: u64,
        mut task: AbortOnDrop,
        moved: impl Future<Output = ()> + Send + 'static,
    ) -> AbortOnDrop {
        let given_up = GiveUpOnDrop(Arc::downgrade(self), number);
        AbortOnDrop::spawn(async move {
            let _given_up = given_up;
            select! {
                () = task.ended() => {}
                () = moved => {}
            }
        })
    }

    /// Describes this process to the server as long as the connection lasts. Nothing waits for the responses: a server
    /// that delays writes sends none.
    fn introduce(self: &Arc<Self>, driver: MultiplexedConnection, limit: Duration) -> AbortOnDrop {
        let connector = Arc::downgrade(self);
        AbortOnDrop::spawn(async move {
            while let Some(connector) = connector.upgrade() {
                let pause = connector.introduce_over(driver.clone(), limit).await;
                drop(connector);
                sleep(pause).await;
            }
        })
    }

    /// Describes this process to the server, unless another server of the cluster has the description. Returns the
    /// pause before the next time.
    async fn introduce_over(&self, driver: MultiplexedConnection, limit: Duration) -> Duration {
        let has_slot = self.has_slot.as_ref();
        let is_here = has_slot.is_none_or(|has_slot| has_slot(introduction::slot()));
        if self.common.introduces.load(Relaxed) && is_here {
            return introduction::introduce(driver, limit).await;
        }
        introduction::PERIOD
    }

    /// Describes this process to a server that has just received the slot of the description, or whose description is out
    /// of date. Connects to it for that.
    pub(in crate::redis) async fn introduce_soon(self: Arc<Self>) {
        if !self.common.introduces.load(Relaxed) {
            return;
        }
        // If no connection can be opened, the next one does it.
        if let Ok(connection) = self.connection().await {
            let limit = self.common.timeouts.response;
            self.introduce_over(connection.driver.clone(), limit).await;
        }
    }
}

/// Gives a connection up however its task ends, also with its runtime.
struct GiveUpOnDrop(Weak<Connector>, u64);

impl Drop for GiveUpOnDrop {
    fn drop(&mut self) {
        let connector = self.0.upgrade();
        connector.iter().for_each(|it| it.give_up(self.1));
    }
}

/// What a server has shown.
enum Checked {
    Primary(ReplicationId),
    Replica,
    /// It executes requests. The user may not see the rest.
    Unknown,
}

/// Finds out whether a server executes requests. It does not while it loads its data or is busy, nor if its cluster is
/// down. A replica does not execute those that write.
async fn check(mut driver: MultiplexedConnection) -> Result<Checked, RedisError> {
    let mut both = pipe();
    both.cmd("EXISTS").arg(introduction::key(ProcessId::this()));
    both.cmd("INFO").arg("replication");
    let replies = driver.send_packed_commands(&both, 0, 2).await?;
    let mut replies = replies.into_iter().map(Value::extract_error);
    match replies.next() {
        Some(Err(error)) if refuses_all(&error) || error.code() == Some("NOAUTH") => {
            return Err(error);
        }
        // Another error, for example of a cluster in which another server has the key, comes from a server that works.
        _ => {}
    }
    let Some(Ok(info)) = replies.next() else {
        return Ok(Checked::Unknown);
    };
    let info = String::from_redis_value(info).unwrap_or_default();
    let is_replica = info.lines().any(|line| line == "role:slave");
    Ok(match ReplicationId::read(&info) {
        Some(id) => Checked::Primary(id),
        None if is_replica => Checked::Replica,
        None => Checked::Unknown,
    })
}

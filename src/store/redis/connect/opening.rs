//! The opening of a connection for commands. It finds out which server it leads to, and describes this process there.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, RedisError, Value, pipe};
use tokio::time::Instant;

use super::Connector;
use super::batches::{Batches, Scope};
use super::connection::{Connection, Unproven};
use crate::base::background::AbortOnDrop;
use crate::base::error::{Effect, StoreError};
use crate::base::process::ProcessId;
use crate::base::timer::sleep;
use crate::store::redis::confirmer::Confirmer;
use crate::store::redis::introduction;
use crate::store::redis::link::source::{Ended, Opened, open, refused};
use crate::store::redis::replication_id::ReplicationId;
use crate::store::redis::wire::failure::{refuses_all, within};
use crate::store::redis::wire::in_flight::AnswerPace;
use crate::store::redis::wire::names;
use crate::store::redis::wire::traffic::Traffic;

impl Connector {
    /// Connects, and finds out whether the server executes requests.
    pub(super) async fn open(self: &Arc<Self>, number: u64) -> Result<Connection, StoreError> {
        let kept = self.state.lock().unproven.take();
        let unproven = match kept {
            Some(kept) => kept,
            None => self.connect(number).await?,
        };
        let opened = &unproven.opened;
        let checking = check(opened.driver.clone());
        let checked = match within(self.opening_limit(), checking).await {
            Ok(checked) => checked,
            Err(error) => {
                // Outside a cluster, another server may respond at the next attempt.
                let is_kept = refuses_all(&error) && self.role.scope() == Scope::Slot;
                let error = refused(&opened.endpoint, error);
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
                ReplicationId::new(&format!("{} {number}", opened.endpoint))
            }
        };
        Ok(self.proven(unproven, replication_id))
    }

    fn needs_primary(&self) -> bool {
        self.role.scope() == Scope::Server && self.state.lock().needs_primary
    }

    fn opening_limit(&self) -> Duration {
        let timeouts = self.common.timeouts;
        timeouts.connect.min(timeouts.response)
    }

    async fn connect(self: &Arc<Self>, number: u64) -> Result<Unproven, StoreError> {
        let begun = Instant::now();
        let traffic = Arc::<OnceLock<Weak<Traffic>>>::default();
        let ended = self.ended(number, Arc::clone(&traffic));
        let opened = open(&self.source, self.common.timeouts, ended).await?;
        Ok(Unproven {
            introducing: self.introduce(&opened, self.opening_limit()),
            opened,
            pace: AnswerPace::new(begun.elapsed()),
            traffic,
            number,
        })
    }

    fn proven(&self, unproven: Unproven, replication_id: ReplicationId) -> Connection {
        let Unproven { opened, pace, .. } = unproven;
        let traffic = if opened.is_own {
            Traffic::checked(pace, Arc::clone(&self.in_flight))
        } else {
            Traffic::unchecked(pace, Arc::clone(&self.in_flight))
        };
        // It is the only reference.
        let _ = unproven.traffic.set(Arc::downgrade(&traffic));
        let batches = opened.is_own.then(|| {
            let scope = self.role.scope();
            Batches::begin(opened.driver.clone(), scope)
        });
        let server = Arc::clone(&opened.again);
        let confirmer = Confirmer::new(server, self.common.timeouts, replication_id);
        Connection {
            driver: opened.driver,
            endpoint: opened.endpoint,
            server: opened.again,
            confirmer: Arc::new(confirmer),
            number: unproven.number,
            since: Instant::now(),
            traffic,
            batches,
            _tasks: [opened.following, Some(unproven.introducing)],
        }
    }

    /// The report of the end of the connection with this number. `made` is set to its traffic when the connection is
    /// opened: requests may be in flight on a connection that is no longer the present one.
    fn ended(self: &Arc<Self>, number: u64, made: Arc<OnceLock<Weak<Traffic>>>) -> Ended {
        let connector = Arc::downgrade(self);
        Arc::new(move || {
            let traffic = made.get().and_then(Weak::upgrade);
            traffic.iter().for_each(|traffic| traffic.give_up());
            connector.upgrade().iter().for_each(|it| it.give_up(number));
        })
    }

    /// Describes this process to the server as long as the connection lasts. Nothing waits for the responses: a server
    /// that delays writes sends none.
    fn introduce(self: &Arc<Self>, opened: &Opened, limit: Duration) -> AbortOnDrop {
        let (connector, driver) = (Arc::downgrade(self), opened.driver.clone());
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
        if self.common.introduces.load(Relaxed) && self.role.has(introduction::slot()) {
            return introduction::introduce(driver, limit).await;
        }
        introduction::PERIOD
    }

    /// Describes this process to a server that has just received the slot of the description, and connects to it for
    /// that.
    pub(in crate::store::redis) async fn introduce_soon(self: Arc<Self>) {
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
    both.cmd("EXISTS").arg(names::process(ProcessId::this()));
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

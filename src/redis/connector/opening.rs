//! The opening of a connection for commands. It finds out which server it leads to, and whether the server executes
//! requests.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, RedisError, Value, pipe};
use tokio::select;
use tokio::time::Instant;

use super::Connector;
use super::shared_connection::{ResponsePace, SharedConnection};
use crate::base::background::AbortOnDrop;
use crate::base::error::StoreError;
use crate::base::process::ProcessId;
use crate::base::sync::{Mutex, OnDrop};
use crate::redis::confirmer::{Confirmer, replication_id};
use crate::redis::context::with_timeout;
use crate::redis::failure::{connect_error, rejects_all};
use crate::redis::self_description::{self, describe, keep_described};
use crate::redis::source::{RawConnection, open_in_time};

impl Connector {
    /// Opens the connection with this number, and finds out whether its server executes requests.
    pub(super) async fn open(
        self: &Arc<Self>,
        number: u64,
    ) -> Result<SharedConnection, StoreError> {
        // How long this takes is the first that is known of the pace of the responses.
        let begun = Instant::now();
        let timeouts = self.context.timeouts;
        let unproven = self.state.lock().unproven.take();
        // A connection that was kept only has to be asked again.
        let opened = match unproven {
            Some(opened) => opened,
            None => open_in_time(&self.source, timeouts, |it| it.open(timeouts)).await?,
        };
        // The shorter limit: the answers are a part of the attempt to connect, and are responses.
        let limit = timeouts.connect.min(timeouts.response);
        let replication = match with_timeout(limit, probe(opened.driver.clone())).await {
            Ok(replication) => replication,
            Err(error) => {
                // Outside a cluster, another server may respond at the next attempt.
                let is_kept = rejects_all(&error) && self.has_slot.is_some();
                let error = connect_error(&opened.server.endpoint(), error);
                self.state.lock().unproven = is_kept.then_some(opened);
                return Err(error);
            }
        };
        let is_replica = replication.lines().any(|line| line == "role:slave");
        let replication_id = match replication_id(&replication) {
            Some(id) => {
                self.state.lock().needs_primary = false;
                id.to_owned()
            }
            // A replica answers requests that only read. In a cluster it leads the others to its primary.
            None if is_replica && self.has_slot.is_none() && self.state.lock().needs_primary => {
                return Err(self.unavailable("it is a read only replica"));
            }
            // It may be another server each time.
            None => format!("{} {number}", opened.server.endpoint()),
        };
        // No request waits for the description: a server that holds writes back would delay every connection.
        let describing = keep_described(opened.driver.clone(), limit, self.wants_description());
        let RawConnection {
            driver,
            server,
            task,
            writes,
            moved,
        } = opened;
        Ok(SharedConnection {
            driver,
            confirmer: Confirmer::new(Arc::clone(&server), timeouts, replication_id),
            server,
            number,
            since: Instant::now(),
            pace: ResponsePace::new(begun.elapsed()),
            writes,
            executed: Mutex::default(),
            _tasks: [
                task.map(|task| self.watch(number, task, moved)),
                Some(describing),
            ],
        })
    }

    /// Gives the connection with this number up when it has ended, or leads to the wrong server. Its requests end with
    /// its driver.
    fn watch(
        self: &Arc<Self>,
        number: u64,
        mut task: AbortOnDrop,
        moved: impl Future<Output = ()> + Send + 'static,
    ) -> AbortOnDrop {
        let connector = Arc::downgrade(self);
        // Made before the task, so that the connection is also given up if its runtime ends before the first poll.
        let give_up = OnDrop(move || {
            let connector = connector.upgrade();
            connector.iter().for_each(|it| it.give_up(number));
        });
        AbortOnDrop::spawn(async move {
            let _give_up = give_up;
            select! {
                () = task.ended() => {}
                () = moved => {}
            }
        })
    }

    /// Returns whether this process describes itself to this server. In a cluster another one may have the description.
    fn wants_description(&self) -> impl Fn() -> bool + Send + 'static {
        let context = Arc::clone(&self.context);
        let has_slot = self.has_slot.clone();
        move || {
            let has_slot = has_slot.as_ref();
            context.describes_itself.load(Relaxed)
                && has_slot.is_none_or(|has_slot| has_slot(self_description::slot()))
        }
    }

    /// Describes this process to a server that has just received the slot of the description, or whose description is out
    /// of date. Connects to it for that.
    pub(in crate::redis) async fn describe_soon(self: Arc<Self>) {
        if !self.wants_description()() {
            return;
        }
        // If no connection can be opened, the next one does it.
        if let Ok(connection) = self.connection().await {
            let limit = self.context.timeouts.response;
            describe(connection.driver.clone(), limit).await;
        }
    }
}

/// Finds out whether a server executes requests, and what it says about its replication, which is nothing if the user may
/// not see that. A server executes no requests while it loads its data or is busy, nor if its cluster is down. A replica
/// does not execute those that write.
async fn probe(mut driver: MultiplexedConnection) -> Result<String, RedisError> {
    let mut both = pipe();
    // A request with a key shows whether the server executes requests. INFO is answered while data is loaded, too.
    both.cmd("EXISTS")
        .arg(self_description::key(ProcessId::this()));
    both.cmd("INFO").arg("replication");
    let replies = driver.send_packed_commands(&both, 0, 2).await?;
    let mut replies = replies.into_iter().map(Value::extract_error);
    match replies.next() {
        Some(Err(error)) if rejects_all(&error) || error.code() == Some("NOAUTH") => {
            return Err(error);
        }
        // Another error, for example of a cluster in which another server has the key, comes from a server that works.
        _ => {}
    }
    let info = replies.next().and_then(Result::ok).unwrap_or_default();
    Ok(String::from_redis_value(info).unwrap_or_default())
}

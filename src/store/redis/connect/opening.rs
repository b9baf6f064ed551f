//! How a connection for commands is made: it subscribes, says which server it leads to, and repeats releases there.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures_util::future::join;
use tokio::time::Instant;

use super::Connector;
use super::connection::Connection;
use crate::base::error::{Effect, StoreError};
use crate::base::events;
use crate::base::metrics::Purpose;
use crate::store::redis::link::pushes::{self, Receiver};
use crate::store::redis::link::source::{AbortOnDrop, Limit, Opened, open};
use crate::store::redis::replicas::confirmer::Confirmer;
use crate::store::redis::replicas::replication_id::ReplicationId;
use crate::store::redis::wire::answer_pace::AnswerPace;
use crate::store::redis::wire::failure::ANOTHER_SERVER;
use crate::store::redis::wire::traffic::Traffic;

impl Connector {
    pub(super) async fn open(
        self: &Arc<Self>,
        number: u64,
        losses: u64,
    ) -> Result<Connection, StoreError> {
        let begun = Instant::now();
        let timeouts = self.common.timeouts;
        let made = Arc::<OnceLock<Weak<Traffic>>>::default();
        let receiver = self.receiver(number, Arc::clone(&made));
        let opened = open(&self.source, timeouts, Limit::None, receiver).await?;
        let pace = AnswerPace::new(begun.elapsed());
        let limit = timeouts.connect.min(timeouts.response);
        let identifying = ReplicationId::of(&opened.driver, limit);
        let (found, subscribing) = join(identifying, self.subscribe(&opened, limit)).await;
        let replication_id = self.recognise(found, &opened, number);
        let traffic = if opened.is_own {
            Traffic::checked(pace)
        } else {
            Traffic::unchecked(pace)
        };
        // It is the only one.
        let _ = made.set(Arc::downgrade(&traffic));
        let connection = Connection {
            driver: opened.driver,
            endpoint: opened.endpoint,
            confirmer: Confirmer::new(opened.again, timeouts, replication_id.clone()),
            replication_id,
            number,
            losses,
            traffic,
            _following: opened.following,
            _subscribing: subscribing,
        };
        let has = |slot| self.role.has(slot);
        let repeating = self.common.recent.repeat(&connection, has, limit);
        repeating.await;
        if number <= self.state.lock().moved {
            return Err(self.error(Effect::None, ANOTHER_SERVER));
        }
        events::connected(&connection.endpoint, Purpose::Commands);
        Ok(connection)
    }

    /// The receiver of the connection with this number, whose traffic will be there once it is made.
    fn receiver(self: &Arc<Self>, number: u64, made: Arc<OnceLock<Weak<Traffic>>>) -> Receiver {
        let connector = Arc::downgrade(self);
        let moving = Weak::clone(&connector);
        let ended = move || connector.upgrade().iter().for_each(|it| it.lose());
        let moved = move || {
            // Requests may be in flight on it although it is not the present one any more.
            let traffic = made.get().and_then(Weak::upgrade);
            traffic.iter().for_each(|traffic| traffic.give_up());
            moving.upgrade().iter().for_each(|it| it.moved(number));
        };
        pushes::to_holders(Arc::clone(&self.common.watched), ended, moved)
    }

    /// Subscribes to the messages to all processes. Returns the task that goes on asking where that was not answered.
    async fn subscribe(&self, opened: &Opened, limit: Duration) -> Option<AbortOnDrop> {
        if self.common.watched.get().is_none() || !opened.is_own {
            return None;
        }
        let task = pushes::subscribe(&opened.driver, limit).await;
        task.as_ref().map(AbortOnDrop::new)
    }

    /// The locks may be lost with a server that has another history than the one before it.
    fn recognise(
        &self,
        found: Option<ReplicationId>,
        opened: &Opened,
        number: u64,
    ) -> ReplicationId {
        // Where it does not say so, it may be another one each time.
        let replication_id = found.unwrap_or_else(|| {
            let name = format!("{} {number}", opened.endpoint);
            ReplicationId::new(name.into())
        });
        replication_id.raise(opened.replicas.max(self.replicas.load(Relaxed)));
        let before = {
            let mut state = self.state.lock();
            match &state.replication_id {
                Some(known) if *known == replication_id => {
                    known.join(&replication_id);
                    return known.clone();
                }
                _ => state.replication_id.replace(replication_id.clone()),
            }
        };
        if before.is_some() {
            self.role.lost();
        }
        replication_id
    }
}

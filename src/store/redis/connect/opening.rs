//! The opening of a connection for commands. It subscribes to the messages to all processes, finds out which server it
//! leads to, describes this process, and repeats releases there.
//!
//! The [inbox](crate::store::redis::inbox) has a connection of its own, which exists only while callers wait. The
//! messages to all processes are for holders, and are so rare that they need no other connection.

use std::future::pending;
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures_util::future::join;
use redis::RedisError;
use redis::aio::MultiplexedConnection;
use tokio::time::Instant;

use super::Connector;
use super::batches::Batches;
use super::connection::Connection;
use crate::base::backoff::Backoff;
use crate::base::error::{Effect, StoreError};
use crate::base::events;
use crate::base::metrics::Purpose;
use crate::base::timer::sleep;
use crate::store::redis::confirmer::Confirmer;
use crate::store::redis::introduction;
use crate::store::redis::link::abort_on_drop::AbortOnDrop;
use crate::store::redis::link::messages::{Messages, Subscribed};
use crate::store::redis::link::source::{Opened, Receiver, open};
use crate::store::redis::replication_id::ReplicationId;
use crate::store::redis::wire::failure::{ANOTHER_SERVER, within};
use crate::store::redis::wire::in_flight::AnswerPace;
use crate::store::redis::wire::mistake::is_unknown_command;
use crate::store::redis::wire::names::TO_ALL;
use crate::store::redis::wire::reply::Message;
use crate::store::redis::wire::traffic::Traffic;

/// The longest pause, without the jitter, between two attempts to subscribe. With it no pause is longer than a second.
const LONGEST: Duration = Duration::from_millis(500);

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
        let opened = open(&self.source, timeouts, receiver).await?;
        let pace = AnswerPace::new(begun.elapsed());
        let limit = timeouts.connect.min(timeouts.response);
        let identifying = ReplicationId::of(&opened.driver, limit);
        let introducing = self.introduce(&opened, limit);
        let (found, subscribing) = join(identifying, self.subscribe(&opened, limit)).await;
        let replication_id = self.recognise(found, &opened, number);
        let traffic = if opened.is_own {
            Traffic::checked(pace, Arc::clone(&self.in_flight))
        } else {
            Traffic::unchecked(pace, Arc::clone(&self.in_flight))
        };
        // It is the only reference.
        let _ = made.set(Arc::downgrade(&traffic));
        let batches = opened.is_own.then(|| {
            let scope = self.role.scope();
            Batches::begin(opened.driver.clone(), scope)
        });
        let connection = Connection {
            driver: opened.driver,
            endpoint: opened.endpoint,
            confirmer: Confirmer::new(opened.again, timeouts, replication_id),
            number,
            losses,
            traffic,
            batches,
            _tasks: [opened.following, subscribing, Some(introducing)],
        };
        if number <= self.state.lock().moved {
            return Err(self.error(Effect::None, ANOTHER_SERVER));
        }
        events::connected(&connection.endpoint, Purpose::Commands);
        Ok(connection)
    }

    /// The receiver of the connection with this number. `made` is set to its traffic when the connection is opened.
    fn receiver(self: &Arc<Self>, number: u64, made: Arc<OnceLock<Weak<Traffic>>>) -> Receiver {
        let watched = Arc::clone(&self.common.watched);
        let message = move |message| {
            let holders = watched.get().and_then(Weak::upgrade);
            if let (Some(holders), Message::Forced(message)) = (holders, message) {
                holders.forced(message);
            }
        };
        let connector = Arc::downgrade(self);
        let moving = Weak::clone(&connector);
        let ended = move || connector.upgrade().iter().for_each(|it| it.lose());
        let moved = move || {
            // Requests may be in flight on a connection that is no longer the present one.
            let traffic = made.get().and_then(Weak::upgrade);
            traffic.iter().for_each(|traffic| traffic.give_up());
            moving.upgrade().iter().for_each(|it| it.moved(number));
        };
        Receiver {
            message: Arc::new(message),
            ended: Arc::new(ended),
            moved: Arc::new(moved),
        }
    }

    /// Subscribes to the messages to all processes. In RESP2 this needs a separate connection, which the returned task
    /// reads. The end of that connection counts as the end of both. If there is no response in time, or the server
    /// rejects the request temporarily (BUSY), the connection is used without the messages. Then the returned task
    /// repeats the request. The task ends by itself after the connection has ended, or if the server does not allow the
    /// subscription. In the latter case the server also rejects that of the inbox.
    async fn subscribe(&self, opened: &Opened, limit: Duration) -> Option<AbortOnDrop> {
        if self.common.watched.get().is_none() || !opened.is_own {
            return None;
        }
        let messages = opened.messages.clone();
        if let Break(subscribed) = subscribe(&messages, limit).await {
            return subscribed?.into_reading();
        }
        Some(AbortOnDrop::spawn(async move {
            let mut backoff = pauses();
            loop {
                sleep(backoff.next_pause()).await;
                if let Break(subscribed) = subscribe(&messages, limit).await {
                    let reading = subscribed.and_then(Subscribed::into_reading);
                    return keep(reading).await;
                }
            }
        }))
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

    /// The replication ID of a server that was just connected to. If the previous server had another one, locks may be
    /// lost.
    fn recognise(
        &self,
        found: Option<ReplicationId>,
        opened: &Opened,
        number: u64,
    ) -> ReplicationId {
        // A server that does not report its ID may be another one each time.
        let replication_id = found.unwrap_or_else(|| {
            let name = format!("{} {number}", opened.endpoint);
            ReplicationId::new(&name)
        });
        let before = {
            let mut state = self.state.lock();
            state.replication_id.replace(replication_id.clone())
        };
        if before.is_some_and(|before| before != replication_id) {
            self.role.lost();
        }
        replication_id
    }
}

/// Subscribes once to the messages to all processes. Breaks with the subscription, or with `None` if it is useless to
/// repeat the request.
async fn subscribe(messages: &Messages, limit: Duration) -> ControlFlow<Option<Subscribed>> {
    match within(limit, messages.subscribe(&[TO_ALL], limit)).await {
        Ok(subscribed) => Break(Some(subscribed)),
        Err(error) if has_ended(messages, &error) || is_refused(&error) => Break(None),
        Err(_) => Continue(()),
    }
}

/// The pauses between the attempts to subscribe.
const fn pauses() -> Backoff {
    Backoff::doubling(LONGEST)
}

/// Returns whether the connection for requests has ended.
fn has_ended(messages: &Messages, error: &RedisError) -> bool {
    let is_over = error.is_unrecoverable_error() || error.is_io_error();
    matches!(messages, Messages::Beside(_)) && is_over && !error.is_timeout()
}

/// Returns whether the server allows no subscription.
fn is_refused(error: &RedisError) -> bool {
    error.code() == Some("NOPERM") || is_unknown_command(error)
}

/// Keeps a task for ever, if there is one.
async fn keep(reading: Option<AbortOnDrop>) {
    if let Some(_reading) = reading {
        pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscription_refused_for_now_is_tried_every_second() {
        let mut pauses = pauses();
        for _ in 0..100 {
            let pause = pauses.next_pause();
            assert!(pause <= Duration::from_secs(1), "{pause:?}");
        }
    }
}

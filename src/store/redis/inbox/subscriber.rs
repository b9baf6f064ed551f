//! The task that keeps the subscription.

use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::cmd;
use tokio::select;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::pace::Pace;
use crate::base::error::StoreError;
use crate::base::events;
use crate::base::events::Throttle;
use crate::base::id::InboxId;
use crate::base::metrics::Purpose;
use crate::base::sync::Mutex;
use crate::base::timer::sleep;
use crate::store::records::Listener;
use crate::store::redis::link::pushes::Receiver;
use crate::store::redis::link::source::{AbortOnDrop, Limit, Opened, Source, Timeouts, open};
use crate::store::redis::wire::failure::{self, DriverError};
use crate::store::redis::wire::message::Message;

/// How long no caller must have waited before the inbox is closed, to within as much again.
const IDLE: Duration = Duration::from_secs(5);

/// Is told when the connection of an inbox was lost.
pub(super) type Lost = Arc<dyn Fn() + Send + Sync>;

/// A request to check the subscription.
#[derive(Default)]
pub(super) struct Check {
    pub(super) asked: Notify,
    /// Since when a request has not been taken.
    pub(super) since: Mutex<Option<Instant>>,
}

impl Check {
    /// Waits for a request, and takes it.
    async fn taken(&self) {
        self.asked.notified().await;
        *self.since.lock() = None;
    }

    /// Takes the requests while `work` goes on, which makes them needless.
    async fn settled_by<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            select! {
                biased;
                output = &mut work => return output,
                () = self.taken() => {}
            }
        }
    }
}

/// How a subscription ends.
enum End {
    Idle,
    Dead,
}

/// How far a subscription is, as its task tells the waiters.
///
/// ```text
/// Opening ──▶ Open ◀──▶ Broken      and Ended after each of them
///    └────────────────────▲
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It is being made for the first time. The waiters ask once more when it is open.
    Opening,
    Open,
    /// It has died, or could not be made, and is being made anew.
    Broken,
    /// No task keeps it any more.
    Ended,
}

/// What the subscriptions of an inbox have in common.
pub(super) struct Ground {
    pub(super) source: Arc<dyn Source>,
    pub(super) timeouts: Timeouts,
    pub(super) lost: Lost,
    pub(super) check: Check,
    /// Which failures are warned of.
    pub(super) failures: Throttle,
}

pub(super) struct Subscriber {
    pub(super) id: InboxId,
    pub(super) listener: Weak<dyn Listener>,
    pub(super) ground: Arc<Ground>,
    pub(super) stage: Arc<Mutex<Stage>>,
}

impl Subscriber {
    pub(super) async fn run(self) {
        let _ending = Ending(&self);
        let (check, mut pace) = (&self.ground.check, Pace::new());
        while !self.is_idle() {
            let ended = Arc::new(Notify::new());
            let pause = match check.settled_by(self.subscribe(&ended)).await {
                Ok((mut connection, _following)) => {
                    let began = Instant::now();
                    // For what moved until now no message has come.
                    self.enter(Stage::Open);
                    match self.keep(&mut connection, &ended).await {
                        End::Idle => return,
                        // The server may have lost its data together with the connection.
                        End::Dead => (self.ground.lost)(),
                    }
                    self.enter(Stage::Broken);
                    pace.died(began.elapsed())
                }
                Err(error) => {
                    events::subscribe_retried(self.id, &error, &self.ground.failures);
                    self.enter(Stage::Broken);
                    pace.failed()
                }
            };
            if let Some(pause) = pause {
                check.settled_by(sleep(pause)).await;
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.listener
            .upgrade()
            .is_none_or(|listener| listener.is_idle())
    }

    /// Wakes the waiters, which have gone by the stage before, and may have missed a message.
    fn enter(&self, stage: Stage) {
        let before = std::mem::replace(&mut *self.stage.lock(), stage);
        if before != stage
            && let Some(listener) = self.listener.upgrade()
        {
            listener.missed();
        }
    }

    /// Waits until the connection has died, or is not needed any more.
    async fn keep(&self, connection: &mut MultiplexedConnection, ended: &Notify) -> End {
        let mut was_idle = false;
        loop {
            select! {
                biased;
                () = ended.notified() => return End::Dead,
                () = self.ground.check.taken() => {
                    if cmd("PING").exec_async(connection).await.is_err() {
                        return End::Dead;
                    }
                }
                () = sleep(IDLE) => {
                    let is_idle = self.is_idle();
                    if is_idle && was_idle {
                        return End::Idle;
                    }
                    was_idle = is_idle;
                }
            }
        }
    }

    async fn subscribe(
        &self,
        ended: &Arc<Notify>,
    ) -> Result<(MultiplexedConnection, Option<AbortOnDrop>), StoreError> {
        let receiver = deliver(Weak::clone(&self.listener), Arc::clone(ended));
        let opening = open(
            &self.ground.source,
            self.ground.timeouts,
            Limit::Response,
            receiver,
        );
        let Opened {
            mut driver,
            endpoint,
            following,
            ..
        } = opening.await?;
        let subscribed = driver.subscribe(self.id.to_string()).await;
        subscribed.map_err(|error| {
            let effect = failure::effect(&error);
            StoreError::new("subscribe", &endpoint, effect, DriverError(error))
        })?;
        events::connected(&endpoint, Purpose::Messages);
        Ok((driver, following))
    }
}

/// However the task ends, waiters that come at the same moment, or wait on another runtime than the one
/// that has ended, are woken and open the inbox again.
struct Ending<'a>(&'a Subscriber);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.enter(Stage::Ended);
    }
}

/// Tells the listener on the spot, in the task that reads the connection.
fn deliver(listener: Weak<dyn Listener>, ended: Arc<Notify>) -> Receiver {
    let message = move |message| {
        let Some(listener) = listener.upgrade() else {
            return;
        };
        match message {
            Message::Handoff(message) => listener.handoff(message),
            Message::Contended(key) => listener.contended(&key),
            Message::Forced(_) => {}
        }
    };
    let ended = Arc::new(move || ended.notify_one());
    Receiver {
        message: Arc::new(message),
        moved: Arc::clone(&ended) as _,
        ended,
    }
}

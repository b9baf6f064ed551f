//! The task that keeps the subscription of an inbox, and the pauses before it repeats the subscription.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::select;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::base::backoff::Backoff;
use crate::base::error::StoreError;
use crate::base::events;
use crate::base::events::Throttle;
use crate::base::id::InboxId;
use crate::base::metrics::Purpose;
use crate::base::sync::Mutex;
use crate::base::timer::sleep;
use crate::store::records::Listener;
use crate::store::redis::connect::common::Generation;
use crate::store::redis::link::abort_on_drop::AbortOnDrop;
use crate::store::redis::link::messages::Subscribed;
use crate::store::redis::link::source::{Receiver, Source, Timeouts, open};
use crate::store::redis::wire::failure::{failed, within};
use crate::store::redis::wire::reply::Message;

/// The time without waiting callers after which the inbox is closed. It is closed after twice this time at the latest.
const IDLE: Duration = Duration::from_secs(5);

/// The function that is called when the connection of an inbox was lost.
pub(super) type Lost = Arc<dyn Fn() + Send + Sync>;

/// The way in which a subscription ends.
enum Closing {
    Idle,
    Dead,
}

/// The state of a subscription, as its task reports it to the waiters.
///
/// ```text
/// Opening ──▶ Open ◀──▶ Broken      and Ended after each of them
///    └────────────────────▲
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InboxStage {
    /// The subscription is opened for the first time. The waiters send one more request when it is open.
    Opening,
    Open,
    /// The subscription has died, or could not be opened, and is repeated.
    Broken,
    /// The task of the subscription has ended.
    Ended,
}

/// The parts that all subscriptions of an inbox share.
pub(super) struct Ground {
    pub(super) source: Arc<dyn Source>,
    pub(super) timeouts: Timeouts,
    pub(super) lost: Lost,
    /// Changes when a connection was lost.
    pub(super) generation: Generation,
    /// Notified when the subscription must be checked.
    pub(super) check: Notify,
    /// Selects the failures that are warned of.
    pub(super) failures: Throttle,
}

pub(super) struct Subscriber {
    pub(super) id: InboxId,
    pub(super) listener: Weak<dyn Listener>,
    pub(super) ground: Arc<Ground>,
    pub(super) stage: Arc<Mutex<InboxStage>>,
}

impl Subscriber {
    pub(super) async fn run(self) {
        let _ending = EndOnDrop(&self);
        let mut pauses = Backoff::doubling(LONGEST);
        while !self.is_idle() {
            let ended = Arc::new(Notify::new());
            match self.subscribe(&ended).await {
                Ok((mut subscribed, _following)) => {
                    let began = Instant::now();
                    // For a lock that moved before this, no message was received.
                    self.enter(InboxStage::Open);
                    match self.keep(&mut subscribed, &ended).await {
                        Closing::Idle => return,
                        // The server may have lost its data together with the connection.
                        Closing::Dead => (self.ground.lost)(),
                    }
                    self.enter(InboxStage::Broken);
                    if began.elapsed() >= SETTLED {
                        pauses.reset();
                        continue;
                    }
                }
                Err(error) => {
                    events::subscribe_retried(self.id, &error, &self.ground.failures);
                    self.enter(InboxStage::Broken);
                }
            }
            sleep(pauses.next_pause()).await;
        }
    }

    fn is_idle(&self) -> bool {
        self.listener
            .upgrade()
            .is_none_or(|listener| listener.is_idle())
    }

    /// Changes the stage, and wakes the waiters. They rely on the previous stage, and may have missed a message.
    fn enter(&self, stage: InboxStage) {
        let before = std::mem::replace(&mut *self.stage.lock(), stage);
        if before != stage
            && let Some(listener) = self.listener.upgrade()
        {
            listener.missed();
        }
    }

    /// Keeps the subscription until its connection has died, or is no longer needed.
    async fn keep(&self, subscribed: &mut Subscribed, ended: &Notify) -> Closing {
        let mut was_idle = false;
        let mut generation = self.ground.generation.watch();
        loop {
            let doubted = async {
                select! {
                    () = self.ground.check.notified() => {}
                    // Its server may be away.
                    _ = generation.changed() => {}
                }
            };
            select! {
                biased;
                () = ended.notified() => return Closing::Dead,
                () = doubted => {
                    let limit = self.ground.timeouts.response;
                    if within(limit, subscribed.ping()).await.is_err() {
                        return Closing::Dead;
                    }
                }
                () = sleep(IDLE) => {
                    let is_idle = self.is_idle();
                    if is_idle && was_idle {
                        return Closing::Idle;
                    }
                    was_idle = is_idle;
                }
            }
        }
    }

    /// Subscribes. Returns the subscription, and the task that gives it up when it leads to the wrong server.
    async fn subscribe(
        &self,
        ended: &Arc<Notify>,
    ) -> Result<(Subscribed, Option<AbortOnDrop>), StoreError> {
        let receiver = deliver(Weak::clone(&self.listener), Arc::clone(ended));
        let Ground {
            source, timeouts, ..
        } = &*self.ground;
        // In RESP2 the messages have a connection of their own, and this one ends here.
        let opened = open(source, *timeouts, receiver).await?;
        let (channel, limit) = (self.id.to_string(), timeouts.response);
        let subscribed = opened.messages.subscribe(&[&channel], limit).await;
        let subscribed = subscribed.map_err(|it| failed("subscribe", &opened.endpoint, it))?;
        events::connected(&opened.endpoint, Purpose::Messages);
        Ok((subscribed, opened.following))
    }
}

/// Enters the last stage however the task ends. So the inbox is opened again by waiters that arrive at the same moment,
/// or that wait on another runtime than the one that has ended.
struct EndOnDrop<'a>(&'a Subscriber);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.enter(InboxStage::Ended);
    }
}

/// The receiver that immediately notifies the listener, in the task that reads the connection.
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

/// The time after which a subscription counts as settled: it is then repeated immediately when it dies. The shortest
/// pause is equally long, so that no two attempts of one task are closer together.
const SETTLED: Duration = Duration::from_millis(10);

/// The longest pause between two attempts to subscribe, without the jitter.
const LONGEST: Duration = Duration::from_secs(1);

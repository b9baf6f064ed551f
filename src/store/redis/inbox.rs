//! The inbox: one subscription, on a connection of its own, over which the server notifies this process that a lock has
//! moved to it.
//!
//! A message may be lost, or arrive late: it only saves a waiter the time until its next request. The inbox is opened
//! when a caller has to wait. After a disconnect, the subscription is repeated until it succeeds. The inbox is closed
//! when no caller has waited for a while. While it is broken, the waiters send requests with growing pauses.
//!
//! No wake-up is lost. The stage changes before the waiters are woken, and a waiter reads it before it pauses. So the
//! waiter reads the new stage, or its pause is cut short.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::select;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::base::background::AbortOnDrop;
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
use crate::store::redis::link::messages::Subscribed;
use crate::store::redis::link::source::{Receiver, Source, Timeouts, open};
use crate::store::redis::wire::failure::{failed, within};
use crate::store::redis::wire::reply::Message;

pub(super) struct Inbox {
    ground: Arc<Ground>,
    subscription: Mutex<Option<Subscription>>,
}

struct Subscription {
    stage: Arc<Mutex<InboxStage>>,
    task: AbortOnDrop,
}

impl Subscription {
    fn stage(&self) -> InboxStage {
        if self.task.0.is_finished() {
            // The task may have ended before it was first polled.
            InboxStage::Ended
        } else {
            *self.stage.lock()
        }
    }
}

impl Inbox {
    pub(super) fn new(
        source: Arc<dyn Source>,
        timeouts: Timeouts,
        lost: Lost,
        generation: Generation,
    ) -> Self {
        let ground = Ground {
            source,
            timeouts,
            lost,
            generation,
            check: Notify::default(),
            failures: Throttle::default(),
        };
        Self {
            ground: Arc::new(ground),
            subscription: Mutex::default(),
        }
    }

    /// Opens the inbox, unless it is open. Returns false while it is broken. A runtime that ends takes the inbox with
    /// it. Then the next waiter opens it again.
    pub(super) fn open(&self, id: InboxId, listener: Weak<dyn Listener>) -> bool {
        let mut subscription = self.subscription.lock();
        match subscription.as_ref().map(Subscription::stage) {
            Some(InboxStage::Opening | InboxStage::Open) => return true,
            Some(InboxStage::Broken) => return false,
            Some(InboxStage::Ended) | None => {}
        }
        let stage = Arc::new(Mutex::new(InboxStage::Opening));
        let subscriber = Subscriber {
            id,
            listener,
            ground: Arc::clone(&self.ground),
            stage: Arc::clone(&stage),
        };
        let task = AbortOnDrop::spawn(subscriber.run());
        *subscription = Some(Subscription { stage, task });
        true
    }

    /// Closes the inbox. The next waiter would open it again.
    pub(super) fn close(&self) {
        drop(self.subscription.lock().take());
    }

    /// Checks the subscription. If its connection is dead, the subscription is repeated over another one.
    pub(super) fn check_subscription(&self) {
        self.ground.check.notify_one();
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.close();
    }
}

/// The time without waiting callers after which the inbox is closed. It is closed after twice this time at the latest.
const IDLE: Duration = Duration::from_secs(5);

/// The function that is called when the connection of an inbox was lost.
type Lost = Arc<dyn Fn() + Send + Sync>;

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
enum InboxStage {
    /// The subscription is opened for the first time. The waiters send one more request when it is open.
    Opening,
    Open,
    /// The subscription has died, or could not be opened, and is repeated.
    Broken,
    /// The task of the subscription has ended.
    Ended,
}

/// The parts that all subscriptions of an inbox share.
struct Ground {
    source: Arc<dyn Source>,
    timeouts: Timeouts,
    lost: Lost,
    /// Changes when a connection was lost.
    generation: Generation,
    /// Notified when the subscription must be checked.
    check: Notify,
    /// Selects the failures that are warned of.
    failures: Throttle,
}

struct Subscriber {
    id: InboxId,
    listener: Weak<dyn Listener>,
    ground: Arc<Ground>,
    stage: Arc<Mutex<InboxStage>>,
}

impl Subscriber {
    async fn run(self) {
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

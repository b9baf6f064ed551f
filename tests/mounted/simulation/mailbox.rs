//! The delivery of the messages. They are lost, late, or delivered twice. The connection that delivers them is cut, or
//! is dead without being known to be.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::sleep;

use super::climate::{hold_up, one_in, reconnection, travel};
use super::wire::Wire;
use crate::store::{HandoffMessage, MessageListener};

/// As that of a real inbox.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

pub(super) struct Mailbox {
    wire: Weak<Wire>,
    listener: Weak<dyn MessageListener>,
    /// Counts the subscriptions: messages to an earlier one are lost.
    subscription: Arc<AtomicU64>,
    connected: Arc<AtomicBool>,
    /// Whether it has lost a connection since it was opened or had the last one.
    broken: Arc<AtomicBool>,
    deaf: AtomicBool,
}

impl Mailbox {
    pub(super) fn new(wire: Weak<Wire>, listener: Weak<dyn MessageListener>) -> Self {
        Self {
            wire,
            listener,
            subscription: Arc::default(),
            connected: Arc::default(),
            broken: Arc::default(),
            deaf: AtomicBool::new(false),
        }
    }

    /// Connects for the first time, and then every waiter sends one request.
    pub(super) fn open(&self) {
        self.connect(self.subscription.load(Relaxed));
    }

    /// Loses its connection, and has another one a while later.
    pub(super) fn cut(&self) {
        let number = self.subscription.fetch_add(1, Relaxed) + 1;
        self.connected.store(false, Relaxed);
        self.deaf.store(false, Relaxed);
        self.broken.store(true, Relaxed);
        if let Some(listener) = self.listener.upgrade() {
            listener.missed();
        }
        self.connect(number);
    }

    fn connect(&self, number: u64) {
        let subscription = Arc::clone(&self.subscription);
        let connected = Arc::clone(&self.connected);
        let broken = Arc::clone(&self.broken);
        let (listener, wire) = (Weak::clone(&self.listener), Weak::clone(&self.wire));
        drop(tokio::spawn(async move {
            loop {
                sleep(reconnection()).await;
                let Some(wire) = wire.upgrade().filter(|wire| !wire.is_dead()) else {
                    return;
                };
                if !wire.server.is_down() {
                    break;
                }
            }
            if subscription.load(Relaxed) == number {
                connected.store(true, Relaxed);
                broken.store(false, Relaxed);
                if let Some(listener) = listener.upgrade() {
                    listener.missed();
                }
            }
        }));
    }

    /// Returns whether its process knows that no message arrives.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Relaxed)
    }

    pub(super) fn is_open(&self) -> bool {
        self.connected.load(Relaxed) && !self.deaf.load(Relaxed)
    }

    /// Its connection is dead, which is detected when it is checked.
    pub(super) fn deafen(self: &Arc<Self>) {
        self.deaf.store(true, Relaxed);
        let mailbox = Arc::clone(self);
        drop(tokio::spawn(async move {
            sleep(CHECK_INTERVAL).await;
            if mailbox.deaf.load(Relaxed) {
                mailbox.cut();
            }
        }));
    }

    fn deliver(&self, message: HandoffMessage, after: Duration) {
        let subscription = Arc::clone(&self.subscription);
        let number = subscription.load(Relaxed);
        let (listener, wire) = (Weak::clone(&self.listener), Weak::clone(&self.wire));
        drop(tokio::spawn(async move {
            sleep(after).await;
            let reaches = wire.upgrade().is_some_and(|wire| !wire.is_dead());
            if let Some(listener) = listener.upgrade()
                && reaches
                && subscription.load(Relaxed) == number
            {
                listener.handoff(message);
            }
        }));
    }
}

/// The server sends its messages here.
impl MessageListener for Mailbox {
    fn handoff(&self, message: HandoffMessage) {
        let Some(wire) = self.wire.upgrade() else {
            return;
        };
        for hold in &message.holds {
            wire.ledger
                .given(&message.key, *hold, message.token, message.lease);
        }
        if !self.is_open() || wire.server.is_down() {
            return;
        }
        let is_bad = wire.climate.messages && !wire.server.is_calm();
        if is_bad && one_in(8) {
            self.deliver(message.clone(), hold_up());
        }
        if is_bad && one_in(5) {
            return;
        }
        let late = is_bad && one_in(5);
        self.deliver(message, if late { hold_up() } else { travel() });
    }

    fn missed(&self) {}
}

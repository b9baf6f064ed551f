//! Locks in the memory of this process, on the tokio clock: the same answers as from Redis.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

use self::state::{Message, State};
use super::{
    AcquireAllReply, AcquireReply, AcquireRequest, Answer, DepthChange, Downgrading, ForcedMessage,
    HoldOf, Holders, Keeping, Listener, Presence, ReleaseReply, ReleaseRequest, Renewal, Seen,
    ShareRequest, Snapshot, Store,
    survey::{Glance, QueuePage, Queued, Scan, Scanned, Survey},
    waits::{Claim, Look, Publication, Published, Waits},
};
use crate::base::{
    error::StoreError,
    id::{HoldId, InboxId, OwnerId},
    key::LockKey,
    mode::Mode,
    mutex::Mutex,
};

mod clock;
mod line;
mod state;
mod waits;

/// The in-memory store.
pub(crate) struct MemoryStore {
    shared: Arc<Shared>,
    /// Never changes: there is no connection to lose.
    disconnects: watch::Sender<u64>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    inboxes: Mutex<HashMap<InboxId, Weak<dyn Listener>>>,
    holders: Mutex<Vec<Weak<dyn Holders>>>,
}

impl MemoryStore {
    pub(crate) fn new() -> Self {
        Self {
            shared: Arc::default(),
            disconnects: watch::Sender::new(0),
        }
    }

    /// Runs `step` as one atomic operation when the answer is first polled, and then delivers the
    /// messages about the locks that it has moved.
    fn execute<T: Send + 'static>(
        &self,
        step: impl FnOnce(&mut State, Instant) -> T + Send + 'static,
    ) -> Answer<T> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            // Nothing here ever waits, so a loop around a lock would starve its neighbours.
            tokio::task::coop::consume_budget().await;
            let (answer, messages) = {
                let mut state = shared.state.lock();
                let now = state.now();
                state.sweep(now);
                let answer = step(&mut state, now);
                (answer, state.take_messages())
            };
            messages
                .into_iter()
                .for_each(|message| shared.tell(message));
            Ok::<_, StoreError>(answer)
        })
    }
}

/// What can happen to a real server.
#[cfg(any(test, feature = "test-util"))]
impl MemoryStore {
    /// Loses all data, as by FLUSHALL or a restart without persistence.
    pub(crate) fn forget(&self) {
        self.shared.state.lock().forget();
    }

    pub(crate) fn step_clock_forward(&self, by: Duration) {
        self.shared.state.lock().clock().step_forward(by);
    }

    pub(crate) fn step_clock_back(&self, by: Duration) {
        self.shared.state.lock().clock().step_back(by);
    }
}

impl Shared {
    fn tell(&self, message: Message) {
        match message {
            Message::Handoff(inbox, message) => {
                if let Some(listener) = self.listener(inbox) {
                    listener.handoff(message);
                }
            }
            Message::Contended(inbox, key) => {
                if let Some(listener) = self.listener(inbox) {
                    listener.contended(&key);
                }
            }
            Message::Forced(message) => self.tell_all(&message),
        }
    }

    fn listener(&self, inbox: InboxId) -> Option<Arc<dyn Listener>> {
        self.inboxes.lock().get(&inbox).and_then(Weak::upgrade)
    }

    fn tell_all(&self, message: &ForcedMessage) {
        let holders: Vec<_> = self
            .holders
            .lock()
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        holders
            .iter()
            .for_each(|holders| holders.forced(message.clone()));
    }
}

impl Store for MemoryStore {
    fn acquire(&self, key: &LockKey, request: AcquireRequest) -> Answer<AcquireReply> {
        let key = key.clone();
        self.execute(move |state, now| state.acquire(&key, request, now))
    }

    fn share(&self, key: &LockKey, request: ShareRequest) -> Answer<Vec<AcquireReply>> {
        let key = key.clone();
        self.execute(move |state, now| state.share(&key, request, now))
    }

    fn depth(&self, key: &LockKey, change: DepthChange) -> Answer<Presence> {
        let key = key.clone();
        self.execute(move |state, now| state.depth(&key, change, now))
    }

    fn renew(&self, key: &LockKey, renewal: Renewal) -> Answer<Presence> {
        let key = key.clone();
        self.execute(move |state, now| state.renew(&key, renewal, now))
    }

    fn keep(&self, key: &LockKey, keeping: Keeping) -> Answer<Vec<HoldId>> {
        let key = key.clone();
        self.execute(move |state, now| state.keep(&key, &keeping, now))
    }

    fn downgrade(&self, key: &LockKey, downgrading: Downgrading) -> Answer<Presence> {
        let key = key.clone();
        self.execute(move |state, now| state.downgrade(&key, downgrading, now))
    }

    fn release(&self, key: &LockKey, request: ReleaseRequest) -> Answer<ReleaseReply> {
        let key = key.clone();
        self.execute(move |state, now| match request.mode {
            Mode::Exclusive => state.release(&key, request, now),
            Mode::Shared => state.unshare(&key, request, now),
        })
    }

    fn acquire_all(
        &self,
        keys: &[LockKey],
        hold: HoldId,
        ttl: Duration,
    ) -> Answer<AcquireAllReply> {
        let keys = keys.to_vec();
        self.execute(move |state, now| state.acquire_all(&keys, hold, ttl, now))
    }

    fn renew_all(&self, holds: &[HoldOf], ttl: Duration) -> Answer<Option<usize>> {
        let holds = holds.to_vec();
        self.execute(move |state, now| state.renew_all(&holds, ttl, now))
    }

    fn release_all(&self, holds: &[HoldOf]) -> Answer<Vec<bool>> {
        let holds = holds.to_vec();
        self.execute(move |state, now| state.release_all(&holds, now))
    }

    fn inspect(&self, key: &LockKey) -> Answer<Option<Snapshot>> {
        let key = key.clone();
        self.execute(move |state, now| state.inspect(&key, now))
    }

    fn force_release(&self, key: &LockKey, seen: Seen) -> Answer<Vec<Vec<u8>>> {
        let key = key.clone();
        self.execute(move |state, now| state.force_release(&key, &seen, now))
    }

    fn waits(&self) -> &dyn Waits {
        self
    }

    fn survey(&self) -> &dyn Survey {
        self
    }

    fn listen(&self, inbox: InboxId, listener: Weak<dyn Listener>) -> bool {
        let known = self
            .shared
            .inboxes
            .lock()
            .insert(inbox, Weak::clone(&listener));
        if known.is_none()
            && let Some(listener) = listener.upgrade()
        {
            // Of those that came before.
            listener.missed();
        }
        true
    }

    fn watch(&self, holders: Weak<dyn Holders>) {
        let mut known = self.shared.holders.lock();
        known.retain(|holders| holders.strong_count() > 0);
        known.push(holders);
    }

    fn check_subscription(&self) {}

    fn suspect(&self, _key: &LockKey, _since: Instant) {}

    fn answers_within(&self, _key: &LockKey) -> Duration {
        Duration::ZERO
    }

    fn disconnects(&self) -> watch::Receiver<u64> {
        self.disconnects.subscribe()
    }

    fn disconnects_of(&self, _key: &LockKey) -> u64 {
        *self.disconnects.borrow()
    }

    fn connection_epochs(&self) -> u64 {
        0
    }
}

impl Survey for MemoryStore {
    fn scan(&self, scan: Scan) -> Answer<Scanned> {
        self.execute(move |state, now| state.scan(&scan, now))
    }

    fn glance(&self, key: &LockKey) -> Answer<Option<Glance>> {
        let key = key.clone();
        self.execute(move |state, now| state.glance(&key, now))
    }

    fn queue(&self, key: &LockKey, page: QueuePage) -> Answer<Queued> {
        let key = key.clone();
        self.execute(move |state, now| state.queue(&key, page, now))
    }
}

impl Waits for MemoryStore {
    fn publish_wait(&self, publication: Publication) -> Answer<Published> {
        self.execute(move |state, now| {
            let now = state.time(now);
            state.waits.publish(publication, now)
        })
    }

    fn waits_of(&self, hold: HoldId) -> Answer<Look> {
        self.execute(move |state, now| {
            let now = state.time(now);
            state.waits.look(hold, now)
        })
    }

    fn holds_in(&self, key: &str) -> Answer<Vec<HoldId>> {
        let key = key.to_owned();
        self.execute(move |state, now| state.holds(&key, now))
    }

    fn claim_victim(&self, claim: Claim) -> Answer<bool> {
        self.execute(move |state, now| {
            let now = state.time(now);
            state.waits.claim(&claim, now)
        })
    }

    fn withdraw_wait(&self, owner: OwnerId, wait: HoldId) -> Answer<()> {
        self.execute(move |state, _| state.waits.withdraw(owner, wait))
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryStore")
    }
}

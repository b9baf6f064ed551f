//! A store in memory that counts what is asked about waits, takes its time for it, and may fail at it.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

use crate::{
    Locks,
    base::{
        error::{Effect, StoreError},
        id::{HoldId, InboxId, OwnerId},
        key::LockKey,
        mutex::Mutex,
        timer::sleep,
    },
    store::{
        AcquireAllReply, AcquireReply, AcquireRequest, Answer, DepthChange, Downgrading, HoldOf,
        Keeping, Listener, Presence, ReleaseReply, ReleaseRequest, Renewal, Seen, ShareRequest,
        Snapshot, Store,
        memory::MemoryStore,
        waits::{Claim, Look, Publication, Published, Waits},
    },
};

/// How often each was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) published: u32,
    pub(super) holds: u32,
    pub(super) waits: u32,
    pub(super) claimed: u32,
    pub(super) withdrawn: u32,
}

#[derive(Debug)]
pub(super) struct Watched {
    store: Arc<MemoryStore>,
    asked: Mutex<Asked>,
    fails: Mutex<Option<Effect>>,
    /// How long a request takes to arrive, and its answer to come back.
    delay: Mutex<Duration>,
    /// Whether the next claim is executed, and its answer lost.
    loses_claim: AtomicBool,
    epoch: AtomicU64,
}

impl Watched {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            store: Arc::new(MemoryStore::new()),
            asked: Mutex::default(),
            fails: Mutex::default(),
            delay: Mutex::default(),
            loses_claim: AtomicBool::new(false),
            epoch: AtomicU64::new(0),
        })
    }

    /// Locks on it, with a heartbeat of a second.
    pub(super) fn locks(self: &Arc<Self>) -> Locks {
        Locks::builder().over(Arc::<Self>::clone(self), Duration::from_secs(1))
    }

    pub(super) fn asked(&self) -> Asked {
        *self.asked.lock()
    }

    pub(super) fn set_failure(&self, effect: Option<Effect>) {
        *self.fails.lock() = effect;
    }

    pub(super) fn set_delay(&self, delay: Duration) {
        *self.delay.lock() = delay;
    }

    pub(super) fn lose_next_claim(&self) {
        self.loses_claim.store(true, Relaxed);
    }

    /// Another server answers from now on.
    pub(super) fn reconnect(&self) {
        self.epoch.fetch_add(1, Relaxed);
    }

    /// Whether a wait is published that this hold encloses.
    pub(super) async fn has_record(&self, hold: HoldId) -> bool {
        let look = self.store.waits_of(hold).await;
        look.is_ok_and(|look| !look.waits.is_empty())
    }

    /// On its way from the first poll on, whether or not a caller waits for it.
    fn ask<T: Send + 'static>(
        &self,
        count: fn(&mut Asked) -> &mut u32,
        ask: impl FnOnce(&MemoryStore) -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        *count(&mut self.asked.lock()) += 1;
        let (fails, delay) = (*self.fails.lock(), *self.delay.lock());
        if let Some(effect) = fails {
            let error = StoreError::new("wait", &Arc::from("memory"), effect, "as it is to");
            return Box::pin(async { Err(error) });
        }
        let store = Arc::clone(&self.store);
        Box::pin(async move {
            if delay.is_zero() {
                return ask(&store).await;
            }
            let asking = tokio::spawn(async move {
                sleep(delay).await;
                ask(&store).await
            });
            let answer = asking.await.expect("no panic");
            sleep(delay).await;
            answer
        })
    }
}

impl Waits for Watched {
    fn publish_wait(&self, publication: Publication) -> Answer<Published> {
        self.ask(
            |asked| &mut asked.published,
            |store| store.publish_wait(publication),
        )
    }

    fn waits_of(&self, hold: HoldId) -> Answer<Look> {
        self.ask(|asked| &mut asked.waits, move |store| store.waits_of(hold))
    }

    fn holds_in(&self, key: &str) -> Answer<Vec<HoldId>> {
        let key = key.to_owned();
        self.ask(|asked| &mut asked.holds, move |store| store.holds_in(&key))
    }

    fn claim_victim(&self, claim: Claim) -> Answer<bool> {
        let answer = self.ask(
            |asked| &mut asked.claimed,
            move |store| store.claim_victim(claim),
        );
        if !self.loses_claim.swap(false, Relaxed) {
            return answer;
        }
        Box::pin(async {
            drop(answer.await);
            let (endpoint, lost) = (Arc::from("memory"), "the answer is lost");
            Err(StoreError::new("victim", &endpoint, Effect::Unknown, lost))
        })
    }

    fn withdraw_wait(&self, owner: OwnerId, wait: HoldId) -> Answer<()> {
        self.ask(
            |asked| &mut asked.withdrawn,
            move |store| store.withdraw_wait(owner, wait),
        )
    }
}

impl Store for Watched {
    fn acquire(&self, key: &LockKey, request: AcquireRequest) -> Answer<AcquireReply> {
        self.store.acquire(key, request)
    }

    fn depth(&self, key: &LockKey, change: DepthChange) -> Answer<Presence> {
        self.store.depth(key, change)
    }

    fn renew(&self, key: &LockKey, renewal: Renewal) -> Answer<Presence> {
        self.store.renew(key, renewal)
    }

    fn share(&self, key: &LockKey, request: ShareRequest) -> Answer<Vec<AcquireReply>> {
        self.store.share(key, request)
    }

    fn keep(&self, key: &LockKey, keeping: Keeping) -> Answer<Vec<HoldId>> {
        self.store.keep(key, keeping)
    }

    fn downgrade(&self, key: &LockKey, downgrading: Downgrading) -> Answer<Presence> {
        self.store.downgrade(key, downgrading)
    }

    fn release(&self, key: &LockKey, request: ReleaseRequest) -> Answer<ReleaseReply> {
        self.store.release(key, request)
    }

    fn acquire_all(
        &self,
        keys: &[LockKey],
        hold: HoldId,
        ttl: Duration,
    ) -> Answer<AcquireAllReply> {
        self.store.acquire_all(keys, hold, ttl)
    }

    fn renew_all(&self, holds: &[HoldOf], ttl: Duration) -> Answer<Option<usize>> {
        self.store.renew_all(holds, ttl)
    }

    fn release_all(&self, holds: &[HoldOf]) -> Answer<Vec<bool>> {
        self.store.release_all(holds)
    }

    fn inspect(&self, key: &LockKey) -> Answer<Option<Snapshot>> {
        self.store.inspect(key)
    }

    fn force_release(&self, key: &LockKey, seen: Seen) -> Answer<bool> {
        self.store.force_release(key, seen)
    }

    fn waits(&self) -> &dyn Waits {
        self
    }

    fn listen(&self, inbox: InboxId, listener: Weak<dyn Listener>) -> bool {
        self.store.listen(inbox, listener)
    }

    fn check_subscription(&self) {}

    fn suspect(&self, _: Instant) {}

    fn disconnects(&self) -> watch::Receiver<u64> {
        self.store.disconnects()
    }

    fn connection_epoch(&self) -> u64 {
        self.epoch.load(Relaxed)
    }
}

//! A store in memory that counts the renewals.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use super::*;
use crate::{
    base::{
        id::{HoldId, InboxId},
        key::LockKey,
    },
    store::{
        AcquireAllReply, AcquireReply, AcquireRequest, Answer, DepthChange, Downgrading, HoldOf,
        Keeping, Listener, Presence, ReleaseReply, ReleaseRequest, Renewal, Seen, ShareRequest,
        Snapshot, memory::MemoryStore, waits::Waits,
    },
};

/// A store in memory.
#[derive(Debug)]
pub(super) struct Counting {
    pub(super) store: Arc<MemoryStore>,
    pub(super) renewed: AtomicU32,
    pub(super) changed: AtomicU32,
    /// Whether no renewal is answered.
    pub(super) is_silent: AtomicBool,
    /// Whether an acquire loses the connection.
    pub(super) is_cut: AtomicBool,
    /// Whether a renewal of several keys is executed a tenth of a second after it was sent.
    pub(super) is_late: AtomicBool,
    /// Whether a downgrade is refused, a tenth of a second after it was sent.
    pub(super) is_refused: AtomicBool,
    disconnects: watch::Sender<u64>,
}

impl Counting {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            store: Arc::new(MemoryStore::new()),
            renewed: AtomicU32::new(0),
            changed: AtomicU32::new(0),
            is_silent: AtomicBool::new(false),
            is_cut: AtomicBool::new(false),
            is_late: AtomicBool::new(false),
            is_refused: AtomicBool::new(false),
            disconnects: watch::Sender::new(7),
        })
    }

    pub(super) fn locks(self: &Arc<Self>) -> Locks {
        let builder = Locks::builder().ttl(TTL);
        builder.over(Arc::<Self>::clone(self), SECOND)
    }

    pub(super) fn disconnect(&self) {
        self.disconnects.send_modify(|count| *count += 1);
    }

    /// How many renewals there are while so much time passes.
    pub(super) async fn renewed_within(&self, span: Duration) -> u32 {
        let before = self.renewed.load(Relaxed);
        crate::base::timer::sleep(span).await;
        self.renewed.load(Relaxed) - before
    }
}

impl Store for Counting {
    fn acquire(&self, key: &LockKey, request: AcquireRequest) -> Answer<AcquireReply> {
        if self.is_cut.load(Relaxed) {
            self.disconnect();
        }
        self.store.acquire(key, request)
    }

    fn depth(&self, key: &LockKey, change: DepthChange) -> Answer<Presence> {
        self.changed.fetch_add(1, Relaxed);
        self.store.depth(key, change)
    }

    fn renew(&self, key: &LockKey, renewal: Renewal) -> Answer<Presence> {
        self.renewed.fetch_add(1, Relaxed);
        if self.is_silent.load(Relaxed) {
            return Box::pin(std::future::pending());
        }
        self.store.renew(key, renewal)
    }

    fn share(&self, key: &LockKey, request: ShareRequest) -> Answer<Vec<AcquireReply>> {
        self.store.share(key, request)
    }

    fn keep(&self, key: &LockKey, keeping: Keeping) -> Answer<Vec<HoldId>> {
        self.renewed.fetch_add(1, Relaxed);
        if self.is_silent.load(Relaxed) {
            return Box::pin(std::future::pending());
        }
        self.store.keep(key, keeping)
    }

    fn downgrade(&self, key: &LockKey, downgrading: Downgrading) -> Answer<Presence> {
        if self.is_refused.load(Relaxed) {
            return Box::pin(async {
                crate::base::timer::sleep(Duration::from_millis(100)).await;
                let (step, endpoint) = ("downgrade", Arc::from("the store"));
                let refused = crate::base::error::Effect::Refused;
                Err(crate::StoreError::new(step, &endpoint, refused, "NOPERM"))
            });
        }
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
        self.renewed.fetch_add(1, Relaxed);
        if self.is_late.load(Relaxed) {
            let (store, holds) = (Arc::clone(&self.store), holds.to_vec());
            return Box::pin(async move {
                crate::base::timer::sleep(Duration::from_millis(100)).await;
                store.renew_all(&holds, ttl).await
            });
        }
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
        self.store.waits()
    }

    fn listen(&self, inbox: InboxId, listener: Weak<dyn Listener>) -> bool {
        self.store.listen(inbox, listener)
    }

    fn check_subscription(&self) {}

    fn suspect(&self, _: Instant) {}

    fn disconnects(&self) -> watch::Receiver<u64> {
        self.disconnects.subscribe()
    }

    fn connection_epoch(&self) -> u64 {
        self.store.connection_epoch()
    }
}

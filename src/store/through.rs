//! Stores for tests: the one in memory, with something that happens to the requests on their way to it.

use std::{fmt, sync::Weak, time::Duration};

use tokio::{sync::watch, time::Instant};

use super::{
    AcquireAllReply, AcquireReply, AcquireRequest, Answer, DepthChange, Downgrading, HoldOf,
    Holders, Keeping, Listener, Presence, ReleaseReply, ReleaseRequest, Renewal, Seen,
    ShareRequest, Snapshot, Store,
    memory::MemoryStore,
    survey::{Glance, QueuePage, Queued, Scan, Scanned, Survey},
    waits::{Claim, Look, Publication, Published, Waits},
};
use crate::base::{
    id::{HoldId, InboxId, OwnerId},
    key::LockKey,
};

/// A store that passes its requests on to the one in memory.
///
/// It says what becomes of a request, whatever it asks for, and what is different about its connection. The rest is as
/// in memory.
pub(crate) trait Through: fmt::Debug + Send + Sync {
    /// Where the locks live.
    fn inner(&self) -> &MemoryStore;

    /// What becomes of a request. It is executed when it is polled first, and is answered at once: so it may be passed on
    /// as it is, late or never, and its answer may be lost.
    fn pass<T: Send + 'static>(&self, verb: Verb, request: Answer<T>) -> Answer<T>;

    fn connect(&self) -> Answer<()> {
        self.inner().connect()
    }

    fn listen(&self, inbox: InboxId, listener: Weak<dyn Listener>) -> bool {
        self.inner().listen(inbox, listener)
    }

    fn watch(&self, holders: Weak<dyn Holders>) {
        self.inner().watch(holders);
    }

    fn suspect(&self, _since: Instant) {}

    fn answers_within(&self) -> Duration {
        Duration::MAX
    }

    fn close(&self) {}

    fn disconnects(&self) -> watch::Receiver<u64> {
        self.inner().disconnects()
    }

    fn connections(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    fn connection_epoch(&self) -> u64 {
        self.inner().connection_epochs()
    }
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Acquire,
    Share,
    Depth,
    Renew,
    Keep,
    Downgrade,
    Release,
    AcquireAll,
    RenewAll,
    ReleaseAll,
    Inspect,
    ForceRelease,
    Scan,
    Glance,
    Queue,
    PublishWait,
    WaitsOf,
    HoldsIn,
    ClaimVictim,
    WithdrawWait,
}

impl Verb {
    /// The script that asks Redis for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Share => "share",
            Self::Depth => "depth",
            Self::Renew => "renew",
            Self::Keep => "keep",
            Self::Downgrade => "downgrade",
            Self::Release => "release",
            Self::AcquireAll => "acquire_all",
            Self::RenewAll => "renew_all",
            Self::ReleaseAll => "release_all",
            Self::Inspect => "inspect",
            Self::ForceRelease => "force_release",
            Self::Scan => "scan",
            Self::Glance => "glance",
            Self::Queue => "queue",
            Self::PublishWait => "wait",
            Self::WaitsOf => "look",
            Self::HoldsIn => "holds",
            Self::ClaimVictim => "victim",
            Self::WithdrawWait => "withdraw",
        }
    }
}

impl<S: Through> Store for S {
    fn connect(&self) -> Answer<()> {
        Through::connect(self)
    }

    fn acquire(&self, key: &LockKey, request: AcquireRequest) -> Answer<AcquireReply> {
        self.pass(Verb::Acquire, self.inner().acquire(key, request))
    }

    fn share(&self, key: &LockKey, request: ShareRequest) -> Answer<Vec<AcquireReply>> {
        self.pass(Verb::Share, self.inner().share(key, request))
    }

    fn depth(&self, key: &LockKey, change: DepthChange) -> Answer<Presence> {
        self.pass(Verb::Depth, self.inner().depth(key, change))
    }

    fn renew(&self, key: &LockKey, renewal: Renewal) -> Answer<Presence> {
        self.pass(Verb::Renew, self.inner().renew(key, renewal))
    }

    fn keep(&self, key: &LockKey, keeping: Keeping) -> Answer<Vec<HoldId>> {
        self.pass(Verb::Keep, self.inner().keep(key, keeping))
    }

    fn downgrade(&self, key: &LockKey, downgrading: Downgrading) -> Answer<Presence> {
        self.pass(Verb::Downgrade, self.inner().downgrade(key, downgrading))
    }

    fn release(&self, key: &LockKey, request: ReleaseRequest) -> Answer<ReleaseReply> {
        self.pass(Verb::Release, self.inner().release(key, request))
    }

    fn acquire_all(
        &self,
        keys: &[LockKey],
        hold: HoldId,
        ttl: Duration,
    ) -> Answer<AcquireAllReply> {
        self.pass(Verb::AcquireAll, self.inner().acquire_all(keys, hold, ttl))
    }

    fn renew_all(&self, holds: &[HoldOf], ttl: Duration) -> Answer<Option<usize>> {
        self.pass(Verb::RenewAll, self.inner().renew_all(holds, ttl))
    }

    fn release_all(&self, holds: &[HoldOf]) -> Answer<Vec<bool>> {
        self.pass(Verb::ReleaseAll, self.inner().release_all(holds))
    }

    fn inspect(&self, key: &LockKey) -> Answer<Option<Snapshot>> {
        self.pass(Verb::Inspect, self.inner().inspect(key))
    }

    fn holders(&self, key: &LockKey) -> Answer<Option<Snapshot>> {
        self.pass(Verb::Inspect, self.inner().holders(key))
    }

    fn force_release(&self, key: &LockKey, seen: Seen) -> Answer<Vec<Vec<u8>>> {
        self.pass(Verb::ForceRelease, self.inner().force_release(key, seen))
    }

    fn waits(&self) -> &dyn Waits {
        self
    }

    fn survey(&self) -> &dyn Survey {
        self
    }

    fn listen(&self, inbox: InboxId, listener: Weak<dyn Listener>) -> bool {
        Through::listen(self, inbox, listener)
    }

    fn watch(&self, holders: Weak<dyn Holders>) {
        Through::watch(self, holders);
    }

    fn check_subscription(&self) {}

    fn suspect(&self, _key: &LockKey, since: Instant) {
        Through::suspect(self, since);
    }

    fn answers_within(&self, _key: &LockKey) -> Duration {
        Through::answers_within(self)
    }

    fn close(&self) {
        Through::close(self);
    }

    fn disconnects(&self) -> watch::Receiver<u64> {
        Through::disconnects(self)
    }

    fn connections(&self) -> Option<watch::Receiver<u64>> {
        Through::connections(self)
    }

    fn disconnects_of(&self, _key: &LockKey) -> u64 {
        *Through::disconnects(self).borrow()
    }

    fn connection_epochs(&self) -> u64 {
        Through::connection_epoch(self)
    }
}

impl<S: Through> Survey for S {
    fn scan(&self, scan: Scan) -> Answer<Scanned> {
        self.pass(Verb::Scan, self.inner().scan(scan))
    }

    fn glance(&self, key: &LockKey) -> Answer<Option<Glance>> {
        self.pass(Verb::Glance, self.inner().glance(key))
    }

    fn queue(&self, key: &LockKey, page: QueuePage) -> Answer<Queued> {
        self.pass(Verb::Queue, self.inner().queue(key, page))
    }
}

impl<S: Through> Waits for S {
    fn publish_wait(&self, publication: Publication) -> Answer<Published> {
        self.pass(Verb::PublishWait, self.inner().publish_wait(publication))
    }

    fn waits_of(&self, hold: HoldId) -> Answer<Look> {
        self.pass(Verb::WaitsOf, self.inner().waits_of(hold))
    }

    fn holds_in(&self, key: &str) -> Answer<Vec<HoldId>> {
        self.pass(Verb::HoldsIn, self.inner().holds_in(key))
    }

    fn claim_victim(&self, claim: Claim) -> Answer<bool> {
        self.pass(Verb::ClaimVictim, self.inner().claim_victim(claim))
    }

    fn withdraw_wait(&self, owner: OwnerId, wait: HoldId) -> Answer<()> {
        self.pass(Verb::WithdrawWait, self.inner().withdraw_wait(owner, wait))
    }
}

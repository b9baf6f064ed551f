//! A store, and the means to let its time pass.

use std::time::Duration;

use futures_util::future::join_all;

use super::inbox::{self, Inbox};
use super::server::Server;
use crate::base::id::{FencingToken, HoldId, InboxId, Owner};
use crate::base::key::LockKey;
use crate::base::options::Mode;
use crate::store::verbs::inspect::HolderField;
use crate::store::{
    Acquire, AcquireReply, AcquireRequest, DepthChange, ForceRelease, HandoffMessage, Inspect,
    KeyedHold, MemoryStore, Presence, QueueEntry, ReleaseKind, ReleaseRequest, Renew, RenewReply,
    Residue, SeenHolders, SetDepth, Snapshot, Store, Verb,
};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// The lease of a lock that moves to a process that [waits](entry_of), and the time for which its place is kept.
pub(crate) const GRANT: Duration = MINUTE.saturating_mul(2);
pub(crate) const PLACE_LIFE: Duration = MINUTE.saturating_mul(20);

/// Returns whether two durations differ by no more than the time that a case may take.
pub(crate) fn near(one: Duration, other: Duration) -> bool {
    one.abs_diff(other) < MINUTE / 2
}

pub(crate) fn some_hold() -> HoldId {
    Owner::new().next_hold()
}

/// The field of a hold in the lock.
pub(crate) fn field_of(hold: HoldId) -> Vec<u8> {
    hold.to_string().into_bytes()
}

/// An exclusive holder, as an inspection returns it.
pub(crate) fn holder(hold: HoldId, depth: u64) -> HolderField {
    HolderField {
        field: field_of(hold),
        depth,
        remaining: None,
    }
}

/// The way in which the process of an inbox waits.
pub(crate) const fn entry_of(inbox: InboxId) -> QueueEntry {
    QueueEntry {
        inbox,
        grant: GRANT,
        life: PLACE_LIFE,
    }
}

/// A hold of a separate process, and the way in which that process waits.
pub(crate) fn some_waiter() -> (HoldId, QueueEntry) {
    (some_hold(), entry_of(InboxId::new()))
}

/// A request that does not wait.
pub(crate) fn acquire_request(hold: HoldId, ttl: Duration) -> AcquireRequest {
    AcquireRequest {
        hold,
        ttl,
        entry: None,
        with_others: false,
    }
}

/// The end of a hold that can have left at most a place.
pub(crate) const FULL: ReleaseKind = ReleaseKind::Full(Residue {
    unanswered: false,
    nested: false,
});

/// The remains of a hold with an acquire that may still arrive.
pub(crate) const UNANSWERED: Residue = Residue {
    unanswered: true,
    nested: false,
};

/// The remains of a hold whose depth has changed.
pub(crate) const NESTED: Residue = Residue {
    unanswered: false,
    nested: true,
};

/// A release by a process that has no place in any line.
pub(crate) fn release_request(hold: HoldId, end: ReleaseKind) -> ReleaseRequest {
    ReleaseRequest {
        hold,
        mode: Mode::Exclusive,
        inbox: InboxId::new(),
        end,
        with_others: false,
    }
}

/// Ends holds with short releases that are made immediately. Returns for each whether it was in its lock. Returns false
/// if its release has failed.
pub(crate) async fn release_all(store: &Store, holds: &[KeyedHold]) -> Vec<bool> {
    release_each(store, holds, true).await
}

/// Ends holds with short releases, which may wait for each other.
pub(crate) async fn release_each(
    store: &Store,
    holds: &[KeyedHold],
    with_others: bool,
) -> Vec<bool> {
    let released = holds.iter().map(async |(key, hold)| {
        let request = ReleaseRequest {
            with_others,
            ..release_request(*hold, ReleaseKind::Short)
        };
        let released = store.release(key, request).await;
        released.is_ok_and(|released| released == Presence::Present)
    });
    join_all(released).await
}

/// One store with one lock that a case is about.
pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) key: LockKey,
    /// `None` if the store uses the tokio clock.
    server: Option<Server>,
}

impl World {
    pub(crate) fn in_memory() -> Self {
        Self::new(Store::Memory(MemoryStore::new()), None)
    }

    pub(crate) async fn on_redis() -> Self {
        Self::on(Server::start().await).await
    }

    /// A store on a server that may have had others.
    pub(crate) async fn on(server: Server) -> Self {
        Self::new(server.store().await, Some(server))
    }

    fn new(store: Store, server: Option<Server>) -> Self {
        let key = LockKey::new("app:", "order").expect("a valid key");
        Self { store, key, server }
    }

    /// The server below a store that was made [`on_redis`](Self::on_redis).
    pub(crate) fn server(&self) -> &Server {
        self.server.as_ref().expect("a store on a server")
    }

    /// The server below the store, if there is one.
    pub(crate) fn any_server(&self) -> Option<&Server> {
        self.server.as_ref()
    }

    /// Lets the store's time pass, so that leases and lives expire.
    pub(crate) async fn pass(&self, span: Duration) {
        match &self.server {
            Some(server) => server.pass(span).await,
            None => tokio::time::advance(span).await,
        }
    }

    pub(crate) async fn acquire(&self, hold: HoldId, ttl: Duration) -> AcquireReply {
        self.ask(acquire_request(hold, ttl)).await
    }

    /// Requests the lock, and waits in the queue if it is not free.
    pub(crate) async fn queue(
        &self,
        hold: HoldId,
        ttl: Duration,
        entry: QueueEntry,
    ) -> AcquireReply {
        let entry = Some(entry);
        let request = AcquireRequest {
            entry,
            ..acquire_request(hold, ttl)
        };
        self.ask(request).await
    }

    /// Requests a lock that another hold has, so that the hold waits from now on.
    pub(crate) async fn wait(&self, hold: HoldId, ttl: Duration, entry: QueueEntry) {
        let answer = self.queue(hold, ttl, entry).await;
        assert!(matches!(answer, AcquireReply::Busy { .. }), "{answer:?}");
    }

    /// The open inbox of another process.
    pub(crate) async fn inbox(&self) -> Inbox {
        let id = InboxId::new();
        match &self.server {
            Some(server) => Inbox::on_redis(server, id).await,
            None => Inbox::in_memory(&self.store, id),
        }
    }

    /// The messages that an inbox has received since the last call.
    pub(crate) async fn received(&self, inbox: &mut Inbox) -> Vec<HandoffMessage> {
        match &self.server {
            Some(server) => {
                inbox::fence(server, [inbox.id]).await;
                inbox.received_there().await
            }
            None => inbox.received_here(),
        }
    }

    /// Sends a request to a store that must respond.
    pub(crate) async fn send<V: Verb>(&self, verb: V) -> V::Reply {
        self.store.ask(verb).await.expect("an answer")
    }

    pub(crate) async fn ask(&self, request: AcquireRequest) -> AcquireReply {
        let key = self.key.clone();
        self.send(Acquire { key, request }).await
    }

    /// Acquires a lock that the hold must get, with a lease of about `ttl`.
    pub(crate) async fn take(&self, hold: HoldId, ttl: Duration) -> FencingToken {
        match self.acquire(hold, ttl).await {
            AcquireReply::Held { token, lease, .. } if near(lease, ttl) => token,
            other => panic!("wanted the lock for {ttl:?}, got {other:?}"),
        }
    }

    /// A change of the depth with the TTL of one minute, which does not change the lease.
    pub(crate) async fn depth(&self, hold: HoldId, target: u32, seq: u64) -> Presence {
        let change = DepthChange {
            hold,
            mode: Mode::Exclusive,
            target,
            seq,
            ttl: MINUTE,
            lengthen: false,
        };
        self.change(change).await
    }

    pub(crate) async fn change(&self, change: DepthChange) -> Presence {
        let key = self.key.clone();
        self.send(SetDepth { key, change }).await
    }

    pub(crate) async fn renew(&self, hold: HoldId, ttl: Duration) -> Presence {
        let holds = vec![(self.key.clone(), hold)];
        let renewed = self.send(Renew { holds, ttl }).await;
        Presence::from(renewed == [RenewReply::Renewed])
    }

    /// A release after which no acquire of the hold can still be in flight.
    pub(crate) async fn release(&self, hold: HoldId) -> Presence {
        self.end(release_request(hold, FULL)).await
    }

    /// A release after which an acquire of the hold may still arrive.
    pub(crate) async fn bury(&self, hold: HoldId) -> Presence {
        let request = release_request(hold, ReleaseKind::Full(UNANSWERED));
        self.end(request).await
    }

    /// A release by the process of an inbox that has no other waiter.
    pub(crate) async fn leave(&self, hold: HoldId, inbox: InboxId) -> Presence {
        let request = ReleaseRequest {
            inbox,
            ..release_request(hold, FULL)
        };
        self.end(request).await
    }

    pub(crate) async fn end(&self, request: ReleaseRequest) -> Presence {
        let release = self.store.release(&self.key, request);
        release.await.expect("release")
    }

    pub(crate) async fn inspect(&self) -> Option<Snapshot> {
        self.send(Inspect::of(&self.key)).await
    }

    /// The result of the inspection of a lock that must be held.
    pub(crate) async fn seen(&self) -> SeenHolders {
        let snapshot = self.inspect().await.expect("a held lock");
        snapshot.seen()
    }

    pub(crate) async fn force_release(&self, seen: SeenHolders) -> bool {
        let key = self.key.clone();
        !self.send(ForceRelease { key, seen }).await.is_empty()
    }

    /// Holder and depth as an inspection returns them; `None` if the lock is free.
    pub(crate) async fn holders(&self) -> Vec<(String, u64)> {
        let snapshot = self.inspect().await;
        let holders = snapshot.map(|seen| seen.holders).unwrap_or_default();
        let text = |field| String::from_utf8(field).expect("a field that is a text");
        holders
            .into_iter()
            .map(|holder| (text(holder.field), holder.depth))
            .collect()
    }

    /// Returns whether only this hold is in the lock, for about this long.
    pub(crate) async fn is_held(&self, hold: HoldId, lease: Duration) -> bool {
        let snapshot = self.inspect().await;
        snapshot.is_some_and(|snapshot| {
            let remaining = snapshot.remaining;
            snapshot.holders == [holder(hold, 1)] && remaining.is_some_and(|left| near(left, lease))
        })
    }

    /// The number of processes that wait for a lock that must be held.
    pub(crate) async fn waiting(&self) -> u64 {
        self.inspect().await.expect("a held lock").waiting
    }

    /// The remaining lease of a lock that must be held.
    pub(crate) async fn remaining(&self) -> Duration {
        let snapshot = self.inspect().await.expect("a held lock");
        snapshot.remaining.expect("a lease")
    }
}

//! The meaning of the numbers in the requests, and how a request is sent.

use futures_util::future::try_join_all;

use super::reply::Reply;
use super::step::{Entry, HOLDS, INBOXES, KEYS, Request, Wish};
use super::waits;
use crate::base::error::StoreError;
use crate::base::id::{HoldId, InboxId};
use crate::base::key::LockKey;
use crate::store::contract::world::{release_each, some_hold};
use crate::store::{
    Acquire, AcquireRequest, AcquireShared, AcquireSharedRequest, DepthChange, KeyedHold,
    QueueEntry, ReleaseKind, ReleaseRequest, Renew, RenewReaders, SetDepth, Store, StoreTime,
};

/// These are new in each case, except for the inboxes, which stay open.
pub(super) struct Names {
    keys: Vec<LockKey>,
    holds: Vec<HoldId>,
    inboxes: [InboxId; INBOXES],
    /// Whether holds that end together end in a batch.
    pub(super) with_batches: bool,
}

impl Names {
    pub(super) fn new(inboxes: [InboxId; INBOXES], with_batches: bool) -> Self {
        let key = |n: usize| LockKey::new("", &format!("lock:{n}")).expect("a valid key");
        Self {
            keys: (0..KEYS).map(key).collect(),
            holds: (0..HOLDS).map(|_| some_hold()).collect(),
            inboxes,
            with_batches,
        }
    }

    pub(super) fn key(&self, key: usize) -> &LockKey {
        &self.keys[key]
    }

    pub(super) fn hold(&self, hold: usize) -> HoldId {
        self.holds[hold]
    }

    /// The number of a key of the store.
    pub(super) fn number(&self, key: &str) -> Option<usize> {
        self.keys.iter().position(|known| known.as_str() == key)
    }

    pub(super) async fn send(
        &self,
        store: &Store,
        (number, known): (usize, StoreTime),
        request: Request,
    ) -> Result<Reply, StoreError> {
        let keys = self.keys_from(number);
        let key = self.key(number).clone();
        match request {
            Request::Wait(request) => {
                let reply = waits::ask(store, &key, known, &self.holds, request).await?;
                Ok(Reply::Wait(reply))
            }
            Request::Acquire { wish, waits } => {
                let request = self.acquire(wish, waits);
                store
                    .ask(Acquire { key, request })
                    .await
                    .map(Reply::Acquired)
            }
            Request::Share {
                holds,
                wish,
                limit,
                waits,
            } => {
                let request = AcquireSharedRequest {
                    holds: self.from(wish.hold, holds),
                    ttl: wish.ttl,
                    limit,
                    entry: waits.map(|entry| self.entry(entry)),
                };
                store
                    .ask(AcquireShared { key, request })
                    .await
                    .map(Reply::Shared)
            }
            Request::Keep { holds, wish } => {
                let (holds, ttl) = (self.from(wish.hold, holds), wish.ttl);
                let gone = store.ask(RenewReaders { key, holds, ttl }).await;
                let number = |gone: HoldId| self.holds.iter().position(|hold| *hold == gone);
                gone.map(|gone| Reply::Gone(gone.into_iter().filter_map(number).collect()))
            }
            Request::Depth {
                hold,
                mode,
                target,
                seq,
                ttl,
                lengthen,
            } => {
                let change = DepthChange {
                    hold: self.holds[hold],
                    mode,
                    target,
                    seq,
                    ttl,
                    lengthen,
                };
                store
                    .ask(SetDepth { key, change })
                    .await
                    .map(Reply::Presence)
            }
            Request::Release {
                hold,
                mode,
                inbox,
                leftovers,
            } => {
                let end = leftovers.map_or(ReleaseKind::Short, ReleaseKind::Full);
                let request = ReleaseRequest {
                    hold: self.holds[hold],
                    mode,
                    inbox: self.inboxes[inbox],
                    end,
                    with_others: false,
                };
                store.release(&key, request).await.map(Reply::Presence)
            }
            Request::AcquireAll { wish } => {
                let request = AcquireRequest {
                    with_others: self.with_batches,
                    ..self.acquire(wish, None)
                };
                let acquired = keys
                    .into_iter()
                    .map(|key| store.ask(Acquire { key, request }));
                try_join_all(acquired).await.map(Reply::AcquiredAll)
            }
            Request::Renew { holds, count, ttl } => {
                let mut holds = self.each(keys, holds);
                holds.truncate(count);
                store.ask(Renew { holds, ttl }).await.map(Reply::Renewed)
            }
            Request::ReleaseAll { holds } => {
                let released =
                    release_each(store, &self.each(keys, holds), self.with_batches).await;
                Ok(Reply::ReleasedAll(released))
            }
        }
    }

    /// All keys, from this one on.
    fn keys_from(&self, key: usize) -> Vec<LockKey> {
        let mut keys = self.keys.clone();
        keys.rotate_left(key);
        keys
    }

    fn each(&self, keys: Vec<LockKey>, holds: [usize; KEYS]) -> Vec<KeyedHold> {
        let holds = holds.into_iter().map(|hold| self.holds[hold]);
        keys.into_iter().zip(holds).collect()
    }

    fn acquire(&self, wish: Wish, waits: Option<Entry>) -> AcquireRequest {
        let Wish { hold, ttl, .. } = wish;
        AcquireRequest {
            hold: self.holds[hold],
            ttl,
            entry: waits.map(|entry| self.entry(entry)),
            with_others: false,
        }
    }

    fn entry(&self, entry: Entry) -> QueueEntry {
        QueueEntry {
            inbox: self.inboxes[entry.inbox],
            grant: entry.grant,
            life: entry.life,
            hears_contended: entry.inbox == 0,
        }
    }

    /// This number of holds, from this one on.
    fn from(&self, first: usize, count: usize) -> Vec<HoldId> {
        let holds = self.holds[first..].iter().take(count);
        holds.copied().collect()
    }
}

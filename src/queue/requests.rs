//! The requests about a lock. An acquire is sent once. A release is repeated until it is answered.

use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use smallvec::{SmallVec, smallvec};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::machine::{AcquireSpec, HoldIds, RequestReply};
use crate::base::events::{self, WarnLimiter};
use crate::base::id::InboxId;
use crate::base::key::LockKey;
use crate::base::options::Mode;
use crate::base::sync::Mutex;
use crate::store::{Acquire, AcquireReply, AcquireShared, Store, StoreFuture};

/// The maximum number of releases that are repeated at a time, because repetitions must not keep a slow server slow.
const MAX_REPEATED_RELEASES: usize = 8;

/// The store, as the local queues use it.
pub(super) struct Requests {
    pub(super) store: Arc<Store>,
    /// Made when it is first needed: forks that use a copy of an unused `Locks` have different ones.
    inbox: OnceLock<InboxId>,
    /// Limits the warnings of failed acquires.
    warnings: WarnLimiter,
    pub(super) failed_releases: FailedReleases,
}

/// An acquire in flight.
pub(super) struct PendingRequest {
    sent: Instant,
    /// The generation when the request was made.
    generation: u64,
    replies: Replies,
}

enum Replies {
    One(StoreFuture<AcquireReply>),
    /// One for each reader.
    Readers(StoreFuture<Vec<AcquireReply>>),
}

impl Requests {
    pub(super) fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            inbox: OnceLock::new(),
            warnings: WarnLimiter::default(),
            failed_releases: FailedReleases {
                permits: Semaphore::new(MAX_REPEATED_RELEASES),
                warnings: WarnLimiter::default(),
                abandoned: Mutex::default(),
            },
        }
    }

    pub(super) fn inbox(&self) -> InboxId {
        *self.inbox.get_or_init(InboxId::new)
    }

    /// Returns whether a lock was wanted before.
    pub(super) fn has_inbox(&self) -> bool {
        self.inbox.get().is_some()
    }

    /// Makes a request for the lock, which is sent once, when its reply is first polled.
    pub(super) fn acquire(
        &self,
        key: &LockKey,
        spec: AcquireSpec,
        holds: HoldIds,
    ) -> PendingRequest {
        let key = key.clone();
        PendingRequest {
            // Both are read before the request is sent: the lease counts from then (P5), and a connection that is
            // lost in between must be noticed.
            sent: Instant::now(),
            generation: self.store.generation_of(&key),
            replies: match spec.mode {
                Mode::Exclusive => {
                    let request = spec.request;
                    Replies::One(self.store.ask(Acquire { key, request }))
                }
                Mode::Shared => {
                    let request = spec.share(holds);
                    Replies::Readers(self.store.ask(AcquireShared { key, request }))
                }
            },
        }
    }

    pub(super) fn poll_reply(
        &self,
        key: &LockKey,
        request: &mut PendingRequest,
        cx: &mut Context<'_>,
    ) -> Poll<RequestReply> {
        let replies = match &mut request.replies {
            Replies::One(reply) => ready!(reply.as_mut().poll(cx)).map(|reply| smallvec![reply]),
            Replies::Readers(replies) => ready!(replies.as_mut().poll(cx)).map(SmallVec::from_vec),
        };
        if let Err(error) = &replies
            // A request that is rejected permanently is an error of the caller, which reports it.
            && !error.is_denied()
        {
            events::acquire_retried(key, error, &self.warnings);
        }
        Poll::Ready(RequestReply {
            sent: request.sent,
            sent_generation: request.generation,
            generation: self.store.generation_of(key),
            replies,
        })
    }

    pub(super) async fn await_reply(
        &self,
        key: &LockKey,
        request: &mut PendingRequest,
    ) -> RequestReply {
        poll_fn(|cx| self.poll_reply(key, request, cx)).await
    }
}

/// The releases that have failed.
pub(super) struct FailedReleases {
    /// The permits of those that are repeated.
    pub(super) permits: Semaphore,
    pub(super) warnings: WarnLimiter,
    /// The locks whose release was given up, or is repeated although its caller was told that it was rejected. They are
    /// held until their leases expire. Each is kept by the name of its key, with the instant at which its lease has
    /// certainly expired.
    abandoned: Mutex<Vec<(String, Instant)>>,
}

impl FailedReleases {
    /// Notes a lock whose release was given up, and whose lease lasts until this instant.
    pub(super) fn abandon(&self, key: &LockKey, until: Instant) {
        let now = Instant::now();
        let mut locks = self.abandoned.lock();
        locks.retain(|(_, until)| now < *until);
        if now < until {
            locks.push((key.name().to_owned(), until));
        }
    }

    /// Forgets a lock that was noted with this instant.
    pub(super) fn remove(&self, key: &LockKey, until: Instant) {
        let mut locks = self.abandoned.lock();
        // Another release of this key may have been abandoned since, with a later end of the lease.
        locks.retain(|(name, held_until)| name != key.name() || *held_until != until);
    }

    /// The names of the keys whose locks may still be held, each once and in order.
    pub(super) fn abandoned(&self) -> Vec<String> {
        let now = Instant::now();
        let locks = self.abandoned.lock();
        let held = locks.iter().filter(|(_, until)| now < *until);
        let mut names: Vec<_> = held.map(|(name, _)| name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

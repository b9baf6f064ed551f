//! The requests about a lock. An acquire is sent once. A release is repeated until it is answered.

use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::FutureExt;
use smallvec::{SmallVec, smallvec};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::machine::{AcquireSpec, HoldEnd, HoldIds, RequestReply};
use crate::base::background::{self, WriteSignal};
use crate::base::error::{Failure, FailureClass, StoreError};
use crate::base::events::{self, WarnLimiter};
use crate::base::id::InboxId;
use crate::base::key::LockKey;
use crate::base::options::Mode;
use crate::base::sync::Mutex;
use crate::base::timer::{Backoff, after, sleep};
use crate::store::{
    Acquire, AcquireShared, PendingReply, Presence, Release, ReleaseKind, ReleaseRequest, Store,
};

/// The maximum number of releases that are repeated at a time, because repetitions must not keep a slow server slow.
const MAX_REPEATED_RELEASES: usize = 8;

/// The longest pause, without the jitter, after a repetition that no server has executed. Such a repetition keeps no
/// server busy. The waiters of other processes get the lock as soon as a server is available again.
const MAX_PAUSE_WITHOUT_SERVER: Duration = Duration::from_millis(50);

/// The store, as the local queues use it.
pub(super) struct Requests {
    pub(super) store: Arc<Store>,
    /// Made when it is first needed: forks that use a copy of an unused `Locks` have different ones.
    inbox: OnceLock<InboxId>,
    /// Limits the warnings of failed acquires.
    failed_acquires: WarnLimiter,
    /// Limits the warnings of failed releases.
    failed_releases: WarnLimiter,
    /// The permits of the releases that are repeated.
    repetitions: Semaphore,
    /// The locks whose release was given up, or is repeated although its caller has got the error. They are
    /// held until their leases expire. Each is kept by the name of its key, with the instant at which its lease has
    /// certainly expired.
    abandoned: Mutex<Vec<(String, Instant)>>,
}

/// An acquire in flight.
pub(super) struct PendingRequest {
    sent: Instant,
    /// The generation when the request was made.
    generation: u64,
    replies: Replies,
}

enum Replies {
    One(PendingReply<Acquire>),
    /// One for each reader.
    Readers(PendingReply<AcquireShared>),
}

impl Requests {
    pub(super) fn new(store: Arc<Store>) -> Arc<Self> {
        Arc::new(Self {
            store,
            inbox: OnceLock::new(),
            failed_acquires: WarnLimiter::default(),
            failed_releases: WarnLimiter::default(),
            repetitions: Semaphore::new(MAX_REPEATED_RELEASES),
            abandoned: Mutex::default(),
        })
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
            Replies::One(reply) => ready!(reply.poll_unpin(cx)).map(|reply| smallvec![reply]),
            Replies::Readers(replies) => ready!(replies.poll_unpin(cx)).map(SmallVec::from_vec),
        };
        if let Err(error) = &replies
            // A request that is rejected permanently is an error of the caller, which reports it.
            && !error.is_denied()
        {
            events::acquire_retried(key, error, &self.failed_acquires);
        }
        Poll::Ready(RequestReply {
            sent: request.sent,
            sent_generation: request.generation,
            generation: self.store.generation_of(key),
            replies,
        })
    }

    /// Sends a release once, at the first poll.
    pub(super) async fn release(
        &self,
        key: &LockKey,
        release: &HoldEnd,
        end: ReleaseKind,
        written: Option<WriteSignal>,
    ) -> Result<Presence, StoreError> {
        let request = ReleaseRequest {
            hold: release.hold,
            mode: release.mode,
            inbox: self.inbox(),
            end,
            with_others: release.with_others,
        };
        let asked = self.store.ask(Release {
            key: key.clone(),
            request,
            written,
        });
        let released = asked.await;
        if let Ok(Presence::Present) = released {
            events::released(key, release.hold, release.since);
        }
        released
    }

    /// Continues after a first attempt, sent at this instant, that has failed. Fails if the release is abandoned. A
    /// caller does not wait for a permission that may be given back: the release is repeated without it.
    pub(super) async fn retry_release(
        self: &Arc<Self>,
        key: &LockKey,
        release: HoldEnd,
        sent: Instant,
        error: StoreError,
    ) -> Result<(), Failure> {
        if error.failure_class() != FailureClass::PermissionMissing {
            return self.repeat_release(key, release, sent, error).await;
        }
        let held_until = release.held_until(sent);
        self.abandon(key, held_until);
        // Without a runtime the lock stays abandoned, until its lease ends.
        if let Ok(runtime) = Handle::try_current() {
            let (requests, key, error) = (Arc::clone(self), key.clone(), error.clone());
            background::spawn(&runtime, async move {
                let repeated = requests.repeat_release(&key, release, sent, error);
                if repeated.await.is_ok() {
                    // Another release of this key may have been abandoned since, with a later end of the lease.
                    let is_other =
                        |(name, until): &(_, _)| name != key.name() || *until != held_until;
                    requests.abandoned.lock().retain(is_other);
                }
            });
        }
        Err(Failure::Store(error))
    }

    /// Repeats a release after each failure, until it is answered or a repetition is useless.
    async fn repeat_release(
        &self,
        key: &LockKey,
        release: HoldEnd,
        sent: Instant,
        mut error: StoreError,
    ) -> Result<(), Failure> {
        let give_up_at = after(sent, release.repeat_period());
        // A server that executes requests needs longer pauses than one that executes nothing.
        let mut backoff = Backoff::default();
        let mut backoff_without_server = Backoff::slow(MAX_PAUSE_WITHOUT_SERVER);
        let mut permit = None;
        loop {
            let class = error.failure_class();
            let pause = match class {
                FailureClass::NotExecuted => backoff_without_server.next_pause(),
                _ => backoff.next_pause(),
            };

            // A repetition would be useless, or too late.
            if class == FailureClass::Permanent || Instant::now() + pause >= give_up_at {
                events::release_abandoned(key, release.hold, &error);
                self.abandon(key, release.held_until(sent));
                return Err(Failure::Store(error));
            }
            events::release_retried(key, release.hold, &error, &self.failed_releases);

            sleep(pause).await;
            // The permit is returned only after the pause, so that all pauses together limit the rate. After an answer
            // the next repetition follows immediately.
            drop(permit.take());
            permit = self.repetitions.acquire().await.ok();
            // The outcome of the first attempt is unknown, so this is no short end. One that finds the hold gone may
            // have met its own success, so it is no loss.
            let end = ReleaseKind::Full(release.residue);
            match self.release(key, &release, end, None).await {
                Ok(_) => return Ok(()),
                Err(failure) => error = failure,
            }
        }
    }

    /// Notes a lock whose release was given up, and whose lease lasts until this instant.
    fn abandon(&self, key: &LockKey, until: Instant) {
        let now = Instant::now();
        let mut locks = self.abandoned.lock();
        locks.retain(|(_, until)| now < *until);
        if now < until {
            locks.push((key.name().to_owned(), until));
        }
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

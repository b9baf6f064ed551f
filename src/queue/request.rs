//! The requests about a lock. An acquire is sent once, a release until it is answered.

use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::grant::Release;
use super::step::{Answer, Ask, Reply};
use crate::base::backoff::Backoff;
use crate::base::error::{Effect, Failure, LostReason, StoreError};
use crate::base::events::WarnLimiter;
use crate::base::id::InboxId;
use crate::base::key::LockKey;
use crate::base::sync::Mutex;
use crate::base::timer::{after, sleep};
use crate::base::write_signal::WriteSignal;
use crate::base::{background, events};
use crate::store::{
    self, Acquire, AcquireReply, End, Leftovers, Presence, ReleaseRequest, Share, Store,
};

/// The maximum number of releases that are repeated at a time, because repetitions must not keep a slow server slow.
const REPETITIONS: usize = 8;

/// The longest pause, without the jitter, after a repetition that no server has executed. Such a repetition keeps no
/// server busy. The waiters of other processes get the lock as soon as a server is available again.
const SOON: Duration = Duration::from_millis(50);

/// The store, as the local queues use it.
#[derive(Debug)]
pub(super) struct Requests {
    store: Arc<Store>,
    /// Made when it is first needed: forks that use a copy of an unused `Locks` have different ones.
    inbox: OnceLock<InboxId>,
    repetitions: Semaphore,
    /// Limits the warnings of failed acquires.
    failed_acquires: WarnLimiter,
    failed_releases: WarnLimiter,
    pub(super) abandoned: Abandoned,
}

/// An acquire in flight.
pub(super) struct Acquiring {
    sent: Instant,
    /// The connection epoch when the request was made.
    epoch: u64,
    reply: Replying,
}

/// Whether the caller of a release waits for its end, or was told that it has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caller {
    Waiting,
    Informed,
}

enum Replying {
    Acquire(store::StoreFuture<AcquireReply>),
    Share(store::StoreFuture<Vec<AcquireReply>>),
}

impl Replying {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Reply, StoreError>> {
        Poll::Ready(match self {
            Self::Acquire(reply) => ready!(reply.as_mut().poll(cx)).map(Reply::Acquire),
            Self::Share(reply) => ready!(reply.as_mut().poll(cx)).map(Reply::Share),
        })
    }
}

/// The time and the connection epoch before a request is made.
#[derive(Clone, Copy, Debug)]
struct Moment {
    sent: Instant,
    epoch: u64,
}

impl Requests {
    pub(super) fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            inbox: OnceLock::new(),
            repetitions: Semaphore::new(REPETITIONS),
            failed_acquires: WarnLimiter::default(),
            failed_releases: WarnLimiter::default(),
            abandoned: Abandoned::default(),
        }
    }

    pub(super) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    pub(super) fn inbox(&self) -> InboxId {
        *self.inbox.get_or_init(InboxId::new)
    }

    /// Returns whether a lock was wanted before.
    pub(super) fn has_inbox(&self) -> bool {
        self.inbox.get().is_some()
    }

    /// Sends a request for the lock, once.
    pub(super) fn ask(&self, key: &LockKey, ask: Ask) -> Acquiring {
        Acquiring {
            sent: Instant::now(),
            epoch: self.store.generation_of(key),
            reply: match ask {
                Ask::Acquire(request) => {
                    let key = key.clone();
                    Replying::Acquire(self.store.ask(Acquire { key, request }))
                }
                Ask::Share(request) => {
                    let key = key.clone();
                    Replying::Share(self.store.ask(Share { key, request }))
                }
            },
        }
    }

    pub(super) async fn acquired(&self, key: &LockKey, acquiring: &mut Acquiring) -> Answer {
        poll_fn(|cx| self.poll_acquired(key, acquiring, cx)).await
    }

    pub(super) fn poll_acquired(
        &self,
        key: &LockKey,
        acquiring: &mut Acquiring,
        cx: &mut Context<'_>,
    ) -> Poll<Answer> {
        let reply = match ready!(acquiring.reply.poll(cx)) {
            Ok(reply) => reply,
            Err(error) if error.is_refused() => Reply::Refused(error),
            Err(error) => {
                events::acquire_retried(key, &error, &self.failed_acquires);
                Reply::Unanswered(error)
            }
        };
        let Acquiring { sent, epoch, .. } = *acquiring;
        Poll::Ready(self.answer(key, Moment { sent, epoch }, reply))
    }

    /// Ends a hold.
    ///
    /// `Gone` proves a loss only on the first attempt, because a repetition may meet its own success. It does so only
    /// before the deadline, because after it the lease may just have expired.
    ///
    /// `written` is set when the first attempt was written. `answered` is called when it is answered, or has failed.
    pub(super) async fn release(
        self: &Arc<Self>,
        key: &LockKey,
        release: &Release,
        written: Option<WriteSignal>,
        answered: impl FnOnce() + Send,
    ) -> Result<(), Failure> {
        let sent = Instant::now();
        let request = self.request(release, sent);
        let first = self.try_release(key, &request, release, written).await;
        answered();
        match first {
            Ok(Presence::Gone) if Instant::now() < release.deadline => {
                Err(Failure::Lost(LostReason::Deleted))
            }
            Ok(_) => Ok(()),
            // Boxed, because it is rarely needed.
            Err(error) => {
                let failed = (sent, error);
                Box::pin(self.repeat(key, release, request, failed, Caller::Waiting)).await
            }
        }
    }

    /// The request that ends a hold, if it is sent at `sent`.
    fn request(&self, release: &Release, sent: Instant) -> ReleaseRequest {
        ReleaseRequest {
            hold: release.hold,
            mode: release.mode,
            inbox: self.inbox(),
            end: release.end(sent),
            with_others: release.with_others,
        }
    }

    /// Repeats a release after each failure, until it is answered or a repetition is useless. A caller does not wait for
    /// rights that may be given back: the release is repeated without it.
    async fn repeat(
        self: &Arc<Self>,
        key: &LockKey,
        release: &Release,
        mut request: ReleaseRequest,
        (sent, mut error): (Instant, StoreError),
        caller: Caller,
    ) -> Result<(), Failure> {
        // The outcome of the first attempt is unknown.
        if request.end == End::Short {
            request.end = End::Full(Leftovers::default());
        }
        // A process that stood still learns of the failure long after its request, and the lease may have ended.
        let stands_until = after(sent, release.ttl);
        let give_up = after(sent, release.patience());
        let (mut backoff, mut soon) = (Backoff::default(), Backoff::slow(SOON));
        let mut repetition = None;
        loop {
            let pause = match error.effect() {
                Effect::None => soon.next_pause(),
                _ => backoff.next_pause(),
            };
            if error.effect() == Effect::Refused || Instant::now() + pause >= give_up {
                events::release_abandoned(key, request.hold, &error);
                self.abandoned.add(key, stands_until);
                return Err(Failure::Store(error));
            }
            events::release_retried(key, request.hold, &error, &self.failed_releases);
            if error.effect() == Effect::Forbidden && caller == Caller::Waiting {
                self.abandoned.add(key, stands_until);
                self.repeat_later(key, *release, request, (sent, error.clone()), stands_until);
                return Err(Failure::Store(error));
            }
            sleep(pause).await;
            // The turn is returned only after the pause, so that all pauses together limit the rate. After an answer
            // the next repetition follows immediately.
            drop(repetition.take());
            repetition = self.repetitions.acquire().await.ok();
            match self.try_release(key, &request, release, None).await {
                Ok(_) => return Ok(()),
                Err(failed) => error = failed,
            }
        }
    }

    /// Repeats a release in the background. Its waiters have been told that they must send requests of their own.
    fn repeat_later(
        self: &Arc<Self>,
        key: &LockKey,
        release: Release,
        request: ReleaseRequest,
        failed: (Instant, StoreError),
        stands_until: Instant,
    ) {
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let (requests, key) = (Arc::clone(self), key.clone());
        // Boxed, because it is started by a repetition itself.
        let repeating: BoxFuture<'static, ()> = Box::pin(async move {
            let repeated = requests.repeat(&key, &release, request, failed, Caller::Informed);
            if repeated.await.is_ok() {
                requests.abandoned.remove(&key, stands_until);
            }
        });
        background::spawn(&runtime, repeating);
    }

    /// Sends a release once.
    async fn try_release(
        &self,
        key: &LockKey,
        request: &ReleaseRequest,
        release: &Release,
        written: Option<WriteSignal>,
    ) -> Result<Presence, StoreError> {
        let asked = self.store.ask(store::Release {
            key: key.clone(),
            request: *request,
            written,
        });
        let released = asked.await;
        if let Ok(Presence::Present) = released {
            events::released(key, request.hold, release.since);
        }
        released
    }

    fn answer(&self, key: &LockKey, moment: Moment, reply: Reply) -> Answer {
        Answer {
            sent: moment.sent,
            sent_epoch: moment.epoch,
            epoch: self.store.generation_of(key),
            reply,
        }
    }
}

/// The locks whose release was given up, or is repeated although its caller was told that it was rejected. They are held
/// until their leases expire. Each is kept by the name of its key, with the instant at which its lease has certainly
/// expired.
#[derive(Debug, Default)]
pub(super) struct Abandoned(Mutex<Vec<(String, Instant)>>);

impl Abandoned {
    pub(super) fn add(&self, key: &LockKey, until: Instant) {
        let now = Instant::now();
        let mut locks = self.0.lock();
        locks.retain(|(_, until)| now < *until);
        if now < until {
            locks.push((key.name().to_owned(), until));
        }
    }

    /// Forgets a lock that was added with this instant.
    pub(super) fn remove(&self, key: &LockKey, until: Instant) {
        let mut locks = self.0.lock();
        locks.retain(|(name, stands_until)| name != key.name() || *stands_until != until);
    }

    /// The names of the keys whose locks may still be held, each once and in order.
    pub(super) fn names(&self) -> Vec<String> {
        let now = Instant::now();
        let locks = self.0.lock();
        let held = locks.iter().filter(|(_, until)| now < *until);
        let mut names: Vec<_> = held.map(|(name, _)| name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

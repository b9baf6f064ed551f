//! The end of a hold. The lock is handed off in memory to the next caller of this process, or the hold is removed from
//! its local queue and released, and is counted until that is done.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::local_queues::{ContentionWatch, IfMissing, KeyState, LocalQueues};
use super::machine::{Grant, HoldEnd, Input};
use crate::base::backoff::Backoff;
use crate::base::error::{Failure, FailureClass, LostReason, StoreError};
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::timer::{after, sleep, timeout};
use crate::base::write_signal::WriteSignal;
use crate::base::{background, events};
use crate::store::{self, Inspect, Presence, ReleaseKind, ReleaseRequest, Residue};

/// The longest pause, without the jitter, after a repetition that no server has executed. Such a repetition keeps no
/// server busy. The waiters of other processes get the lock as soon as a server is available again.
const MAX_PAUSE_WITHOUT_SERVER: Duration = Duration::from_millis(50);

impl LocalQueues {
    /// Resolves when another caller or process waits for the lock of this hold. If the hold is gone, it never resolves.
    ///
    /// A caller of this process is noticed as soon as it has to wait. The store is asked immediately, and again after each
    /// heartbeat. If waiters get messages, the store also notifies this process of the first other process that begins
    /// to wait.
    pub(crate) async fn await_contention(&self, key: &LockKey, hold: HoldId, heartbeat: Duration) {
        // Begun before the first check, so that a caller that comes between the check and the wait is noticed.
        let watch = ContentionWatch::begin(&self.watches, key);
        loop {
            let mut notified = pin!(watch.signal.notified());
            // From here on no wake-up is missed.
            notified.as_mut().enable();
            if self.is_contended_here(key) {
                return;
            }
            // The process of the holder gets a message when another one begins to wait.
            self.listen();
            let asked = self.store().ask(Inspect::of(key));
            if let Ok(Ok(snapshot)) = timeout(heartbeat, asked).await {
                match snapshot.filter(|snapshot| snapshot.has(hold)) {
                    Some(snapshot) if snapshot.waiting > 0 => return,
                    Some(_) => {}
                    // The hold is gone, so a waiter does not wait for it.
                    None => pending().await,
                }
            }
            // Without a response, the request is repeated after a heartbeat.
            let _ = timeout(heartbeat, notified).await;
        }
    }

    /// Notes that a hold has lost its lock. Its release will not bring the lock to the first waiter.
    pub(crate) fn note_loss(&self, key: &LockKey, hold: HoldId) {
        self.step(key, Input::Lost(hold));
    }

    /// Hands a lock off in memory at the end of a turn. Returns false if the lock must be released.
    ///
    /// The turn was exclusive. The next waiter must want the same TTL, and have no `max_hold`.
    pub(crate) fn hand_off(&self, key: &LockKey, turn: Grant, now: Instant) -> bool {
        // In strict order each turn goes through the store.
        if self.queueing.turns == 0 {
            return false;
        }
        let Some(next) = turn.next(now) else {
            return false;
        };
        let heartbeat = self.heartbeat(turn.lease.ttl);
        // Once in a heartbeat the lock goes through the store, because the message of another process may be lost.
        let is_late = turn.tokens.age(now).is_none_or(|age| age >= heartbeat);
        let hold = next.hold;
        let handed_off = self.with_queue(key, IfMissing::Skip, None, |queue, deferred| {
            // If the lock was taken away from this hold, another hold may have it by now.
            queue.machine.is_held_by(hold).then_some(())?;
            let waiter = queue.machine.next_in_memory(next.lease.ttl, is_late)?;
            // Checked before anything is changed.
            queue.callers.get(waiter)?;
            queue.answer(waiter, Ok(next), deferred);
            let until = next.lease.deadline;
            let hand_off = Input::HandOff {
                hold,
                waiter,
                until,
            };
            queue.step(hand_off, deferred);
            deferred.handed_off = Some(hold);
            Some(())
        });
        handed_off.flatten().is_some()
    }

    /// Ends a hold. Fails if the lock turns out to have been lost before. Also fails if it could not be released at all
    /// and is held until its lease expires.
    ///
    /// The release is sent at the first poll, and the request of the first waiter right behind it. `written` is set when
    /// the release was written.
    pub(crate) fn release(
        self: &Arc<Self>,
        key: &LockKey,
        release: HoldEnd,
        written: Option<WriteSignal>,
    ) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
        // Counted from here on, and not from the first poll: the hold has ended, and `close` must not find nothing to
        // do.
        let counted = CountedRelease::new(self, key, release.hold);
        async move {
            let CountedRelease { queues, key, hold } = &counted;
            // The hold leaves its local queue. The driver sends the request of the first waiter right behind the release.
            queues.end_hold(key, *hold);
            let sent = Instant::now();
            let request = ReleaseRequest {
                hold: *hold,
                mode: release.mode,
                inbox: queues.requests.inbox(),
                end: release.end(sent),
                with_others: release.with_others,
            };

            // The first attempt. Its caller may wait until it is written.
            let first = queues
                .send_release(key, request, release.since, written)
                .await;

            // Whether it was released or not, the waiters go on now.
            queues.note_released(key, *hold);
            match first {
                // This proves a loss only on the first attempt, because a repetition may meet its own success. It does
                // so only before the deadline, because after it the lease may just have expired.
                Ok(Presence::Gone) if Instant::now() < release.deadline => {
                    Err(Failure::Lost(LostReason::Deleted))
                }
                Ok(_) => Ok(()),
                Err(error) => {
                    let failed = FailedRelease {
                        release,
                        request,
                        sent,
                        error,
                        is_awaited: true,
                    };
                    // Boxed, because it is rarely needed.
                    Box::pin(queues.repeat_release(key, failed)).await
                }
            }
        }
    }

    /// Sends a release once.
    async fn send_release(
        &self,
        key: &LockKey,
        request: ReleaseRequest,
        since: Option<Instant>,
        written: Option<WriteSignal>,
    ) -> Result<Presence, StoreError> {
        let asked = self.store().ask(store::Release {
            key: key.clone(),
            request,
            written,
        });
        let released = asked.await;
        if let Ok(Presence::Present) = released {
            events::released(key, request.hold, since);
        }
        released
    }

    /// Repeats a release after each failure, until it is answered or a repetition is useless. A caller does not wait for
    /// rights that may be given back: the release is repeated without it.
    async fn repeat_release(
        self: &Arc<Self>,
        key: &LockKey,
        mut failed: FailedRelease,
    ) -> Result<(), Failure> {
        let failures = &self.requests.failed_releases;
        let FailedRelease { release, sent, .. } = failed;
        // The outcome of the first attempt is unknown.
        if failed.request.end == ReleaseKind::Short {
            failed.request.end = ReleaseKind::Full(Residue::default());
        }
        // A process that stood still learns of the failure long after its request, and the lease may have ended.
        let held_until = after(sent, release.ttl);
        let give_up_at = after(sent, release.repeat_period());
        // A server that executes requests needs longer pauses than one that executes nothing.
        let mut backoff = Backoff::default();
        let mut backoff_without_server = Backoff::slow(MAX_PAUSE_WITHOUT_SERVER);
        let mut permit = None;
        loop {
            let class = failed.error.failure_class();
            let pause = match class {
                FailureClass::NotExecuted => backoff_without_server.next_pause(),
                _ => backoff.next_pause(),
            };

            // A repetition would be useless, or too late.
            if class == FailureClass::Permanent || Instant::now() + pause >= give_up_at {
                events::release_abandoned(key, release.hold, &failed.error);
                failures.abandon(key, held_until);
                return Err(Failure::Store(failed.error));
            }
            events::release_retried(key, release.hold, &failed.error, &failures.warnings);

            // A permission may be given back, but its caller does not wait for that.
            if class == FailureClass::PermissionMissing && failed.is_awaited {
                failures.abandon(key, held_until);
                let unawaited = FailedRelease {
                    is_awaited: false,
                    ..failed.clone()
                };
                self.repeat_in_background(key, unawaited, held_until);
                return Err(Failure::Store(failed.error));
            }

            sleep(pause).await;
            // The permit is returned only after the pause, so that all pauses together limit the rate. After an answer
            // the next repetition follows immediately.
            drop(permit.take());
            permit = failures.permits.acquire().await.ok();
            let repeated = self.send_release(key, failed.request, release.since, None);
            // A repetition that finds the hold gone may have met its own success, so it is no loss.
            match repeated.await {
                Ok(_) => return Ok(()),
                Err(error) => failed.error = error,
            }
        }
    }

    /// Repeats a release whose caller was told that it has failed. Its waiters have been told that they must send
    /// requests of their own.
    fn repeat_in_background(
        self: &Arc<Self>,
        key: &LockKey,
        failed: FailedRelease,
        held_until: Instant,
    ) {
        // Without a runtime the lock stays abandoned, until its lease ends.
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let (queues, key) = (Arc::clone(self), key.clone());
        // Boxed, because it is started by a repetition itself.
        let repeating: BoxFuture<'static, ()> = Box::pin(async move {
            if queues.repeat_release(&key, failed).await.is_ok() {
                queues.requests.failed_releases.remove(&key, held_until);
            }
        });
        background::spawn(&runtime, repeating);
    }

    /// The keys of the locks whose release was given up, and whose leases may still be valid.
    pub(crate) fn abandoned(&self) -> Vec<String> {
        self.requests.failed_releases.abandoned()
    }

    /// Removes a hold from its local queue.
    fn end_hold(&self, key: &LockKey, hold: HoldId) {
        let mut states = self.states.lock();
        match states.map.get_mut(key) {
            // The machine makes the request of the first waiter, which the driver sends behind the release.
            Some(KeyState::Queue(_)) => {
                drop(states);
                self.step(key, Input::Release(hold));
            }
            // If another hold has the lock, or requests it, this hold lost it before.
            Some(state) => state.release(hold),
            None => {}
        }
    }

    /// Notes that a task will release a hold that has ended. A caller that makes only one attempt waits for that.
    pub(crate) fn note_ending(&self, key: &LockKey, ended: HoldId) {
        let mut states = self.states.lock();
        if let Some(KeyState::Held {
            holder, is_ending, ..
        }) = states.map.get_mut(key)
        {
            // Another hold may have the lock by now, if this one lost it.
            *is_ending = holder.hold == ended;
        }
    }

    /// Notes that the first request of a release is answered, or there will be none: the lock may be free.
    fn note_released(&self, key: &LockKey, released: HoldId) {
        let mut states = self.states.lock();
        match states.map.get(key) {
            Some(KeyState::Releasing { hold, .. }) if *hold == released => {
                let state = states.map.remove(key);
                drop(states);
                // Outside the mutex, because wakers run foreign code.
                let attempts = state.into_iter().flat_map(|mut it| it.take_attempts());
                attempts.for_each(Waker::wake);
            }
            Some(KeyState::Queue(_) | KeyState::Held { .. }) => {
                drop(states);
                self.step(key, Input::Released(released));
            }
            // The request of a lone caller was sent behind the release, and finds what the release has done.
            Some(KeyState::Requested(_) | KeyState::Releasing { .. }) | None => {}
        }
    }
}

#[derive(Clone)]
struct FailedRelease {
    release: HoldEnd,
    request: ReleaseRequest,
    /// The instant before its first attempt.
    sent: Instant,
    error: StoreError,
    /// Whether its caller waits for the end of the release.
    is_awaited: bool,
}

/// Counts a release, and reports its end to the local queue, also if the task that polls it ends.
struct CountedRelease {
    queues: Arc<LocalQueues>,
    key: LockKey,
    hold: HoldId,
}

impl CountedRelease {
    fn new(queues: &Arc<LocalQueues>, key: &LockKey, hold: HoldId) -> Self {
        queues.in_flight().begin();
        Self {
            queues: Arc::clone(queues),
            key: key.clone(),
            hold,
        }
    }
}

impl Drop for CountedRelease {
    fn drop(&mut self) {
        // This is for a release that was repeated, or given up.
        self.queues.note_released(&self.key, self.hold);
        self.queues.in_flight().end();
    }
}

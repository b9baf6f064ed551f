//! What a holder wants of the local queues: to know whether others wait, and to end its hold. Then the lock is handed off
//! in memory to the next caller of this process, or the hold is removed from its local queue and released, and is
//! counted until that is done.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::local_queues::{IfMissing, KeyState, LocalQueues};
use super::machine::{Grant, HoldEnd, Input};
use crate::base::background::WriteSignal;
use crate::base::error::{Failure, LostReason};
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::timer::timeout;
use crate::store::{Inspect, Presence};

impl LocalQueues {
    /// Resolves when another caller or process waits for the lock of this hold. If the hold is gone, it never resolves.
    ///
    /// A caller of this process is noticed as soon as it has to wait. The store is asked immediately, and again after each
    /// heartbeat. If waiters get messages, the store also notifies this process of the first other process that begins
    /// to wait.
    pub(crate) async fn await_contention(&self, key: &LockKey, hold: HoldId, heartbeat: Duration) {
        // Subscribed before the first check, so that a caller that comes between the check and the wait is noticed.
        let mut contended = self.contended.subscribe();
        loop {
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
            let until_noted = async {
                // If it has missed some, this key may be among them.
                while contended.recv().await.is_ok_and(|noted| noted != *key) {}
            };
            let _ = timeout(heartbeat, until_noted).await;
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
        // In strict order each turn goes through the store. In the usual case no caller waits.
        if self.queueing.turns == 0 || self.len(key) == 0 {
            return false;
        }
        let Some(next) = turn.next(now) else {
            return false;
        };
        let heartbeat = self.queueing.heartbeat(turn.lease.ttl);
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
        self.in_flight.begin();
        let counted = CountedRelease {
            queues: Arc::clone(self),
            key: key.clone(),
            hold: release.hold,
        };
        async move {
            let CountedRelease { queues, key, hold } = &counted;
            // The hold leaves its local queue, whose driver sends the request of the first waiter right behind the release.
            queues.step(key, Input::Release(*hold));
            let sent = Instant::now();

            // The first attempt. Its caller may wait until it is written.
            let (requests, end) = (&queues.requests, release.end(sent));
            let first = requests.release(key, &release, end, written).await;

            match first {
                // This proves a loss only on the first attempt, because a repetition may meet its own success. It does
                // so only before the deadline, because after it the lease may just have expired.
                Ok(Presence::Gone) if Instant::now() < release.deadline => {
                    Err(Failure::Lost(LostReason::Deleted))
                }
                Ok(_) => Ok(()),
                Err(error) => {
                    // Although it is not released, the waiters go on now.
                    queues.step(key, Input::Released(*hold));
                    // Boxed, because it is rarely needed.
                    Box::pin(requests.retry_release(key, release, sent, error)).await
                }
            }
        }
    }

    /// The keys of the locks whose release was given up, and whose leases may still be valid.
    pub(crate) fn abandoned(&self) -> Vec<String> {
        self.requests.abandoned()
    }

    /// Notes that a task will release a hold that has ended. A caller that makes only one attempt waits for that.
    pub(crate) fn note_ending(&self, key: &LockKey, ended: HoldId) {
        let mut states = self.states.lock();
        if let Some(KeyState::Held {
            holder, is_ending, ..
        }) = states.map.get_mut(key)
        {
            // Another hold may have the lock by now, if this one lost it, and may be ending as well.
            *is_ending |= holder.hold == ended;
        }
    }
}

/// Counts a release, and reports its end to the local queue, also if the task that polls it ends.
struct CountedRelease {
    queues: Arc<LocalQueues>,
    key: LockKey,
    hold: HoldId,
}

impl Drop for CountedRelease {
    fn drop(&mut self) {
        // From here on the waiters go on, whether it was answered or given up.
        self.queues.step(&self.key, Input::Released(self.hold));
        self.queues.in_flight.end();
    }
}

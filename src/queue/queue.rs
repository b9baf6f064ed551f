//! The interface of the local queues: to acquire a lock, to hand it off, and to note what happens to it.
//!
//! Callers that want the same key wait for it in one local queue of their process, first come, first served. Only the
//! first of them sends requests to the store, where it is in the queue for the whole process. While the process holds
//! the lock, no waiter sends requests: the last exit of a call graph hands the lock to the first waiter in memory. If it
//! may not, it releases the lock, and the first waiter sends its request right behind the release.
//!
//! The local queue of a key is a machine (`local_queue.rs`): it processes what happens, and returns what must be done.
//! The map of all local queues (`local_queues.rs`) is the one place that gives it input and executes its actions. A
//! lock that only one hold wants has no local queue yet: its caller polls its own request (`alone.rs`). As soon as
//! another caller joins, or the first one has to wait, a driver (`driver.rs`) sends the requests of the local queue,
//! watches the time, and takes back grants.
//!
//! # Invariants
//!
//! 1. For each key there is at most one acquire in flight.
//! 2. The answer to a request belongs to the local queue, not to the caller for which it was sent. It is processed once.
//! 3. No request is made for a waiter that has left. A request that was made before is answered first. Then what it has
//!    brought is released.
//! 4. A message is processed after the answer to the acquire that was in flight when the message arrived.
//! 5. A waiter that is granted the lock and does not claim it within two heartbeats is passed over.
//! 6. A waiter that makes only one attempt stays in the local queue until one acquire is answered: its own, or the one
//!    that was in flight when it joined.
//! 7. A local queue with callers has a driver, which alone polls its requests. The end of a runtime takes its tasks with
//!    it. Then the request is not answered, and a caller on another runtime starts the next driver.
//!
//! # Lock order
//!
//! The map of the local queues has the one mutex. While it is locked, neither the store nor a runtime nor a waker is
//! called, and no waker is dropped. Any of them may run code that calls back into the queues.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::grant::Grant;
use super::line::Effects;
use super::lines::Slot;
use super::local_queues::LocalQueues;
use super::step::{Heard, Input, Refusal, Wish, silent};
use super::wait::Wait;
use crate::base::error::LockError;
use crate::base::events;
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::options::{LockOptions, Mode, WaitLimit};
use crate::base::timer::timeout_at;
use crate::store::{AcquireRequest, HandoffMessage, Listener, QueueEntry};

impl LocalQueues {
    /// Acquires the lock, or waits for it in the local queue. Dropping the future leaves the queue and undoes whatever
    /// the store may have granted by then.
    ///
    /// Returns `None` if the lock was granted and not entered in time. Then the next waiter has it, and the caller
    /// sends a request as another hold.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        key: &LockKey,
        hold: HoldId,
        terms: LockOptions,
        since: Instant,
        runtime: &Handle,
    ) -> Result<Option<Grant>, LockError> {
        // This is read before the request, so that no disconnect is missed between the request and the first renewal.
        let generation = self.store().generation();
        let wish = self.wish(hold, terms);
        let limit = terms.wait.limit(since);
        let span = (!wish.asks_once).then_some((since, limit));
        let mut wait = Wait::new(self, key, wish, runtime, span);
        // The store may never have received a request for this lock before.
        let mut heard_at = Instant::now();
        let mut now = heard_at;
        let answer = loop {
            let Some(until) = self.limit(limit, heard_at) else {
                break (&mut wait).await;
            };
            // The response to its request wakes a caller that is alone.
            let is_answered = self.store().answers_by(key, now, until);
            let limited = timeout_at(until, &mut wait);
            if let Ok(answer) = limited.sparing(is_answered, |wait| wait.is_alone()).await {
                break answer;
            }
            let (heard, answered) = self.heard(key);
            match answered.filter(|at| *at > heard_at && Some(until) != limit) {
                Some(at) => heard_at = at,
                None if Some(until) == limit => break Err(Refusal::Late(heard.failure())),
                None => {
                    break Err(Refusal::Late(heard.failure().or_else(|| Some(silent()))));
                }
            }
            now = Instant::now();
        };
        match answer {
            Ok(mut granted) if granted.is_live(Instant::now()) => {
                granted.requested_after(generation);
                Ok(Some(granted))
            }
            Ok(granted) => {
                self.give_back(key, granted, None);
                Ok(None)
            }
            Err(refusal) => refusal
                .error(key, hold, since, || wait.take_seen())
                .map_or(Ok(None), Err),
        }
    }

    /// The instant until which a caller waits. It is the limit of its wait, or of the time that it waits for a store
    /// that has not responded since `heard_at`, whichever is earlier.
    pub(super) fn limit(&self, limit: Option<Instant>, heard_at: Instant) -> Option<Instant> {
        let outage = heard_at.checked_add(self.queueing.outage);
        limit.into_iter().chain(outage).min()
    }

    /// The wish of a caller with these terms.
    pub(super) fn wish(&self, hold: HoldId, terms: LockOptions) -> Wish {
        let asks_once = terms.wait == WaitLimit::Never;
        if !self.requests.has_inbox() {
            // The first lock opens it, however long it waits: a holder is notified if its hold is ended by force.
            self.listen();
        }
        let entry = (!asks_once).then(|| self.entry(terms));
        Wish {
            request: AcquireRequest {
                hold,
                ttl: terms.ttl,
                entry,
                with_others: false,
            },
            mode: terms.mode,
            limit: terms.permits,
            asks_once,
            grace: terms.grace,
            may_inherit: terms.may_inherit && terms.mode == Mode::Exclusive,
        }
    }

    /// Closes the queues: no caller waits from now on. What the store has of those that wait is given up now, because
    /// they may never be polled again.
    pub(crate) fn close(self: &Arc<Self>) {
        self.in_flight().close();
        let waited_for = self.lines.lock().waited_for();
        for key in waited_for {
            self.input(&key, Input::Close);
        }
    }

    /// Opens the inbox, unless it is open. Returns false while waiters must send requests. They are woken when that
    /// changes.
    pub(crate) fn listen(&self) -> bool {
        let listener: Weak<Self> = Weak::clone(&self.this);
        self.store().listen(self.requests.inbox(), listener)
    }

    /// The number of callers that wait in this process, without the holder.
    pub(crate) fn len(&self, key: &LockKey) -> usize {
        let lines = self.lines.lock();
        lines.of.get(key).map_or(0, Slot::len)
    }

    /// Returns whether this hold has the lock in this process.
    pub(crate) fn is_held_by(&self, key: &LockKey, hold: HoldId) -> bool {
        let lines = self.lines.lock();
        let slot = lines.of.get(key);
        slot.is_some_and(|slot| slot.is_held_by(hold))
    }

    /// The heartbeat of a waiter with this TTL.
    pub(crate) fn heartbeat(&self, ttl: Duration) -> Duration {
        self.queueing.heartbeat(ttl)
    }

    /// Returns whether a caller polls its own request, because no other caller has joined. Then the response wakes it.
    pub(crate) fn asks_alone(&self, key: &LockKey, hold: HoldId) -> bool {
        self.lines.lock().asking(key, hold).is_some()
    }

    /// Notes that a hold has lost its lock. Its release will not bring the lock to the first waiter.
    pub(crate) fn lost(&self, key: &LockKey, hold: HoldId) {
        self.input(key, Input::Lost(hold));
    }

    /// Hands a lock off in memory at the end of a turn. Returns false if the lock must be released.
    ///
    /// The turn was exclusive. The next waiter must want the same TTL, and have no `max_hold`.
    pub(crate) fn hand_off(&self, key: &LockKey, turn: Grant, now: Instant) -> bool {
        if self.queueing.turns == 0 {
            return false;
        }
        let Some(next) = turn.next(now) else {
            return false;
        };
        let heartbeat = self.queueing.heartbeat(turn.lease.ttl);
        let is_late = turn.tokens.age(now).is_none_or(|age| age >= heartbeat);
        let hold = next.hold;
        let mut effects = Effects::default();
        let handed_off = self
            .lines
            .lock()
            .change(key, &mut effects, |line, effects| {
                // If the lock was taken away from this hold, another hold may have it by now.
                line.queue.is_held_by(hold).then_some(())?;
                let waiter = line.queue.heir(next.lease.ttl, is_late)?;
                line.callers.get(waiter)?;
                line.answer(waiter, Ok(next), effects);
                let until = next.lease.deadline;
                let hand_off = Input::HandOff {
                    hold,
                    waiter,
                    until,
                };
                self.step(line, hand_off, effects);
                Some(())
            });
        let is_handed_off = handed_off.flatten().is_some();
        if is_handed_off {
            events::handed_off(key, hold);
        }
        self.apply(key, effects, None);
        is_handed_off
    }

    /// The last reply of the store about the lock, and the instant at which the store last responded.
    pub(super) fn heard(&self, key: &LockKey) -> (Heard, Option<Instant>) {
        let mut lines = self.lines.lock();
        let line = lines.line(key);
        line.map_or((Heard::Nothing, None), |line| {
            (line.queue.heard().clone(), line.answered)
        })
    }

    /// The last answer of the store to the callers that wait for the lock; `None` before the first answer.
    pub(crate) fn answered(
        &self,
        key: &LockKey,
    ) -> Option<Result<(), crate::base::error::StoreError>> {
        match self.heard(key).0 {
            Heard::Nothing => None,
            Heard::Busy => Some(Ok(())),
            Heard::Failure(error) => Some(Err(error)),
        }
    }

    /// A key that is held or waited for, by its name in the store.
    fn known(&self, key: &str) -> Option<LockKey> {
        let lines = self.lines.lock();
        lines.of.get_key_value(key).map(|(key, _)| key.clone())
    }

    /// The entry of a waiter with this TTL in the store's queue.
    ///
    /// A lock that moves to the waiter has a short lease until it is renewed, and an entry has a short life. So a dead
    /// process delays the others by two heartbeats at most, or by its `min_hold`.
    fn entry(&self, terms: LockOptions) -> QueueEntry {
        let heartbeat = self.queueing.heartbeat(terms.ttl);
        let grant = 2 * heartbeat + terms.grace.duration();
        let min_hold = terms.min_hold.unwrap_or_default();
        QueueEntry {
            inbox: self.requests.inbox(),
            grant: grant.max(min_hold).min(terms.ttl),
            life: 2 * heartbeat,
            tells: true,
        }
    }
}

impl Listener for LocalQueues {
    fn handoff(&self, message: HandoffMessage) {
        if let Some(key) = self.known(&message.key) {
            let epoch = self.store().generation_of(&key);
            self.input(&key, Input::Handoff { message, epoch });
        }
    }

    fn contended(&self, key: &str) {
        if let Some(key) = self.known(key) {
            self.input(&key, Input::Contended);
            self.watched.note(&key);
        }
    }

    fn missed(&self) {
        let waited_for = {
            let mut lines = self.lines.lock();
            lines.missed();
            lines.waited_for()
        };
        for key in waited_for {
            self.input(&key, Input::MaybeFree);
            self.input(&key, Input::Contended);
        }
    }
}

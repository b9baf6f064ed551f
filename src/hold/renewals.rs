//! The renewals of all holds of one `Locks` (P4).
//!
//! On each runtime there is one schedule for the holds that were entered there, and one task that sleeps until the next
//! of them is checked. The schedule is the state: it says for each hold when that is, for its renewal, for its next
//! attempt, or at its deadline. An attempt is one request with a permit, and has a task of its own while it is in
//! flight. The schedule's task begins with the first hold and checks once per second whether there is still one. So a
//! short section neither starts it nor wakes it. The task ends with its runtime. Then its holds are no longer renewed.
//!
//! The mutex of the schedules comes before the state of a hold. While it is locked, nothing is spawned, woken or
//! reported, because any of that may run code that calls back into the schedules.

use std::sync::{Arc, Weak};

use tokio::runtime::Handle;
use tokio::select;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::base::error::{FailureClass, LostReason, StoreError};
use crate::base::events;
use crate::base::timer::sleep_until;
use crate::hold::core::Core;
use crate::hold::hold::Hold;
use crate::hold::renew_request::{MIN_ATTEMPT_INTERVAL, RenewRequest, next_attempt};
use crate::hold::replicas::await_renewal_on_replicas;
use crate::hold::runtime_schedule::{Permit, RuntimeSchedule};
use crate::store::RenewReply;

#[cfg(test)]
mod tests;

/// The schedules.
impl Core {
    /// Renews a hold on this runtime from now on.
    pub(super) fn schedule(self: &Arc<Self>, hold: &Arc<Hold>, runtime: &Handle) {
        hold.join_group();
        let mut task = None;
        let signal = {
            let mut schedules = self.schedules.lock();
            let mut known = schedules.iter();
            let at = known.position(|it| it.runtime.id() == runtime.id());
            let at = at.unwrap_or_else(|| {
                // Watched before the generation is read, so that none is missed.
                let generations = self.store.generations();
                let generation = self.store.generation();
                let schedule =
                    RuntimeSchedule::new(runtime.clone(), generation, self.response_timeout);
                task = Some(ScheduleTask {
                    core: Arc::downgrade(self),
                    generations,
                    signal: Arc::clone(&schedule.signal),
                });
                schedules.push(schedule);
                schedules.len() - 1
            });
            schedules[at].push(hold, self.epoch, self.store.generation())
        };
        // Spawned and woken without the mutex: both may run code that calls back.
        if let Some(task) = task {
            drop(runtime.spawn(task.run()));
        }
        signal.iter().for_each(|signal| signal.notify_one());
        // After it was granted, and before it was in the schedule, where it would have been found.
        if self.was_forced(hold) {
            hold.lose(LostReason::Deleted);
            self.queues.note_loss(hold.key(), hold.id());
        }
    }

    /// Removes a hold that ends. It is no longer renewed. Returns its runtime, unless that has ended, and whether the
    /// hold waited for its time: no renewal was in flight, and none had found it lost.
    pub(super) fn unschedule(&self, hold: &Hold) -> (Option<Handle>, bool) {
        let mut schedules = self.schedules.lock();
        let Some(schedule) = find(&mut schedules, hold) else {
            return (None, false);
        };
        let was_waiting = schedule.remove(hold, self.store.generation());
        (Some(schedule.runtime.clone()), was_waiting)
    }

    /// The runtime on which a hold is renewed; `None` if it has ended.
    pub(super) fn runtime_of(&self, hold: &Hold) -> Option<Handle> {
        let mut schedules = self.schedules.lock();
        find(&mut schedules, hold).map(|schedule| schedule.runtime.clone())
    }

    /// Checks the holds of one runtime again at an instant, or at their deadlines if those are earlier.
    fn reschedule(&self, holds: &[Arc<Hold>], at: impl Fn(&Hold) -> Instant) {
        let mut schedules = self.schedules.lock();
        let first = holds.first();
        let Some(schedule) = first.and_then(|hold| find(&mut schedules, hold)) else {
            return;
        };
        for hold in holds {
            // A loss is found at the deadline, whatever else is planned.
            schedule.move_to(hold, at(hold).min(hold.deadline()));
        }
        let signal = Arc::clone(&schedule.signal);
        drop(schedules);
        // The task may sleep for longer than until the new positions.
        signal.notify_one();
    }

    /// Does what is due. Returns until when the task sleeps; `None` if it ends.
    fn run_due(self: &Arc<Self>, signal: &Arc<Notify>) -> Option<Instant> {
        let (due, runtime) = {
            let mut schedules = self.schedules.lock();
            let at = position(&schedules, signal)?;
            let schedule = &mut schedules[at];
            // The next hold that is entered here begins another schedule.
            let Some(due) = schedule.take_due(&self.store, Instant::now()) else {
                // It has no hold, so no foreign code runs under the mutex.
                drop(schedules.swap_remove(at));
                return None;
            };
            (due, schedule.runtime.clone())
        };
        if due.is_new_generation {
            // The connections may have ended with another runtime, and the inbox with them.
            self.queues.listen();
        }
        for hold in due.lost {
            // This reports the loss.
            let _ = hold.check_loss();
            self.queues.note_loss(hold.key(), hold.id());
        }
        // They get another attempt below. Their connection may be dead without a sign of it.
        for (hold, since) in due.overdue {
            events::renewal_unanswered(hold.key());
            self.report_retry(&hold, None);
            self.store.suspect(hold.key(), since);
        }
        // Each in a task of its own, because an attempt without a response stays open beside the next one.
        for (request, permit) in due.requests {
            let core = Arc::clone(self);
            drop(runtime.spawn(async move { core.attempt(request, permit).await }));
        }
        Some(due.until)
    }
}

/// The schedule of a hold, unless its runtime has ended.
fn find<'a>(schedules: &'a mut [RuntimeSchedule], hold: &Hold) -> Option<&'a mut RuntimeSchedule> {
    let mut known = schedules.iter_mut();
    known.find(|schedule| schedule.runtime.id() == hold.runtime)
}

/// The position of the schedule that has this signal, unless its runtime has ended.
fn position(schedules: &[RuntimeSchedule], signal: &Arc<Notify>) -> Option<usize> {
    let mut known = schedules.iter();
    known.position(|schedule| Arc::ptr_eq(&schedule.signal, signal))
}

/// The task of one schedule. It keeps nothing alive.
struct ScheduleTask {
    core: Weak<Core>,
    generations: watch::Receiver<u64>,
    signal: Arc<Notify>,
}

impl ScheduleTask {
    async fn run(mut self) {
        while let Some(until) = self.run_due() {
            if until <= Instant::now() {
                // More holds are due. The renewals that were begun come first.
                tokio::task::yield_now().await;
                continue;
            }
            select! {
                biased;
                () = self.signal.notified() => {}
                // The server may have lost the locks together with the connection, so they are verified immediately. A
                // store that is being dropped begins no more generations.
                Ok(()) = self.generations.changed() => {}
                () = sleep_until(until) => {}
            }
        }
    }

    fn run_due(&mut self) -> Option<Instant> {
        // Before the generation is read, so that one that begins in between is not missed.
        self.generations.mark_unchanged();
        self.core.upgrade()?.run_due(&self.signal)
    }
}

/// If the task had something to do, its runtime has ended.
impl Drop for ScheduleTask {
    fn drop(&mut self) {
        if let Some(core) = self.core.upgrade() {
            let mut schedules = core.schedules.lock();
            let at = position(&schedules, &self.signal);
            let ended = at.map(|at| schedules.swap_remove(at));
            drop(schedules);
            // Dropping holds may run foreign code, so the mutex comes first.
            drop(ended);
        }
    }
}

/// An attempt to renew leases: a request with a permit, and the next position of its holds.
impl Core {
    /// Sends a request, and schedules its holds when it was answered, unless they no longer need it.
    ///
    /// An attempt without a response is not given up, because the store may only be far away. The next one is sent in
    /// addition, and the first response counts. A renewal that arrives late can only lengthen the lease of a hold that
    /// exists. An error is not a response: the old deadline stays.
    async fn attempt(&self, request: RenewRequest, permit: Permit) {
        select! {
            biased;
            // Dropping the request returns its permit. If it is executed all the same, it only lengthens a lease.
            () = request.await_settled() => {}
            () = self.renew(&request, permit) => {}
        }
    }

    async fn renew(&self, request: &RenewRequest, permit: Permit) {
        // Watched before the request: a connection that is opened from now on ends the pause after a failure.
        let connections = self.store.connections();
        let replies = match request.send(&self.store).await {
            Ok(replies) => replies,
            Err(error) => return self.retry(request, &error, permit, connections).await,
        };

        // The server has answered. The replicas need no permit.
        drop(permit);

        // No replica is needed to know that a hold is gone, and the other waiters do not wait for it.
        for hold in request.lose(&replies) {
            self.queues.note_loss(hold.key(), hold.id());
        }
        request.separate_failed(&replies);

        // What was renewed counts when the replicas have it, if it must. They may take longer than the time to the next
        // attempt, so there is none before the deadline.
        if request.batch.confirm.is_some() {
            self.reschedule(&request.holds, |hold| hold.deadline());
        }
        match await_renewal_on_replicas(request, &replies, &self.store).await {
            Ok(()) => self.finish(request, &replies),
            Err(error) => {
                let (_, again) = self.fail(request, &error);
                // All of them, because all of them wait at their deadlines now. What is not due then is put off.
                self.reschedule(&request.holds, |_| again);
            }
        }
    }

    fn finish(&self, request: &RenewRequest, replies: &[RenewReply]) {
        for hold in request.renewed(replies) {
            // Read before the confirmation, which moves the time of the next renewal.
            let renewal_due = hold.state.lock().lease.times().renewal_due;
            request.confirm(hold);
            // Holds that were verified together would stay together for ever, so their next renewals are spread.
            hold.align(self.epoch, request.sent < renewal_due);
            let renewed = || events::renewed(hold.key(), hold.id(), hold.deadline());
            hold.span().in_scope(renewed);
        }
        // A hold whose renewal has failed is still due.
        let earliest = request.sent + MIN_ATTEMPT_INTERVAL;
        self.reschedule(&request.holds, |hold| {
            let generation = self.store.generation();
            hold.state.lock().lease.due(generation).max(earliest)
        });
    }

    /// Schedules the next attempt after one that has failed.
    async fn retry(
        &self,
        request: &RenewRequest,
        error: &StoreError,
        permit: Permit,
        mut connections: Option<watch::Receiver<u64>>,
    ) {
        let (failed, again) = self.fail(request, error);
        if error.failure_class() == FailureClass::NotExecuted {
            // The server executes nothing, so the permit is kept through the pause: the cost of an outage does not grow
            // with the number of holds.
            select! {
                biased;
                Some(()) = async { connections.as_mut()?.changed().await.ok() } => {}
                () = sleep_until(again) => {}
            }
            // A connection that was opened shows that a server executes requests again.
            self.reschedule(&failed, |_| Instant::now());
        } else {
            self.reschedule(&failed, |_| again);
        }
        drop(permit);
    }

    /// Reports a failure. Returns the holds for which no later attempt was sent, and the time of their next one.
    fn fail(&self, request: &RenewRequest, error: &StoreError) -> (Vec<Arc<Hold>>, Instant) {
        let mut failed = Vec::new();
        // A hold that has ended or was lost needs no renewal.
        let needed = |hold: &&Arc<Hold>| hold.depth() > 0 && hold.check_loss().is_none();
        for hold in request.holds.iter().filter(needed) {
            self.report_retry(hold, Some(error));
            // A later attempt has reported that this one had no response.
            if hold.fail_attempt(request.sent) {
                events::renewal_unanswered(hold.key());
                failed.push(Arc::clone(hold));
            }
        }
        let soon = Instant::now() + MIN_ATTEMPT_INTERVAL;
        // Alone, each of them may succeed at once. After a lost connection the error says nothing about the lease.
        let is_urgent = request.separate(error) || request.generation != self.store.generation();
        let pause = next_attempt(&failed, request.sent, self.response_timeout) - request.sent;
        let again = soon.max(request.sent + pause / 2);
        (failed, if is_urgent { soon } else { again })
    }

    fn report_retry(&self, hold: &Hold, error: Option<&StoreError>) {
        let retried =
            || events::renewal_retried(hold.key(), hold.id(), error, &self.failed_renewals);
        hold.span().in_scope(retried);
    }
}

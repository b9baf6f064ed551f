//! The local queue of one key: its machine, its callers, and what it wants of its driver.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::callers::{Answer, BlockingHolders, Callers, WaitReport};
use crate::base::id::HoldId;
use crate::queue::machine::{AcquireSpec, Action, Denied, HoldEnd, HoldIds, Input, WaitMachine};
use crate::queue::requests::PendingRequest;

/// The local queue of one key, and the state that its steps change.
pub(crate) struct LocalQueue {
    pub(crate) machine: WaitMachine,
    pub(crate) callers: Callers,
    pub(crate) next_request: Option<NextRequest>,
    /// The signal that wakes its driver. It also distinguishes the driver from the next one.
    pub(super) driver: Option<Arc<Notify>>,
    driver_sleeps_until: Option<Instant>,
    is_lookup_in_flight: bool,
    /// The holder at the last lookup, and the time of that lookup.
    last_lookup: Option<(Instant, Option<BlockingHolders>)>,
    pub(super) replied_at: Option<Instant>,
}

/// The request that the driver sends next.
pub(crate) enum NextRequest {
    New(AcquireSpec, HoldIds),
    /// A lone caller has sent it.
    Sent(PendingRequest),
    /// It was sent by a driver whose runtime has ended, and gets no reply.
    GivenUp,
}

/// The work of a driver until the next event.
pub(super) struct DriverWork {
    pub(crate) request: Option<NextRequest>,
    pub(super) needs_lookup: bool,
    pub(super) due: Option<Instant>,
}

impl LocalQueue {
    pub(crate) fn new(machine: WaitMachine) -> Self {
        Self {
            machine,
            callers: Callers::default(),
            next_request: None,
            driver: None,
            driver_sleeps_until: None,
            is_lookup_in_flight: false,
            last_lookup: None,
            replied_at: None,
        }
    }

    /// Takes a step, and executes its actions.
    pub(crate) fn step(&mut self, input: Input, deferred: &mut Deferred) {
        let now = Instant::now();
        // A failure does not show that the store responds, so the `outage` limit of the callers goes on.
        if let Input::Reply(reply) = &input
            && reply.replies.is_ok()
        {
            self.replied_at = Some(now);
        }
        for action in self.machine.step(input, now) {
            self.execute(action, deferred);
        }
    }

    fn execute(&mut self, action: Action, deferred: &mut Deferred) {
        match action {
            Action::Send(spec, holds) => self.next_request = Some(NextRequest::New(spec, holds)),
            Action::Release(release) => deferred.releases.push(release),
            Action::Grant(grant) => drop(self.answer(grant.hold, Ok(grant), deferred)),
            Action::Deny(waiter, denied) => drop(self.answer(waiter, Err(denied), deferred)),
            Action::PassOver(waiter) => {
                // The grant that it has not taken is replaced, so that it cannot be entered, and is released.
                let granted = self.answer(waiter, Err(Denied::PassedOver), deferred);
                deferred.return_grant(granted);
            }
        }
    }

    /// Gives a caller its answer. Returns an earlier answer that the caller has not taken.
    pub(crate) fn answer(
        &mut self,
        waiter: HoldId,
        answer: Answer,
        deferred: &mut Deferred,
    ) -> Option<Answer> {
        let replaced = self.callers.change(waiter, |caller| {
            // The waker is called after the mutex is released.
            deferred.wakers.extend(caller.waker.take());
            caller.answer.replace(answer)
        });
        replaced.flatten()
    }

    // ---- the driver ----

    /// Starts, wakes or ends the driver, if there is something for it to do.
    pub(super) fn update_driver(&mut self, deferred: &mut Deferred) {
        if !self.machine.is_active() {
            // The driver's work ends here.
            deferred.signal = self.driver.take();
        // A driver that sleeps is woken only for a request, or for something that is due before it wakes by itself.
        } else if let Some(signal) = &self.driver {
            let is_earlier = |due| self.driver_sleeps_until.is_none_or(|until| due < until);
            let is_needed = self.next_request.is_some() || self.due().is_some_and(is_earlier);
            deferred.signal = is_needed.then(|| Arc::clone(signal));
        } else {
            // It is noted here and started after the mutex is released, so that no second one is started in between.
            let signal = Arc::<Notify>::default();
            deferred.driver = Some(Arc::clone(&signal));
            self.driver = Some(signal);
            // What the driver before it has left is of no use any more.
            (self.driver_sleeps_until, self.is_lookup_in_flight) = (None, false);
        }
    }

    /// Returns whether this signal wakes the driver.
    pub(super) fn is_driven_by(&self, signal: &Arc<Notify>) -> bool {
        let driver = self.driver.as_ref();
        driver.is_some_and(|driver| Arc::ptr_eq(driver, signal))
    }

    /// The time at which the driver has something to do, if nothing happens before.
    fn due(&self) -> Option<Instant> {
        let lookup = self.callers.next_lookup();
        let lookup = lookup.filter(|_| !self.is_lookup_in_flight);
        self.machine.due().into_iter().chain(lookup).min()
    }

    /// Does what is due. Returns the work of the driver until the next event.
    pub(super) fn next_work(&mut self, heartbeat: Duration, deferred: &mut Deferred) -> DriverWork {
        let now = Instant::now();
        // This may make a request, and change what is due next.
        if self.machine.due().is_some_and(|due| due <= now) {
            self.step(Input::Due, deferred);
        }
        let needs_lookup =
            !self.is_lookup_in_flight && self.report_last_lookup(now, heartbeat, deferred);
        self.is_lookup_in_flight |= needs_lookup;
        // From here on a step compares with this time to decide whether the driver must be woken.
        self.driver_sleeps_until = self.due();
        DriverWork {
            request: self.next_request.take(),
            needs_lookup,
            due: self.driver_sleeps_until,
        }
    }

    // ---- the lookups of the holder ----

    /// Reports the last lookup to the callers that are due, if it was less than a heartbeat ago. Returns whether one of
    /// them needs another lookup.
    fn report_last_lookup(
        &mut self,
        now: Instant,
        heartbeat: Duration,
        deferred: &mut Deferred,
    ) -> bool {
        let last = self.last_lookup.as_ref();
        // A lookup serves the callers of one heartbeat, however many of them are due at different times.
        if let Some((_, blocking)) = last.filter(|(at, _)| now < *at + heartbeat)
            && self.callers.is_lookup_due(now)
        {
            deferred.reports = self.callers.note_lookup(blocking.as_ref(), now);
        }
        self.callers.is_lookup_due(now)
    }

    /// Notes the answer to a lookup.
    pub(super) fn note_lookup(&mut self, blocking: Option<BlockingHolders>, now: Instant) {
        let blocking = blocking.map(|mut blocking| {
            // The store does not know which process asks.
            let hold = blocking.holder.hold_id.parse();
            blocking.holder.is_here = hold.is_ok_and(|hold| self.machine.is_held_by(hold));
            blocking
        });
        self.last_lookup = Some((now, blocking));
        self.is_lookup_in_flight = false;
    }
}

/// The work to do after the mutex is released, because it runs foreign code, which may call back into the queues.
#[derive(Default)]
pub(crate) struct Deferred {
    /// The hold that continues with the next caller, which is reported before that caller is woken.
    pub(crate) handed_off: Option<HoldId>,
    /// Usually a step wakes one caller.
    pub(super) wakers: SmallVec<[Waker; 1]>,
    /// Wakes the driver.
    pub(crate) signal: Option<Arc<Notify>>,
    /// The signal of a driver that must be started.
    pub(super) driver: Option<Arc<Notify>>,
    /// The releases that no caller waits for.
    pub(crate) releases: Vec<HoldEnd>,
    /// The reports of callers that wait for long.
    pub(super) reports: Vec<WaitReport>,
}

impl Deferred {
    /// Releases a lock that was granted, and that its caller does not enter.
    pub(crate) fn return_grant(&mut self, answer: Option<Answer>) {
        if let Some(Ok(grant)) = answer {
            self.releases.push(grant.release());
        }
    }
}

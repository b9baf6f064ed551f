//! The local queue of one key: its machine, its callers, and what it wants of its driver.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::callers::Callers;
use super::grant::{Grant, Release};
use super::holder_lookup::{InTheWay, WaitReport};
use super::local_queue::LocalQueue;
use super::request::Acquiring;
use super::step::{Action, Ask, Refusal};
use crate::base::id::HoldId;

/// The driver of a local queue.
pub(super) struct Driven {
    /// The signal that wakes the driver. It also distinguishes the driver from the next one.
    pub(super) signal: Arc<Notify>,
    pub(super) sleeps_until: Option<Instant>,
    /// Whether it looks up the holder now.
    pub(super) is_looking: bool,
}

/// The request that the driver sends next.
pub(super) enum NextRequest {
    New(Ask),
    /// A lone caller has sent it.
    Sent(Acquiring),
}

/// The local queue of one key, and the state that its steps change.
pub(super) struct Line {
    pub(super) queue: LocalQueue,
    pub(super) callers: Callers,
    /// Whether a request is made that is not answered.
    pub(super) is_asking: bool,
    pub(super) request: Option<NextRequest>,
    pub(super) driver: Option<Driven>,
    /// The holder at the last lookup, and the time of that lookup.
    seen: Option<(Instant, Option<InTheWay>)>,
    /// The instant of the last response of the store.
    pub(super) answered: Option<Instant>,
}

impl Line {
    pub(super) fn new(queue: LocalQueue) -> Self {
        Self {
            queue,
            callers: Callers::default(),
            is_asking: false,
            request: None,
            driver: None,
            seen: None,
            answered: None,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.queue.is_over() && self.callers.is_empty()
    }

    /// The time at which its driver has something to do, if nothing happens before.
    pub(super) fn due(&self) -> Option<Instant> {
        let look_at = self.callers.look_at().filter(|_| !self.is_looking());
        self.queue.due().into_iter().chain(look_at).min()
    }

    fn is_looking(&self) -> bool {
        self.driver.as_ref().is_some_and(|driver| driver.is_looking)
    }

    /// Notes the answer to a lookup.
    pub(super) fn see(&mut self, seen: Option<InTheWay>, now: Instant) {
        let seen = seen.map(|mut seen| {
            let hold = seen.holder.hold_id.parse();
            seen.holder.is_here = hold.is_ok_and(|hold| self.queue.is_held_by(hold));
            seen
        });
        self.seen = Some((now, seen));
        if let Some(driver) = &mut self.driver {
            driver.is_looking = false;
        }
    }

    /// Notes that the driver sleeps until something happens, and looks up the holder meanwhile if that is needed.
    /// Returns the time at which it must wake up.
    pub(super) fn sleep(&mut self, needs_look: bool) -> Option<Instant> {
        if let Some(driver) = &mut self.driver {
            driver.is_looking |= needs_look;
        }
        let due = self.due();
        if let Some(driver) = &mut self.driver {
            driver.sleeps_until = due;
        }
        due
    }

    /// Reports the last lookup to the callers that are due, if it was less than a heartbeat ago. Returns whether one of
    /// them needs another lookup.
    pub(super) fn needs_look(
        &mut self,
        now: Instant,
        heartbeat: Duration,
        effects: &mut Effects,
    ) -> bool {
        if self.is_looking() {
            return false;
        }
        let seen = self.seen.as_ref();
        if let Some((at, seen)) = seen.filter(|(at, _)| now < *at + heartbeat)
            && self.callers.is_due(now)
        {
            let seen = seen.as_ref().map(|it| it.later(now - *at));
            let reports = self.callers.look(seen.as_ref(), now);
            effects.reports.extend(reports);
        }
        self.callers.is_due(now)
    }

    /// Starts, wakes or ends the driver, if there is something for it to do.
    pub(super) fn direct_driver(&mut self, effects: &mut Effects) {
        if !self.queue.is_active() {
            // The driver's work ends here.
            effects.signal = self.driver.take().map(|driver| driver.signal);
        } else if let Some(driver) = &self.driver {
            let is_earlier = |due| driver.sleeps_until.is_none_or(|until| due < until);
            let is_needed = self.request.is_some() || self.due().is_some_and(is_earlier);
            effects.signal = is_needed.then(|| Arc::clone(&driver.signal));
        } else {
            let signal = Arc::<Notify>::default();
            effects.driver = Some(Arc::clone(&signal));
            self.driver = Some(Driven {
                signal,
                sleeps_until: None,
                is_looking: false,
            });
        }
    }

    /// Gives a caller its answer. Returns an earlier answer that the caller has not taken.
    pub(super) fn answer(
        &mut self,
        waiter: HoldId,
        answer: Result<Grant, Refusal>,
        effects: &mut Effects,
    ) -> Option<Result<Grant, Refusal>> {
        let caller = self.callers.get(waiter)?;
        effects.wakers.extend(caller.waker.take());
        caller.answer.replace(answer)
    }
}

/// The work to do after the mutex is released, because it runs foreign code, which may call back into the queues.
#[derive(Default)]
pub(super) struct Effects {
    /// Usually a step wakes one caller.
    pub(super) wakers: SmallVec<[Waker; 1]>,
    /// Wakes the driver.
    pub(super) signal: Option<Arc<Notify>>,
    /// The signal of a driver that must be started.
    pub(super) driver: Option<Arc<Notify>>,
    /// The locks that were granted, and that their callers do not enter.
    pub(super) given_back: Vec<Grant>,
    /// The releases that no caller waits for.
    pub(super) undoing: Vec<Release>,
    pub(super) check_subscription: bool,
    /// The reports of callers that wait for long.
    pub(super) reports: Vec<WaitReport>,
    pub(super) actions: Vec<Action>,
}

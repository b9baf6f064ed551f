//! The lines of all keys: what is kept of each, and what is to be done once it is let go of.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    task::Waker,
};

use futures_util::future::{BoxFuture, Shared};
use tokio::{runtime, sync::Notify, time::Instant};

use super::{
    cohort::Granted,
    line::LocalQueue,
    step::{Action, Refusal, Release},
};
use crate::base::{error::Failure, id::HoldId, key::LockKey, options::Queueing};

/// The request of a line that is in flight. Its answer is an input of the line, whichever task polls it;
/// its output tells how the hold has ended, where it is a release.
pub(super) type Flight = Shared<BoxFuture<'static, Result<(), Failure>>>;

/// The driver of a line.
pub(super) struct Driven {
    /// Wakes it, and tells it from the next one.
    pub(super) signal: Arc<Notify>,
    pub(super) sleeps_until: Option<Instant>,
}

/// The lines of all keys that are held or waited for.
#[derive(Default)]
pub(super) struct Lines {
    /// Boxed, since a map has room for many more than it holds.
    pub(super) of: HashMap<LockKey, Box<Line>>,
    /// The actions of one step at a time.
    pub(super) actions: Vec<Action>,
}

/// The local queue of one key, and what its steps are performed on.
pub(super) struct Line {
    pub(super) queue: LocalQueue,
    /// The callers that wait for an answer, in the order in which they came.
    pub(super) callers: VecDeque<Caller>,
    pub(super) flight: Option<Flight>,
    pub(super) driver: Option<Driven>,
}

/// The caller of one waiter.
pub(super) struct Caller {
    pub(super) waiter: HoldId,
    /// None while it polls the request in flight: there is no other way to its answer.
    pub(super) waker: Option<Waker>,
    /// Where it was polled last.
    pub(super) runtime: Option<runtime::Id>,
    pub(super) answer: Option<Result<Granted, Refusal>>,
}

/// What is done once the line is let go of, since it runs code of others, which may come back here.
#[derive(Default)]
pub(super) struct Effects {
    pub(super) wakers: Vec<Waker>,
    pub(super) signal: Option<Arc<Notify>>,
    /// Locks that were granted, and that their callers do not enter.
    pub(super) given_back: Vec<Granted>,
    /// The release of the input.
    pub(super) ending: Option<Ending>,
    /// Releases that no caller waits for.
    pub(super) undoing: Vec<Ending>,
    pub(super) check_subscription: bool,
    pub(super) actions: Vec<Action>,
}

/// The end of a hold, on its way or to be begun.
pub(super) enum Ending {
    Alone(Release),
    /// It names a successor, for which it is a request in flight.
    HandingOver(HoldId, Flight),
}

impl Ending {
    pub(super) fn hold(&self) -> HoldId {
        match self {
            Self::Alone(release) => release.hold,
            Self::HandingOver(hold, _) => *hold,
        }
    }
}

impl Line {
    pub(super) fn new(queueing: Queueing) -> Self {
        Self {
            queue: LocalQueue::new(queueing),
            callers: VecDeque::new(),
            flight: None,
            driver: None,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.queue.is_over() && self.callers.is_empty()
    }

    /// Answers a caller. Returns what it was answered before, and has not come for.
    pub(super) fn answer(
        &mut self,
        waiter: HoldId,
        answer: Result<Granted, Refusal>,
        effects: &mut Effects,
    ) -> Option<Result<Granted, Refusal>> {
        let caller = self.caller(waiter)?;
        effects.wakers.extend(caller.waker.take());
        caller.answer.replace(answer)
    }

    pub(super) fn caller(&mut self, waiter: HoldId) -> Option<&mut Caller> {
        let mut callers = self.callers.iter_mut();
        callers.find(|caller| caller.waiter == waiter)
    }

    /// A caller has its answer, or waits no longer.
    pub(super) fn forget(&mut self, waiter: HoldId) -> Option<Caller> {
        let mut callers = self.callers.iter();
        let at = callers.position(|caller| caller.waiter == waiter)?;
        let caller = self.callers.remove(at);
        if self.callers.is_empty() {
            // A lock that is held for long is not to keep the memory of those who waited for it.
            self.callers = VecDeque::new();
        }
        caller
    }
}

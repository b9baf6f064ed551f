//! The local queues of all keys: one map, one place that takes steps in it, and one that performs what
//! they call for.

use std::{
    collections::{HashMap, VecDeque},
    fmt, mem,
    sync::{Arc, Weak},
    task::Waker,
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use tokio::{
    runtime::{self, Handle},
    sync::Notify,
    time::Instant,
};

use super::{
    cohort::Granted,
    line::LocalQueue,
    request::Requests,
    step::{Action, Input, Refusal, Release},
};
use crate::{
    base::{
        background::Handover, error::Failure, events, id::HoldId, key::LockKey, mutex::Mutex,
        options::Queueing,
    },
    store::{AcquireRequest, Store, Successor},
};

/// The request of a line that is in flight. Its answer is an input of the line, whichever task polls it;
/// its output tells how the hold has ended, where it is a release.
pub(super) type Flight = Shared<BoxFuture<'static, Result<(), Failure>>>;

/// Wakes the driver of a line, and tells it from the next one.
pub(super) type DriverSignal = Arc<Notify>;

/// The local queues of one `Locks`.
pub(crate) struct LocalQueues {
    pub(super) requests: Arc<Requests>,
    pub(super) queueing: Queueing,
    pub(super) lines: Mutex<Lines>,
    pub(super) this: Weak<Self>,
}

/// The lines of all keys that are held or waited for.
#[derive(Default)]
pub(super) struct Lines {
    pub(super) of: HashMap<LockKey, Line>,
    /// The actions of one step at a time.
    actions: Vec<Action>,
}

/// The local queue of one key, and what its steps are performed on.
pub(super) struct Line {
    pub(super) queue: LocalQueue,
    /// The callers that wait for an answer, in the order in which they came.
    pub(super) callers: VecDeque<Caller>,
    pub(super) flight: Option<Flight>,
    pub(super) driver: Option<DriverSignal>,
}

/// The caller of one waiter.
pub(super) struct Caller {
    pub(super) waiter: HoldId,
    /// None while it polls the request in flight: there is no other way to its answer.
    pub(super) waker: Option<Waker>,
    /// Where it began to wait.
    pub(super) runtime: Option<runtime::Id>,
    pub(super) answer: Option<Result<Granted, Refusal>>,
}

/// What is done once the line is let go of, since it runs code of others, which may come back here.
#[derive(Default)]
pub(super) struct Effects {
    pub(super) wakers: Vec<Waker>,
    pub(super) signal: Option<DriverSignal>,
    /// Locks that were granted, and that their callers do not enter.
    pub(super) given_back: Vec<Granted>,
    releases: Vec<Ending>,
    check_subscription: bool,
    actions: Vec<Action>,
}

/// The end of a hold, on its way or to be begun.
enum Ending {
    Alone(Release),
    /// It names a successor, for which it is a request in flight.
    HandingOver(HoldId, Flight),
}

impl Ending {
    fn hold(&self) -> HoldId {
        match self {
            Self::Alone(release) => release.hold,
            Self::HandingOver(hold, _) => *hold,
        }
    }
}

impl LocalQueues {
    pub(crate) fn new(store: Arc<dyn Store>, queueing: Queueing) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            requests: Arc::new(Requests::new(store)),
            queueing,
            lines: Mutex::default(),
            this: Weak::clone(this),
        })
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        self.requests.store()
    }

    /// Ends a hold. Fails if the lock turns out to have been lost before, or if it could not be released
    /// at all and stands until its lease ends.
    ///
    /// Should this not be polled to its end, because its runtime ends, then no waiter of another one waits
    /// for it.
    pub(crate) fn release(
        &self,
        key: &LockKey,
        release: Release,
    ) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
        let mut effects = Effects::default();
        self.begin(key, &mut effects, |line, effects| {
            self.step(key, line, Input::Release(release), effects);
        });
        let mut releases = effects.releases.iter();
        let at = releases.position(|ending| ending.hold() == release.hold);
        let ending = at.map(|at| effects.releases.swap_remove(at));
        self.apply(key, effects, None);
        // Every release is performed.
        self.end(key, ending.unwrap_or(Ending::Alone(release)))
    }

    /// Takes a step in a line, if it is there.
    pub(super) fn input(&self, key: &LockKey, input: Input) {
        let mut effects = Effects::default();
        self.change(key, &mut effects, |line, effects| {
            self.step(key, line, input, effects);
        });
        self.apply(key, effects, None);
    }

    /// Works on a line, if it is there.
    pub(super) fn change<T>(
        &self,
        key: &LockKey,
        effects: &mut Effects,
        work: impl FnOnce(&mut Line, &mut Effects) -> T,
    ) -> Option<T> {
        let mut lines = self.lines.lock();
        let Lines { of, actions } = &mut *lines;
        let line = of.get_mut(key)?;
        mem::swap(actions, &mut effects.actions);
        let output = work(line, effects);
        mem::swap(actions, &mut effects.actions);
        if line.is_over() {
            of.remove(key);
        }
        Some(output)
    }

    /// Works on a line, which begins if it is not there.
    pub(super) fn begin<T>(
        &self,
        key: &LockKey,
        effects: &mut Effects,
        work: impl FnOnce(&mut Line, &mut Effects) -> T,
    ) -> T {
        let mut lines = self.lines.lock();
        let Lines { of, actions } = &mut *lines;
        let new = || Line {
            queue: LocalQueue::new(self.queueing),
            callers: VecDeque::new(),
            flight: None,
            driver: None,
        };
        let line = of.entry(key.clone()).or_insert_with(new);
        mem::swap(actions, &mut effects.actions);
        let output = work(line, effects);
        mem::swap(actions, &mut effects.actions);
        if line.is_over() {
            of.remove(key);
        }
        output
    }

    /// Takes a step in this line, and performs what it calls for.
    pub(super) fn step(&self, key: &LockKey, line: &mut Line, input: Input, effects: &mut Effects) {
        if matches!(input, Input::Answered(_)) {
            line.flight = None;
        }
        let due = line.queue.due();
        let mut actions = mem::take(&mut effects.actions);
        line.queue.step(input, Instant::now(), &mut actions);
        for action in actions.drain(..) {
            self.perform(key, line, action, effects);
        }
        effects.actions = actions;
        if !line.queue.is_active() {
            // The driver's work ends here.
            effects.signal = line.driver.take().or(effects.signal.take());
        } else if let Some(next) = line.queue.due()
            && due.is_none_or(|due| next < due)
        {
            effects.signal = line.driver.clone();
        }
    }

    fn perform(&self, key: &LockKey, line: &mut Line, action: Action, effects: &mut Effects) {
        match action {
            Action::Acquire(request) => {
                line.flight = Some(self.acquiring(key, request));
                effects.signal = line.driver.clone();
            }
            Action::Release(release, None) => {
                effects.releases.push(Ending::Alone(release));
            }
            Action::Release(release, Some(successor)) => {
                let flight = self.handing_over(key, release, successor);
                line.flight = Some(flight.clone());
                let ending = Ending::HandingOver(release.hold, flight);
                effects.releases.push(ending);
            }
            Action::Grant(waiter, grant) => {
                line.answer(waiter, Ok(Granted::Lock(grant)), effects);
            }
            Action::Refuse(waiter, refusal) => {
                line.answer(waiter, Err(refusal), effects);
            }
            Action::PassOver(waiter) => {
                let answer = line.answer(waiter, Err(Refusal::PassedOver), effects);
                effects.given_back.extend(answer.and_then(Result::ok));
            }
            Action::CheckSubscription => effects.check_subscription = true,
        }
    }

    /// Does what is to be done once the line is let go of. Releases that no caller waits for run on the
    /// present runtime, or on this one.
    pub(super) fn apply(&self, key: &LockKey, effects: Effects, runtime: Option<&Handle>) {
        effects.wakers.into_iter().for_each(Waker::wake);
        effects.signal.iter().for_each(|signal| signal.notify_one());
        if effects.check_subscription {
            self.store().check_subscription();
        }
        if effects.given_back.is_empty() && effects.releases.is_empty() {
            return;
        }
        let present = Handle::try_current().ok();
        let runtime = present.as_ref().or(runtime);
        for granted in effects.given_back {
            let release = granted.release();
            events::acquire_undone(key, release.hold);
            let releasing = self.release(key, release);
            drop(runtime.map(|runtime| Handover::new(runtime, releasing)));
        }
        for ending in effects.releases {
            events::acquire_undone(key, ending.hold());
            let releasing = self.end(key, ending);
            drop(runtime.map(|runtime| Handover::new(runtime, releasing)));
        }
    }

    // ---- requests ----

    fn acquiring(&self, key: &LockKey, request: AcquireRequest) -> Flight {
        let (requests, queues, key) = (Arc::clone(&self.requests), self.this.clone(), key.clone());
        let acquiring = async move {
            let answer = requests.acquire(&key, request).await;
            if let Some(queues) = queues.upgrade() {
                queues.input(&key, Input::Answered(answer));
            }
            Ok(())
        };
        acquiring.boxed().shared()
    }

    /// A release that names a successor, for which it is a request in flight.
    fn handing_over(&self, key: &LockKey, release: Release, successor: Successor) -> Flight {
        let (requests, queues, key) = (Arc::clone(&self.requests), self.this.clone(), key.clone());
        let releasing = async move {
            let (ended, answer) = requests.release(&key, release, Some(successor)).await;
            if let Some(queues) = queues.upgrade() {
                queues.input(&key, Input::Answered(answer));
            }
            ended
        };
        releasing.boxed().shared()
    }

    /// Brings a release to its end. Should this be dropped before, then the driver goes on with a release that is
    /// a request in flight.
    fn end(
        &self,
        key: &LockKey,
        ending: Ending,
    ) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
        let mut orphan = Orphan {
            queues: Some(self.this.clone()),
            key: key.clone(),
        };
        let requests = Arc::clone(&self.requests);
        async move {
            match ending {
                Ending::HandingOver(_, flight) => {
                    let ended = flight.await;
                    drop(orphan.ended());
                    ended
                }
                Ending::Alone(release) => {
                    let (ended, _) = requests.release(&orphan.key, release, None).await;
                    if let Some(queues) = orphan.ended() {
                        queues.input(&orphan.key, Input::MaybeFree);
                    }
                    ended
                }
            }
        }
    }
}

impl Line {
    fn is_over(&self) -> bool {
        self.queue.is_over() && self.callers.is_empty()
    }

    /// Answers a caller. Returns what it was answered before, and has not come for.
    fn answer(
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

/// A release that may be left without a task that polls it.
struct Orphan {
    queues: Option<Weak<LocalQueues>>,
    key: LockKey,
}

impl Orphan {
    /// It has come to its end.
    fn ended(&mut self) -> Option<Arc<LocalQueues>> {
        self.queues.take()?.upgrade()
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        if let Some(queues) = self.queues.as_ref().and_then(Weak::upgrade) {
            let mut effects = Effects::default();
            queues.change(&self.key, &mut effects, |line, effects| {
                effects.signal = line.driver.clone();
            });
            queues.apply(&self.key, effects, None);
        }
    }
}

impl fmt::Debug for LocalQueues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalQueues")
            .field("requests", &self.requests)
            .field("queueing", &self.queueing)
            .finish_non_exhaustive()
    }
}

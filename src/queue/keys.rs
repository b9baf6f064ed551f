//! The local queues of all keys: one map, one place that takes steps in it, and one that performs what
//! they call for.

use std::{
    fmt, mem,
    sync::{Arc, Weak},
    task::Waker,
};

use futures_util::FutureExt;
use tokio::{runtime::Handle, time::Instant};

use super::{
    cohort::Granted,
    lines::{Effects, Ending, Flight, Line, Lines},
    request::Requests,
    step::{Action, Answer, Input, Refusal, Release, Reply, unanswered},
};
use crate::{
    base::{
        error::{Failure, StoreError},
        events,
        id::HoldId,
        key::LockKey,
        mutex::Mutex,
        options::Queueing,
    },
    store::{AcquireRequest, Store, Successor},
};

/// The local queues of one `Locks`.
pub(crate) struct LocalQueues {
    pub(super) requests: Arc<Requests>,
    pub(super) queueing: Queueing,
    pub(super) lines: Mutex<Lines>,
    pub(super) this: Weak<Self>,
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
    /// The release is sent when this is polled first: then it names the first waiter, who has no need to ask
    /// until then. Should this be dropped before its end, since its runtime ends, then no waiter of another
    /// one waits for it.
    pub(crate) fn release(
        self: &Arc<Self>,
        key: &LockKey,
        release: Release,
    ) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
        let mut releasing = Releasing::new(self, key, release.hold);
        async move {
            let mut effects = Effects::default();
            let Releasing { queues, key, .. } = &releasing;
            queues.begin(key, &mut effects, |line, effects| {
                queues.step(key, line, Input::Release(release), effects);
            });
            // Every step with a release calls for it.
            let ending = effects.ending.take().unwrap_or(Ending::Alone(release));
            queues.apply(key, effects, None);
            releasing.end(ending).await
        }
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
        let line = of.entry(key.clone());
        let line = line.or_insert_with(|| Box::new(Line::new(self.queueing)));
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
        let mut actions = mem::take(&mut effects.actions);
        line.queue.step(input, Instant::now(), &mut actions);
        for action in actions.drain(..) {
            self.perform(key, line, action, effects);
        }
        effects.actions = actions;
        if !line.queue.is_active() {
            // The driver's work ends here.
            effects.signal = line.driver.take().map(|driver| driver.signal);
        } else if let Some(driver) = &line.driver
            && let Some(due) = line.queue.due()
            && driver.sleeps_until.is_none_or(|until| due < until)
        {
            effects.signal = Some(Arc::clone(&driver.signal));
        }
    }

    fn perform(&self, key: &LockKey, line: &mut Line, action: Action, effects: &mut Effects) {
        match action {
            Action::Acquire(request) => {
                line.flight = Some(self.acquiring(key, request));
                let driver = line.driver.as_ref();
                effects.signal = driver.map(|driver| Arc::clone(&driver.signal));
            }
            Action::Release(release, successor) => {
                effects.ending = Some(self.ending(key, line, release, successor));
            }
            Action::Undo(release, successor) => {
                let ending = self.ending(key, line, release, successor);
                effects.undoing.push(ending);
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
        if effects.given_back.is_empty() && effects.undoing.is_empty() {
            return;
        }
        let present = Handle::try_current().ok();
        let (Some(queues), Some(runtime)) = (self.this.upgrade(), present.as_ref().or(runtime))
        else {
            return;
        };
        for granted in effects.given_back {
            let release = granted.release();
            events::acquire_undone(key, release.hold);
            drop(runtime.spawn(queues.release(key, release)));
        }
        for ending in effects.undoing {
            let hold = ending.hold();
            events::acquire_undone(key, hold);
            let mut releasing = Releasing::new(&queues, key, hold);
            drop(runtime.spawn(async move { releasing.end(ending).await }));
        }
    }

    /// A task that polled the request in flight has gone: the driver goes on with it. Without a driver, and if no
    /// other task polls it, it is given up.
    pub(super) fn desert(&self, key: &LockKey) {
        let mut effects = Effects::default();
        let deserted = self.change(key, &mut effects, |line, effects| match &line.driver {
            Some(driver) => {
                effects.signal = Some(Arc::clone(&driver.signal));
                None
            }
            None => line
                .flight
                .take_if(|flight| flight.strong_count() == Some(1)),
        });
        self.apply(key, effects, None);
        // That it has no answer is an input of the line.
        drop(deserted);
    }

    // ---- requests ----

    fn acquiring(&self, key: &LockKey, request: AcquireRequest) -> Flight {
        let requests = Arc::clone(&self.requests);
        let report = self.report(key, Reply::Unanswered);
        let acquiring = async move {
            let answer = requests.acquire(&report.key, request).await;
            report.read(answer);
            Ok(())
        };
        acquiring.boxed().shared()
    }

    /// The end of a hold. With a successor it is the request in flight from now on.
    fn ending(
        &self,
        key: &LockKey,
        line: &mut Line,
        release: Release,
        successor: Option<Successor>,
    ) -> Ending {
        if successor.is_none() {
            return Ending::Alone(release);
        }
        let requests = Arc::clone(&self.requests);
        let report = self.report(key, |error| Reply::Unsure(Some(error)));
        let releasing = async move {
            let (ended, answer) = requests.release(&report.key, release, successor).await;
            report.read(answer);
            ended
        };
        let flight = releasing.boxed().shared();
        line.flight = Some(flight.clone());
        Ending::HandingOver(release.hold, flight)
    }

    fn report(&self, key: &LockKey, unread: fn(StoreError) -> Reply) -> Report {
        Report {
            queues: Weak::clone(&self.this),
            key: key.clone(),
            unread: Some(unread),
        }
    }
}

/// Brings the answer to a request in flight to its line; that there is none, if the request panics or is given
/// up.
struct Report {
    queues: Weak<LocalQueues>,
    key: LockKey,
    unread: Option<fn(StoreError) -> Reply>,
}

impl Report {
    fn read(mut self, answer: Answer) {
        self.unread = None;
        if let Some(queues) = self.queues.upgrade() {
            queues.input(&self.key, Input::Answered(answer));
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if let (Some(unread), Some(queues)) = (self.unread, self.queues.upgrade()) {
            let epoch = queues.store().connection_epoch();
            let answer = Answer {
                sent: Instant::now(),
                sent_epoch: epoch,
                epoch,
                reply: unread(unanswered("the request was given up")),
            };
            queues.input(&self.key, Input::Answered(answer));
        }
    }
}

/// The release of a hold, for the task that polls it.
struct Releasing {
    queues: Arc<LocalQueues>,
    key: LockKey,
    hold: HoldId,
    flight: Option<Flight>,
    has_ended: bool,
}

impl Releasing {
    fn new(queues: &Arc<LocalQueues>, key: &LockKey, hold: HoldId) -> Self {
        Self {
            queues: Arc::clone(queues),
            key: key.clone(),
            hold,
            flight: None,
            has_ended: false,
        }
    }

    async fn end(&mut self, ending: Ending) -> Result<(), Failure> {
        let Self { queues, key, .. } = &*self;
        let ended = match ending {
            Ending::Alone(release) => {
                let (ended, _) = queues.requests.release(key, release, None).await;
                queues.input(key, Input::MaybeFree);
                ended
            }
            Ending::HandingOver(_, flight) => self.flight.insert(flight).await,
        };
        self.has_ended = true;
        ended
    }
}

impl Drop for Releasing {
    fn drop(&mut self) {
        if !self.has_ended {
            self.flight = None;
            // It is not by this that the first waiter will get the lock.
            self.queues.input(&self.key, Input::Lost(self.hold));
            self.queues.desert(&self.key);
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

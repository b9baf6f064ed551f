//! The local queues of all keys: one map, one place that takes steps in it, and one that performs their effects.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::{fmt, mem};

use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::contention::Watched;
use super::effects::Effects;
use super::grant::Grant;
use super::lines::{Alone, Line, Lines, Slot};
use super::request::{Acquiring, Flight, Requests};
use super::step::{Action, Answer, Input, Refusal, Reply, unanswered};
use crate::base::activity::Activity;
use crate::base::key::LockKey;
use crate::base::options::Queueing;
use crate::base::sync::Mutex;
use crate::base::{background, events};
use crate::store::Store;

/// The local queues of one `Locks`.
pub(crate) struct LocalQueues {
    pub(super) requests: Arc<Requests>,
    pub(super) queueing: Queueing,
    pub(super) lines: Mutex<Lines>,
    pub(super) watched: Watched,
    activity: Activity,
    pub(super) this: Weak<Self>,
}

impl LocalQueues {
    pub(crate) fn new(store: Arc<Store>, queueing: Queueing) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            requests: Arc::new(Requests::new(store)),
            queueing,
            lines: Mutex::new(Lines::new(queueing)),
            watched: Watched::default(),
            activity: Activity::default(),
            this: Weak::clone(this),
        })
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        self.requests.store()
    }

    pub(crate) fn activity(&self) -> &Activity {
        &self.activity
    }

    /// Takes a step for a key that is held or waited for.
    pub(super) fn input(&self, key: &LockKey, input: Input) {
        let mut effects = Effects::default();
        let mut lines = self.lines.lock();
        match lines.of.get_mut(key) {
            None => return,
            Some(Slot::Alone(Alone::Held {
                hold, is_contended, ..
            })) => {
                match input {
                    Input::Lost(lost) | Input::Released(lost) if lost == *hold => {
                        let slot = lines.of.remove(key);
                        drop(lines);
                        slot.into_iter().flat_map(Slot::tries).for_each(Waker::wake);
                    }
                    Input::Contended => *is_contended = true,
                    // Nothing else affects a hold whose lock no other caller wants.
                    _ => {}
                }
                return;
            }
            Some(Slot::Alone(Alone::Releasing { .. })) => return,
            Some(_) => self.work(key, &mut lines, &mut effects, |line, effects| {
                self.step(key, line, input, effects);
            }),
        };
        drop(lines);
        self.apply(key, effects, None);
        self.note_wanted(key);
    }

    /// Works on a local queue, if there is one.
    pub(super) fn change<T>(
        &self,
        key: &LockKey,
        effects: &mut Effects,
        work: impl FnOnce(&mut Line, &mut Effects) -> T,
    ) -> Option<T> {
        self.lines.lock().change(key, effects, work)
    }

    /// Works on a local queue, and creates it if there is none.
    pub(super) fn begin<T>(
        &self,
        key: &LockKey,
        effects: &mut Effects,
        work: impl FnOnce(&mut Line, &mut Effects) -> T,
    ) -> T {
        self.work(key, &mut self.lines.lock(), effects, work)
    }

    pub(super) fn work<T>(
        &self,
        key: &LockKey,
        lines: &mut Lines,
        effects: &mut Effects,
        work: impl FnOnce(&mut Line, &mut Effects) -> T,
    ) -> T {
        let resume = |acquiring| self.resumed(key, acquiring);
        lines.work(key, effects, resume, work)
    }

    /// Takes a step in this local queue, and executes its actions.
    pub(super) fn step(&self, key: &LockKey, line: &mut Line, input: Input, effects: &mut Effects) {
        if let Input::Answered(answer) = &input {
            line.flight = None;
            if answer.reply.is_of_store() {
                line.answered = Some(Instant::now());
            }
        }
        let mut actions = mem::take(&mut effects.actions);
        let now = Instant::now();
        let step = AssertUnwindSafe(|| line.queue.step(input, now, &mut actions));
        if catch_unwind(step).is_err() {
            // A bug must not make the key unusable: its callers fail, and the next one finds a new queue.
            actions.clear();
            line.queue
                .begin_anew(line.flight.is_some(), now, &mut actions);
            for waiter in line.callers.waiting() {
                let failed = Refusal::Failed(unanswered("a step of the local queue has panicked"));
                line.answer(waiter, Err(failed), effects);
            }
        }
        for action in actions.drain(..) {
            self.perform(key, line, action, effects);
        }
        effects.actions = actions;
        if !line.queue.is_active() {
            // The driver's work ends here.
            effects.signal = line.driver.take().map(|driver| driver.signal);
            effects.looking = line.looking.take();
        } else if let Some(driver) = &line.driver
            && let Some(due) = line.due()
            && driver.sleeps_until.is_none_or(|until| due < until)
        {
            effects.signal = Some(Arc::clone(&driver.signal));
        }
    }

    fn perform(&self, key: &LockKey, line: &mut Line, action: Action, effects: &mut Effects) {
        match action {
            Action::Ask(ask) => {
                let asking = self.flight(key, move |requests, key| requests.ask(key, ask));
                line.flight = Some(asking);
                effects.signal = line.signal();
            }
            Action::Undo(release) => effects.undoing.push(release),
            Action::Grant(waiter, grant) => {
                line.answer(waiter, Ok(grant), effects);
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

    /// Executes the effects after the mutex is released. Releases that no caller waits for run on the current runtime,
    /// or otherwise on `runtime`.
    pub(super) fn apply(&self, key: &LockKey, effects: Effects, runtime: Option<&Handle>) {
        effects.wakers.into_iter().for_each(Waker::wake);
        effects.signal.iter().for_each(|signal| signal.notify_one());
        effects
            .reports
            .into_iter()
            .for_each(|report| report.tell(key));
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
            background::spawn(runtime, queues.release(key, release));
        }
        for release in effects.undoing {
            events::acquire_undone(key, release.hold);
            background::spawn(runtime, queues.finish(key, release));
        }
    }

    /// Releases a lock that was granted and is not entered.
    pub(super) fn give_back(&self, key: &LockKey, granted: Grant, runtime: Option<&Handle>) {
        let given_back = vec![granted];
        let effects = Effects {
            given_back,
            ..Effects::default()
        };
        self.apply(key, effects, runtime);
    }

    /// Notes that a task which polled the request in flight has gone. The driver continues with the request. Without a
    /// driver, and if no other task polls it, the request is given up.
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
        // Dropping it informs the local queue that there is no answer.
        drop(deserted);
    }

    // ---- requests ----

    /// Turns an acquire that its caller has polled itself until now into a request in flight.
    pub(super) fn resumed(&self, key: &LockKey, acquiring: Acquiring) -> Flight {
        self.flight(key, move |_, _| acquiring)
    }

    /// The request in flight that sends an acquire. It is sent at the first poll.
    fn flight(
        &self,
        key: &LockKey,
        acquire: impl FnOnce(&Requests, &LockKey) -> Acquiring + Send + 'static,
    ) -> Flight {
        let requests = Arc::clone(&self.requests);
        let report = self.report(key);
        let acquiring = async move {
            let acquiring = acquire(&requests, &report.key);
            let answer = requests.acquired(&report.key, acquiring).await;
            report.read(answer);
        };
        acquiring.boxed().shared()
    }

    /// The answer to a request in flight that has no answer, and will get none.
    pub(super) fn no_answer(&self, key: &LockKey) -> Answer {
        let epoch = self.store().connection_epoch(key);
        Answer {
            sent: Instant::now(),
            sent_epoch: epoch,
            epoch,
            reply: Reply::Unanswered(unanswered("the request was given up")),
        }
    }

    fn report(&self, key: &LockKey) -> AnswerReport {
        AnswerReport {
            queues: Weak::clone(&self.this),
            key: key.clone(),
            is_read: false,
        }
    }
}

/// Passes the answer to the local queue of a request in flight. If the request panics or is given up, it reports that
/// there is none.
struct AnswerReport {
    queues: Weak<LocalQueues>,
    key: LockKey,
    is_read: bool,
}

impl AnswerReport {
    fn read(mut self, answer: Answer) {
        self.is_read = true;
        if let Some(queues) = self.queues.upgrade() {
            queues.input(&self.key, Input::Answered(answer));
        }
    }
}

impl Drop for AnswerReport {
    fn drop(&mut self) {
        if !self.is_read
            && let Some(queues) = self.queues.upgrade()
        {
            let answer = queues.no_answer(&self.key);
            queues.input(&self.key, Input::Answered(answer));
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

//! The local queues of all keys: one map, one place that takes steps in it, and one that performs their effects.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::{fmt, mem};

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::contention::Watched;
use super::grant::Grant;
use super::line::Effects;
use super::line::{Line, NextRequest};
use super::lines::{Alone, Lines, Slot};
use super::request::Requests;
use super::step::{Action, Answer, Input, Refusal, Reply, unanswered};
use crate::base::in_flight::InFlightCount;
use crate::base::key::LockKey;
use crate::base::options::QueueOptions;
use crate::base::sync::Mutex;
use crate::base::{background, events};
use crate::store::Store;

/// The local queues of one `Locks`.
pub(crate) struct LocalQueues {
    pub(super) requests: Arc<Requests>,
    pub(super) queueing: QueueOptions,
    pub(super) lines: Mutex<Lines>,
    pub(super) watched: Watched,
    in_flight: InFlightCount,
    pub(super) this: Weak<Self>,
}

impl LocalQueues {
    pub(crate) fn new(store: Arc<Store>, queueing: QueueOptions) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            requests: Arc::new(Requests::new(store)),
            queueing,
            lines: Mutex::new(Lines::new(queueing)),
            watched: Watched::default(),
            in_flight: InFlightCount::default(),
            this: Weak::clone(this),
        })
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        self.requests.store()
    }

    pub(crate) fn in_flight(&self) -> &InFlightCount {
        &self.in_flight
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
            Some(_) => lines.work(key, &mut effects, |line, effects| {
                self.step(line, input, effects);
            }),
        };
        drop(lines);
        self.apply(key, effects, None);
        self.note_wanted(key);
    }

    /// Works on a local queue, if there is one. Background work runs on the current runtime, or otherwise on `runtime`.
    pub(super) fn on_line<T>(
        &self,
        key: &LockKey,
        runtime: Option<&Handle>,
        work: impl FnOnce(&mut Line, &mut Effects) -> T,
    ) -> Option<T> {
        let mut effects = Effects::default();
        let output = self.lines.lock().change(key, &mut effects, work);
        self.apply(key, effects, runtime);
        output
    }

    /// Works on a local queue, and creates it if there is none.
    pub(super) fn in_line<T>(
        &self,
        key: &LockKey,
        runtime: &Handle,
        work: impl FnOnce(&mut Line, &mut Effects) -> T,
    ) -> T {
        let mut effects = Effects::default();
        let output = self.lines.lock().work(key, &mut effects, work);
        self.apply(key, effects, Some(runtime));
        output
    }

    /// Takes a step in this local queue, and executes its actions.
    pub(super) fn step(&self, line: &mut Line, input: Input, effects: &mut Effects) {
        if let Input::Answered(answer) = &input {
            line.is_asking = false;
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
            line.queue.begin_anew(line.is_asking, now, &mut actions);
            for waiter in line.callers.waiting() {
                let failed = Refusal::Failed(unanswered("a step of the local queue has panicked"));
                line.answer(waiter, Err(failed), effects);
            }
        }
        for action in actions.drain(..) {
            perform(line, action, effects);
        }
        effects.actions = actions;
    }

    /// Executes the effects after the mutex is released. Drivers, and releases that no caller waits for, run on the
    /// current runtime, or otherwise on `runtime`.
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
        let is_idle = effects.given_back.is_empty() && effects.undoing.is_empty();
        if is_idle && effects.driver.is_none() {
            return;
        }
        let present = Handle::try_current().ok();
        let (Some(queues), Some(runtime)) = (self.this.upgrade(), present.as_ref().or(runtime))
        else {
            let mut lines = self.lines.lock();
            if let Some(line) = lines.line(key).filter(|_| effects.driver.is_some()) {
                // The next caller that is polled starts one.
                line.driver = None;
            }
            return;
        };
        if let Some(signal) = effects.driver {
            queues.start_driver(key, signal, runtime);
        }
        for granted in effects.given_back {
            let release = granted.release();
            events::acquire_undone(key, release.hold);
            background::spawn(runtime, queues.release(key, release, None));
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

    /// The answer to a request in flight that has no answer, and will get none.
    pub(super) fn no_answer(&self, key: &LockKey) -> Answer {
        let epoch = self.store().generation_of(key);
        Answer {
            sent: Instant::now(),
            sent_epoch: epoch,
            epoch,
            reply: Reply::Unanswered(unanswered("the request was given up")),
        }
    }
}

fn perform(line: &mut Line, action: Action, effects: &mut Effects) {
    match action {
        Action::Ask(ask) => {
            line.is_asking = true;
            line.request = Some(NextRequest::New(ask));
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

impl fmt::Debug for LocalQueues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalQueues")
            .field("requests", &self.requests)
            .field("queueing", &self.queueing)
            .finish_non_exhaustive()
    }
}

//! A caller's future while it waits for a lock.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::alone::{Entering, Progress};
use super::callers::Caller;
use super::driver;
use super::effects::Effects;
use super::grant::Grant;
use super::holder_lookup::{InTheWay, Patience};
use super::lines::LoneCaller;
use super::local_queues::LocalQueues;
use super::request::Flight;
use super::step::{Input, Refusal, Wish};
use super::waiter::Waiter;
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::options::Queueing;
use crate::base::timer::require_timers;

/// Waits for a lock in the local queue. Dropping it leaves the queue, and undoes whatever the store may have granted by
/// then.
pub(super) struct Wait<'q> {
    queues: &'q Arc<LocalQueues>,
    key: &'q LockKey,
    wish: Wish,
    stage: WaitStage,
    /// The runtime for the work that outlives the caller.
    runtime: &'q Handle,
    /// The instant since which the caller waits, and its limit; `None` if it makes only one attempt.
    span: Option<(Instant, Option<Instant>)>,
    /// The holder at the last lookup of the caller, if the caller has left the local queue since.
    seen: Option<Box<InTheWay>>,
}

enum WaitStage {
    New,
    /// The caller is alone, as far as it knows.
    Alone,
    /// The caller is in a local queue, with the request that was made for it when it joined. A driver polls the later
    /// ones.
    Joined(Option<Flight>),
    Answered,
}

impl<'q> Wait<'q> {
    pub(super) fn new(
        queues: &'q Arc<LocalQueues>,
        key: &'q LockKey,
        wish: Wish,
        runtime: &'q Handle,
        span: Option<(Instant, Option<Instant>)>,
    ) -> Self {
        Self {
            queues,
            key,
            wish,
            stage: WaitStage::New,
            runtime,
            span,
            seen: None,
        }
    }

    /// The wait of a caller that has entered a vacant local queue, where its request is kept.
    pub(super) fn alone(
        queues: &'q Arc<LocalQueues>,
        key: &'q LockKey,
        wish: Wish,
        runtime: &'q Handle,
    ) -> Self {
        let mut wait = Self::new(queues, key, wish, runtime, None);
        wait.stage = WaitStage::Alone;
        wait
    }

    fn hold(&self) -> HoldId {
        self.wish.request.hold
    }

    /// Returns whether the caller polls its own request.
    pub(super) fn is_alone(&self) -> bool {
        matches!(self.stage, WaitStage::Alone)
    }

    fn patience(&self) -> Option<Patience> {
        let (since, limit) = self.span?;
        let report_after = Queueing::reports_after(self.wish.request.ttl);
        Some(Patience::new(since, limit, report_after))
    }

    /// Passes the caller's patience to the local queue that was created.
    fn be_patient(&self) {
        let Some(patience) = self.patience() else {
            return;
        };
        let mut effects = Effects::default();
        self.queues.change(self.key, &mut effects, |line, effects| {
            line.callers.be_patient(self.hold(), patience);
            effects.signal = line.signal();
        });
        self.queues.apply(self.key, effects, None);
    }

    /// Takes the holder that the caller saw at its last lookup.
    pub(super) fn take_seen(&mut self) -> Option<Box<InTheWay>> {
        let mut lines = self.queues.lines.lock();
        let line = lines.line(self.key);
        let caller = line.and_then(|line| line.callers.get(self.hold()));
        let seen = caller.and_then(|caller| caller.patience.as_mut()?.take_seen());
        seen.or_else(|| self.seen.take())
    }

    /// Continues without a local queue, as long as no other caller has joined.
    fn poll_alone(&mut self, cx: &mut Context<'_>) -> Progress {
        let progress = match self.stage {
            WaitStage::New => match self.enter_alone(cx.waker()) {
                Entering::Alone => {
                    self.stage = WaitStage::Alone;
                    self.queues.ask_alone(self.key, self.wish, cx)
                }
                Entering::AfterRelease => return Progress::Pending,
                Entering::Occupied => return Progress::InLine,
            },
            WaitStage::Alone => self.queues.poll_alone(self.key, self.hold(), cx),
            WaitStage::Joined(_) | WaitStage::Answered => return Progress::InLine,
        };
        match progress {
            Progress::Pending => {}
            Progress::Granted(_) => self.stage = WaitStage::Answered,
            Progress::InLine => {
                self.stage = WaitStage::Joined(None);
                self.be_patient();
            }
        }
        progress
    }

    /// Enters a local queue that is vacant.
    fn enter_alone(&self, waker: &Waker) -> Entering {
        let asking = LoneCaller {
            waiter: Waiter::new(self.wish),
            runtime: self.runtime.id(),
            acquiring: None,
            waker: None,
        };
        self.queues.enter_alone(self.key, asking, waker)
    }

    /// Joins the local queue. Returns the request that is made for the caller immediately, and whether the caller is
    /// already answered. Otherwise the answer wakes the caller.
    fn join(&self, waker: &Waker) -> (Option<Flight>, bool) {
        let wish = self.wish;
        let mut waker = Some(waker.clone());
        let caller = Caller {
            waker: None,
            runtime: Some(self.runtime.id()),
            answer: None,
            patience: self.patience(),
        };
        let mut effects = Effects::default();
        let joined = self.queues.begin(self.key, &mut effects, |line, effects| {
            line.callers.join(self.hold(), caller);
            let was_asked = line.flight.is_some();
            self.queues.step(self.key, line, Input::Join(wish), effects);
            let flight = line.flight.clone().filter(|_| !was_asked);
            let caller = line.callers.get(self.hold());
            let caller = caller.filter(|_| flight.is_none());
            let is_answered = caller.is_some_and(|caller| {
                caller.waker = waker.take();
                caller.answer.is_some()
            });
            (flight, is_answered)
        });
        self.queues.apply(self.key, effects, None);
        self.queues.note_wanted(self.key);
        joined
    }

    /// Takes the answer, if there is one.
    fn take_answer(&mut self) -> Option<Result<Grant, Refusal>> {
        let waiter = self.hold();
        let mut effects = Effects::default();
        let answered = self.queues.change(self.key, &mut effects, |line, effects| {
            line.callers.get(waiter)?.answer.as_ref()?;
            let caller = line.callers.remove(waiter)?;
            if let Some(Ok(Grant { hold, .. })) = caller.answer {
                let entered = Input::Entered { waiter, hold };
                self.queues.step(self.key, line, entered, effects);
            }
            Some(caller)
        });
        self.queues.apply(self.key, effects, None);
        let mut caller = answered.flatten()?;
        self.seen = caller.patience.as_mut().and_then(Patience::take_seen);
        caller.answer
    }

    /// Registers the caller to be woken by the answer. Returns whether the answer has already arrived.
    fn await_answer(&self, waker: &Waker) -> bool {
        // A waker is cloned and dropped outside the mutex, because it may run foreign code.
        let mut waker = Some(waker.clone());
        let runtime = Handle::try_current().ok().map(|runtime| runtime.id());
        let mut lines = self.queues.lines.lock();
        let line = lines.line(self.key);
        let Some(caller) = line.and_then(|line| line.callers.get(self.hold())) else {
            return false;
        };
        mem::swap(&mut caller.waker, &mut waker);
        caller.runtime = runtime;
        caller.answer.is_some()
    }

    /// Starts a driver, unless the local queue has one.
    fn rely_on_driver(&self) {
        if Handle::try_current().is_ok() {
            require_timers();
        }
        driver::start(self.queues, self.key, Some(self.runtime));
    }

    fn leave(&self) {
        let waiter = self.hold();
        let mut effects = Effects::default();
        let left = self.queues.begin(self.key, &mut effects, |line, effects| {
            let mut caller = line.callers.remove(waiter);
            let answer = caller.as_mut().and_then(|caller| caller.answer.take());
            effects.given_back.extend(answer.and_then(Result::ok));
            self.queues
                .step(self.key, line, Input::Leave(waiter), effects);
            caller
        });
        self.queues.apply(self.key, effects, Some(self.runtime));
        drop(left);
        // The request in flight must still be answered.
        driver::start(self.queues, self.key, Some(self.runtime));
    }

    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Result<Grant, Refusal>> {
        match self.poll_alone(cx) {
            Progress::Pending => return Poll::Pending,
            Progress::Granted(grant) => return Poll::Ready(Ok(grant)),
            Progress::InLine => {}
        }
        if matches!(self.stage, WaitStage::New) {
            let (flight, is_answered) = self.join(cx.waker());
            let has_to_wait = flight.is_none() && !is_answered;
            self.stage = WaitStage::Joined(flight);
            if has_to_wait {
                self.rely_on_driver();
                return Poll::Pending;
            }
        }
        let WaitStage::Joined(flight) = &mut self.stage else {
            return Poll::Pending;
        };
        if let Some(asking) = flight {
            // The request brings the only answer that there can be.
            ready!(Pin::new(asking).poll(cx));
            *flight = None;
        }
        let mut answer = self.take_answer();
        if answer.is_none() && self.await_answer(cx.waker()) {
            answer = self.take_answer();
        }
        let Some(answer) = answer else {
            self.rely_on_driver();
            return Poll::Pending;
        };
        self.stage = WaitStage::Answered;
        Poll::Ready(answer)
    }
}

impl Future for Wait<'_> {
    type Output = Result<Grant, Refusal>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = self.poll_answer(cx);
        // This is checked after the caller is registered, because closing wakes the callers that are registered.
        if polled.is_pending() && self.queues.activity().is_closed() {
            return Poll::Ready(Err(Refusal::Closed));
        }
        polled
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if matches!(self.stage, WaitStage::Alone | WaitStage::Joined(_)) {
            let _leaving = self.queues.activity().during();
            self.stage = WaitStage::Answered;
            self.leave();
        }
    }
}

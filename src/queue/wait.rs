//! A caller's future while it waits for a lock.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::alone::{Entering, Progress};
use super::callers::Caller;
use super::grant::Grant;
use super::holder_lookup::{InTheWay, Patience};
use super::line::Effects;
use super::line::Line;
use super::lines::LoneCaller;
use super::local_queues::LocalQueues;
use super::step::{Input, Refusal, Wish};
use super::waiter::Waiter;
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::options::QueueOptions;
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
    /// The caller is in a local queue, whose driver sends the requests.
    Joined,
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
        let report_after = QueueOptions::reports_after(self.wish.request.ttl);
        Some(Patience::new(since, limit, report_after))
    }

    /// Passes the caller's patience to the local queue that was created.
    fn be_patient(&self) {
        let Some(patience) = self.patience() else {
            return;
        };
        self.queues
            .on_line(self.key, Some(self.runtime), |line, _| {
                line.callers.be_patient(self.hold(), patience);
            });
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
            WaitStage::Joined | WaitStage::Answered => return Progress::InLine,
        };
        match progress {
            Progress::Pending => {}
            Progress::Granted(_) => self.stage = WaitStage::Answered,
            Progress::InLine => {
                self.stage = WaitStage::Joined;
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

    /// Joins the local queue.
    fn join(&self) {
        let caller = Caller {
            waker: None,
            runtime: Some(self.runtime.id()),
            answer: None,
            patience: self.patience(),
        };
        self.queues
            .in_line(self.key, self.runtime, |line, effects| {
                line.callers.join(self.hold(), caller);
                self.queues.step(line, Input::Join(self.wish), effects);
            });
        self.queues.note_wanted(self.key);
    }

    /// Takes the answer, or registers the caller to be woken by it.
    fn take_answer(&mut self, waker: &Waker) -> Option<Result<Grant, Refusal>> {
        let waiter = self.hold();
        // A waker is cloned and dropped outside the mutex, because it may run foreign code.
        let mut waker = Some(waker.clone());
        let runtime = Handle::try_current().ok().map(|runtime| runtime.id());
        let work = |line: &mut Line, effects: &mut Effects| {
            let caller = line.callers.get(waiter)?;
            if caller.answer.is_none() {
                mem::swap(&mut caller.waker, &mut waker);
                caller.runtime = runtime;
                return None;
            }
            let caller = line.callers.remove(waiter)?;
            if let Some(Ok(Grant { hold, .. })) = caller.answer {
                let entered = Input::Entered { waiter, hold };
                self.queues.step(line, entered, effects);
            }
            Some(caller)
        };
        let answered = self.queues.on_line(self.key, Some(self.runtime), work);
        let mut caller = answered.flatten()?;
        self.seen = caller.patience.as_mut().and_then(Patience::take_seen);
        caller.answer
    }

    fn leave(&self) {
        let waiter = self.hold();
        let left = self
            .queues
            .in_line(self.key, self.runtime, |line, effects| {
                let mut caller = line.callers.remove(waiter);
                let answer = caller.as_mut().and_then(|caller| caller.answer.take());
                effects.given_back.extend(answer.and_then(Result::ok));
                self.queues.step(line, Input::Leave(waiter), effects);
                caller
            });
        drop(left);
    }

    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Result<Grant, Refusal>> {
        match self.poll_alone(cx) {
            Progress::Pending => return Poll::Pending,
            Progress::Granted(grant) => return Poll::Ready(Ok(grant)),
            Progress::InLine => {}
        }
        if Handle::try_current().is_ok() {
            // The driver needs them: without them it would end at once.
            require_timers();
        }
        if matches!(self.stage, WaitStage::New) {
            self.join();
            self.stage = WaitStage::Joined;
        }
        let Some(answer) = self.take_answer(cx.waker()) else {
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
        if polled.is_pending() && self.queues.in_flight().is_closed() {
            return Poll::Ready(Err(Refusal::Closed));
        }
        polled
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if matches!(self.stage, WaitStage::Alone | WaitStage::Joined) {
            let _leaving = self.queues.in_flight().count_until_dropped();
            self.stage = WaitStage::Answered;
            self.leave();
        }
    }
}

//! A caller's future while it waits for a lock.
//!
//! As long as no other caller of this process wants the lock, which is the usual case, the caller polls its own request.
//! Between two polls the request is kept in the [state of its key](KeyState), so that it does not depend on a caller
//! that is no longer polled. The next caller creates a local queue from what it finds there, with the request in flight,
//! and a driver continues with it.

use std::collections::hash_map::Entry;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use smallvec::smallvec;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::local_queues::IfMissing::{Create, Skip};
use super::local_queues::{
    Answer, BlockingHolders, KeyState, LocalQueues, LoneRequest, LookupSchedule, NextRequest,
};
use super::machine::{AcquireSpec, Denied, Grant, Input, RequestReply, SoleHolder, WaitOutcome};
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::options::QueueOptions;
use crate::base::sync::OnDrop;
use crate::base::timer::require_timers;

/// Waits for a lock. Dropping it leaves the local queue, and undoes whatever the store may have granted by then.
pub(super) struct Wait<'q> {
    pub(super) queues: &'q Arc<LocalQueues>,
    pub(super) key: &'q LockKey,
    pub(super) spec: AcquireSpec,
    pub(super) stage: CallerStage,
    /// The runtime for the work that outlives the caller.
    pub(super) runtime: &'q Handle,
    /// The instant since which the caller waits, and its limit; `None` if it makes only one attempt.
    pub(super) span: Option<(Instant, Option<Instant>)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CallerStage {
    New,
    /// The caller is alone, as far as it knows, and its key has its request.
    Alone,
    /// The caller is in a local queue, whose driver sends the requests.
    Joined,
    Answered,
}

impl<'q> Wait<'q> {
    fn hold(&self) -> HoldId {
        self.spec.request.hold
    }

    pub(super) fn is_alone(&self) -> bool {
        self.stage == CallerStage::Alone
    }

    fn poll_grant(&mut self, cx: &mut Context<'_>) -> Poll<Answer> {
        // A caller that is alone polls its own request, which is made at its first poll.
        let mut request = match self.stage {
            CallerStage::New => ready!(self.enter(cx.waker())),
            CallerStage::Alone => self.take_request(),
            CallerStage::Joined | CallerStage::Answered => None,
        };
        if request.is_some()
            && let Some(grant) = ready!(self.poll_request(&mut request, cx))
        {
            self.stage = CallerStage::Answered;
            return Poll::Ready(Ok(grant));
        }
        // Another caller has come, or was there first: this one waits in the local queue.
        if Handle::try_current().is_ok() {
            // The driver needs them: without them it would end at once.
            require_timers();
        }
        match self.stage {
            CallerStage::New => self.join(),
            // The one that joined did not know its limit.
            CallerStage::Alone => self.schedule_lookups(),
            CallerStage::Joined | CallerStage::Answered => {}
        }
        self.stage = CallerStage::Joined;
        let Some(answer) = self.take_answer(cx.waker()) else {
            return Poll::Pending;
        };
        self.stage = CallerStage::Answered;
        Poll::Ready(answer)
    }

    // ---- alone ----

    /// Enters a key that is vacant. Returns `None` if other callers are there. A caller that makes only one attempt waits
    /// for a release before it, because no second attempt would find the lock free.
    fn enter(&mut self, waker: &Waker) -> Poll<Option<LoneRequest>> {
        let is_single_attempt = self.spec.is_single_attempt();
        // A waker is cloned and dropped outside the mutex, because it may run foreign code.
        let mut waker = is_single_attempt.then(|| waker.clone());
        let requested = KeyState::requested(self.spec, self.runtime, None);
        let mut states = self.queues.states.lock();
        let left = match states.map.entry(self.key.clone()) {
            Entry::Vacant(vacant) => {
                vacant.insert(requested);
                None
            }
            Entry::Occupied(mut occupied) => {
                let attempts = match occupied.get_mut() {
                    // The release is sent before any request of this caller, so one that waits follows it at once.
                    KeyState::Releasing { attempts, .. } => attempts,
                    KeyState::Held {
                        is_ending: true,
                        attempts,
                        ..
                    } if is_single_attempt => attempts,
                    // Another hold or caller is here: this one joins the local queue.
                    _ => return Poll::Ready(None),
                };
                if is_single_attempt {
                    let attempts = attempts.get_or_insert_default();
                    // The attempt may be polled many times until it is woken.
                    let is_new = |new: &mut Waker| !attempts.iter().any(|it| it.will_wake(new));
                    attempts.extend(waker.take_if(is_new));
                    return Poll::Pending;
                }
                Some(occupied.insert(requested))
            }
        };
        drop(states);
        // The list of the release has gone with its state: the single attempts are polled again, and join this caller.
        left.into_iter().for_each(KeyState::wake_attempts);
        self.stage = CallerStage::Alone;
        let holds = smallvec![self.hold()];
        let request = self.queues.requests.acquire(self.key, self.spec, holds);
        Poll::Ready(Some((request, None)))
    }

    /// Takes the request of a caller that was alone at its last poll. `None` if it is no longer alone.
    fn take_request(&self) -> Option<LoneRequest> {
        let mut states = self.queues.states.lock();
        // It is polled outside the mutex, because that calls the store.
        states.lone_caller(self.key, self.hold())?.request.take()
    }

    /// Polls the request of a caller that was alone. Returns `None` if the caller is in a local queue from now on. By
    /// reference, because a request is large.
    fn poll_request(
        &self,
        request: &mut Option<LoneRequest>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Grant>> {
        // The local queue learns that there will be no reply.
        let unless_panic = OnDrop(|| {
            let reply = self.queues.no_reply(self.key);
            self.queues.step(self.key, Input::Reply(reply));
        });
        // If it panics, the request is dropped first.
        let mut request = request.take();
        let Some((pending, waker)) = &mut request else {
            return Poll::Pending;
        };
        let polled = match self.queues.requests.poll_reply(self.key, pending, cx) {
            Poll::Pending => {
                // Most futures are polled by one task, whose waker need not be cloned again.
                if !waker
                    .as_ref()
                    .is_some_and(|waker| waker.will_wake(cx.waker()))
                {
                    *waker = Some(cx.waker().clone());
                }
                self.put_back(request)
            }
            Poll::Ready(reply) => Poll::Ready(self.process_reply(reply)),
        };
        mem::forget(unless_panic);
        polled
    }

    /// Keeps a request without a reply until its caller is polled again, or another caller joins.
    fn put_back(&self, request: Option<LoneRequest>) -> Poll<Option<Grant>> {
        let mut states = self.queues.states.lock();
        if let Some(lone) = states.lone_caller(self.key, self.hold()) {
            lone.request = request;
            return Poll::Pending;
        }
        drop(states);
        // A local queue was created: its driver continues with the request.
        self.queues.with_queue(self.key, Skip, None, |queue, _| {
            queue.next_request = request.map(|(request, _)| NextRequest::Sent(request));
        });
        Poll::Ready(None)
    }

    /// Processes the reply to a request. A caller that is still alone gets its lock immediately. Otherwise the reply is
    /// an input of the machine.
    fn process_reply(&self, reply: RequestReply) -> Option<Grant> {
        let mut states = self.queues.states.lock();
        // The usual case is a free lock that no other caller wants: it is held from here on, and no machine was
        // needed.
        if let Some(state) = states.map.get_mut(self.key)
            && let KeyState::Requested(lone) = state
            && let WaitOutcome::Held(grant) =
                lone.waiter.apply_reply(&reply, 0, None, Instant::now())
        {
            let held = KeyState::held(SoleHolder {
                hold: grant.hold,
                mode: grant.mode,
                handoffs: 0,
                is_contended: grant.is_contended,
            });
            let requested = mem::replace(state, held);
            drop(states);
            // It has a waker of the caller, which is dropped outside the mutex.
            drop(requested);
            return Some(grant);
        }
        drop(states);
        self.queues.step(self.key, Input::Reply(reply));
        None
    }

    // ---- in a local queue ----

    fn lookups(&self) -> Option<LookupSchedule> {
        let (since, limit) = self.span?;
        let report_after = QueueOptions::reports_after(self.spec.request.ttl);
        Some(LookupSchedule::new(since, limit, report_after))
    }

    fn join(&self) {
        let (runtime, lookups) = (self.runtime.id(), self.lookups());
        self.queues
            .with_queue(self.key, Create, Some(self.runtime), |queue, deferred| {
                queue.callers.join(self.hold(), runtime, lookups);
                queue.step(Input::Join(self.spec), deferred);
            });
        // A holder in this process learns at once that a caller waits.
        self.queues.notify_if_contended(self.key);
    }

    /// Schedules the lookups of a caller that was alone.
    fn schedule_lookups(&self) {
        if let Some(lookups) = self.lookups() {
            self.queues
                .with_queue(self.key, Skip, Some(self.runtime), |queue, _| {
                    queue.callers.set_lookups(self.hold(), lookups);
                });
        }
    }

    /// Takes the answer, or registers the caller to be woken by it.
    fn take_answer(&self, waker: &Waker) -> Option<Answer> {
        let waiter = self.hold();
        // A waker is cloned and dropped outside the mutex, because it may run foreign code.
        let mut waker = Some(waker.clone());
        let runtime = Handle::try_current().ok().map(|runtime| runtime.id());
        let answered =
            self.queues
                .with_queue(self.key, Skip, Some(self.runtime), |queue, deferred| {
                    let caller = queue.callers.get(waiter)?;
                    // The waker is registered under the same lock under which there was no answer, so none is missed.
                    if caller.answer.is_none() {
                        mem::swap(&mut caller.waker, &mut waker);
                        caller.runtime = runtime;
                        return None;
                    }
                    let mut caller = queue.callers.remove(waiter)?;
                    match caller.answer {
                        // The machine learns in the same step that the grant is taken, so it is not passed over from
                        // now on.
                        Some(Ok(grant)) if grant.is_live(Instant::now()) => {
                            let hold = grant.hold;
                            queue.step(Input::Entered { waiter, hold }, deferred);
                        }
                        // Its lease has ended while nothing polled the caller.
                        Some(Ok(_)) => {
                            deferred.return_grant(caller.answer.replace(Err(Denied::PassedOver)));
                            queue.step(Input::Leave(waiter), deferred);
                        }
                        _ => {}
                    }
                    Some(caller)
                });
        answered.flatten()?.answer
    }

    /// Takes the holder that the caller saw at its last lookup.
    pub(super) fn take_blocking_holders(&self) -> Option<Box<BlockingHolders>> {
        let mut states = self.queues.states.lock();
        let caller = states.queue(self.key)?.callers.get(self.hold())?;
        caller.lookups.as_mut()?.blocking.take()
    }

    fn leave(&self) {
        let waiter = self.hold();
        let left =
            self.queues
                .with_queue(self.key, Create, Some(self.runtime), |queue, deferred| {
                    let mut caller = queue.callers.remove(waiter);
                    // A grant that was not taken would otherwise stay until it is passed over.
                    deferred.return_grant(caller.as_mut().and_then(|caller| caller.answer.take()));
                    queue.step(Input::Leave(waiter), deferred);
                    caller
                });
        drop(left);
    }
}

impl Future for Wait<'_> {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = self.poll_grant(cx);
        // This is checked after the caller is registered, because closing wakes the callers that are registered.
        if polled.is_pending() && self.queues.in_flight.is_closed() {
            return Poll::Ready(Err(Denied::Closed));
        }
        polled
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if matches!(self.stage, CallerStage::Alone | CallerStage::Joined) {
            // The count does not reach zero between the wait and the release that may follow from its end.
            let _leaving = self.queues.in_flight.count_until_dropped();
            self.stage = CallerStage::Answered;
            self.leave();
        }
    }
}

//! The exits from holds: the last one to leave a hold ends it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::FutureExt;
use pin_project::pin_project;
use smallvec::SmallVec;

use crate::base::background::Handover;
use crate::base::error::LockError;
use crate::base::events;
use crate::base::timer::{Elapsed, Timeout, timeout};
use crate::hold::depth::Remains;
use crate::hold::hold::{Hold, Holds};
use crate::hold::renewals::RenewalSchedule;
use crate::queue::Release;

/// Ends the hold. The next waiter of this process continues it in memory, or it is released, together with others if
/// there are any. If its minimum time is not over, it is left to its lease.
pub(super) fn end(hold: &Arc<Hold>, renewals: &Arc<RenewalSchedule>) -> Option<Leaving> {
    let queues = renewals.queues();
    let removed = renewals.remove(hold);
    let (grant, is_open) = hold.end(renewals.disconnects_of(hold.key()));
    hold.count_end();
    if !removed.was_waiting {
        hold.call_off();
    }
    let is_lone = !hold.gives_way() && hold.group().is_none();
    let may_hand_off = removed.was_waiting && is_open && is_lone;
    let hand_off = || queues.hand_off(hold.key(), grant);
    let leaving = if hold.is_kept() {
        // Its runtime has ended, or its `Locks` was closed. The lease is at least as long.
        queues.lost(hold.key(), hold.id());
        hold.end_span();
        None
    } else if may_hand_off && hold.span().in_scope(hand_off) {
        hold.end_span();
        None
    } else {
        let release = Release {
            with_others: hold.group().is_some(),
            ..grant.release()
        };
        let releasing = queues.release(hold.key(), release);
        let (of, span) = (Arc::clone(hold), hold.span());
        // An async block would store the future of the release twice.
        let left = releasing.map(move |released| {
            of.found(&released);
            of.end_span();
            of.outcome(released)
        });
        let is_in_memory = renewals.store().is_memory();
        Some(Handover::new(removed.runtime, span, left).in_memory(is_in_memory))
    };
    // A release in flight is counted separately.
    queues.activity().end();
    leaving
}

/// Ends the hold of an acquisition that is no longer polled, unless it has ended already.
pub(super) fn give_up(hold: &Arc<Hold>, renewals: &Arc<RenewalSchedule>) {
    if hold.lessen(0) == Remains::Nothing {
        events::acquire_undone(hold.key(), hold.id());
        drop(end(hold, renewals));
    }
}

/// The work that informs the store about one hold. The output is the result of leaving the hold.
pub(super) type Leaving = Handover<Result<(), LockError>>;

/// The work that informs the store about all holds. The output is the first failure. A loss takes precedence over any
/// other failure.
#[derive(Debug, Default)]
pub(super) struct Leavings {
    each: SmallVec<[Leaving; 1]>,
    failure: Option<Box<LockError>>,
}

impl Leavings {
    #[inline]
    pub(super) fn push(&mut self, leaving: Option<Leaving>) {
        if let Some(leaving) = leaving {
            self.each.push(leaving);
        }
    }
}

impl Future for Leavings {
    type Output = Result<(), LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { each, failure } = &mut *self;
        let mut is_over = true;
        for leaving in each.iter_mut().filter(|leaving| !leaving.is_over()) {
            match Pin::new(leaving).poll(cx) {
                Poll::Pending => is_over = false,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => {
                    let counts = |known: &LockError| error.is_lost() && !known.is_lost();
                    if failure.as_deref().is_none_or(counts) {
                        *failure = Some(Box::new(error));
                    }
                }
            }
        }
        if !is_over {
            return Poll::Pending;
        }
        Poll::Ready(failure.take().map_or(Ok(()), |failure| Err(*failure)))
    }
}

/// Waits until the store knows that the holds were left, for at most the response timeout. After that, the work
/// continues in the background (P13).
///
/// Fails if a lock turns out to have been lost and this must end the body. Also fails if the store rejects the request.
#[pin_project]
#[derive(Debug)]
pub(crate) struct Exit {
    holds: Holds,
    /// `None` if there is nothing to wait for.
    #[pin]
    work: Option<Timeout<Leavings>>,
}

impl Exit {
    #[inline]
    pub(super) fn new(holds: Holds, leavings: Leavings, renewals: &RenewalSchedule) -> Self {
        let work = (!leavings.each.is_empty()).then(|| {
            let limit = renewals.response_timeout();
            // The response to its first request wakes it.
            let within = |hold: &Arc<Hold>| renewals.store().answers_within(hold.key());
            let is_answered = holds.iter().all(|hold| within(hold) <= limit);
            timeout(limit, leavings).sparing(is_answered, |_| true)
        });
        Self { holds, work }
    }
}

impl Future for Exit {
    type Output = Result<(), LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let Some(work) = this.work.as_pin_mut() else {
            return Poll::Ready(Ok(()));
        };
        Poll::Ready(match ready!(work.poll(cx)) {
            Ok(left) => left,
            Err(Elapsed) => {
                for hold in this.holds.iter().filter(|hold| hold.depth() == 0) {
                    events::release_backgrounded(hold.key(), hold.id());
                }
                Ok(())
            }
        })
    }
}

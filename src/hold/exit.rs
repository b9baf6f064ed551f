//! How a hold is left: the last one to leave ends it.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use pin_project::pin_project;

use crate::{
    base::{
        background::Handover,
        error::{Effect, Failure, LockError},
        events,
        timer::{Elapsed, Timeout, timeout},
    },
    hold::{hold::Hold, renewals::RenewalSchedule},
};

/// What the store is still to be told.
pub(super) type Leaving = Handover<Result<(), Failure>>;

/// What is in a hold, and keeps it: an entry or a member.
pub(crate) trait Occupant {
    fn hold(&self) -> &Arc<Hold>;

    fn renewals(&self) -> &Arc<RenewalSchedule>;
}

/// Ends the hold. The next waiter of this process goes on with it in memory, or it is released.
pub(super) fn end(hold: &Arc<Hold>, renewals: &Arc<RenewalSchedule>) -> Option<Leaving> {
    let queues = renewals.queues();
    let removed = renewals.remove(hold);
    let (cohort, is_open) = hold.end(renewals.disconnects());
    if !removed.was_waiting {
        hold.call_off();
    } else if is_open && queues.hand_on(hold.key(), cohort) {
        return None;
    }
    let releasing = queues.release(hold.key(), cohort.release());
    let hold = Arc::clone(hold);
    Some(Handover::new(removed.runtime, async move {
        let released = releasing.await;
        if let Err(Failure::Lost(reason)) = released {
            hold.found_lost(reason);
        }
        released
    }))
}

/// Waits for the store to take in that an entry or a member has left, but no longer than the response timeout:
/// then the work goes on in the background (P13).
///
/// Fails if the lock turns out to have been lost, where that is to end the body, and if the store refuses.
#[pin_project]
#[derive(Debug)]
pub(crate) struct Exit<T> {
    leaver: T,
    /// `None` where there is nothing to wait for.
    #[pin]
    work: Option<Timeout<Leaving>>,
}

impl<T: Occupant> Exit<T> {
    pub(super) fn new(leaver: T, leave: impl FnOnce(&T) -> Option<Leaving>) -> Self {
        let renewals = leaver.renewals();
        let limit = renewals.response_timeout();
        // It wakes with the answer to its first request.
        let is_answered = renewals.store().answers_within() <= limit;
        let limited = |work| timeout(limit, work).sparing(is_answered, |_| true);
        let work = leave(&leaver).map(limited);
        Self { leaver, work }
    }
}

impl<T: Occupant> Future for Exit<T> {
    type Output = Result<(), LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let Some(work) = this.work.as_pin_mut() else {
            return Poll::Ready(Ok(()));
        };
        let hold = this.leaver.hold();
        Poll::Ready(match ready!(work.poll(cx)) {
            Ok(Err(Failure::Lost(_))) if !hold.aborts_on_loss() => Ok(()),
            // The store gave no answer until the lease had ended by itself.
            Ok(Err(Failure::Store(error))) if error.effect() != Effect::Refused => Ok(()),
            Ok(result) => result.map_err(|failure| failure.on(hold.key().name())),
            Err(Elapsed) => {
                events::release_backgrounded(hold.key(), hold.id());
                Ok(())
            }
        })
    }
}

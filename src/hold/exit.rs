//! How a hold is left: the last one to leave ends it.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use pin_project::pin_project;
use tokio::runtime::Handle;

use crate::{
    base::{
        background::Handover,
        error::{Failure, LockError},
        timer::{Elapsed, Timeout, timeout},
    },
    hold::{hold::Hold, renewals::RenewalSchedule},
    queue::Release,
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
    let leaving = finish(hold, renewals).map(|(release, runtime)| {
        let (span, hold) = (hold.span(), Arc::clone(hold));
        let releasing = queues.release(hold.key(), release);
        Handover::new(runtime, span, async move {
            let released = releasing.await;
            hold.found(&released);
            hold.end_span();
            released
        })
    });
    // A release that is on its way is counted for itself.
    queues.activity().end();
    leaving
}

/// Ends the hold. Returns its release and where that is to run, unless the next waiter goes on with the hold.
pub(super) fn finish(
    hold: &Arc<Hold>,
    renewals: &Arc<RenewalSchedule>,
) -> Option<(Release, Option<Handle>)> {
    let removed = renewals.remove(hold);
    let (grant, is_open) = hold.end(renewals.disconnects_of(hold.key()));
    let (min_hold, gives_way) = (hold.min_hold(), hold.gives_way());
    hold.count_end();
    let may_hand_on = is_open && min_hold.is_none() && !gives_way && hold.group().is_none();
    if !removed.was_waiting {
        hold.call_off();
    } else if may_hand_on {
        let grant = &grant;
        let hand_on = || renewals.queues().hand_on(hold.key(), *grant);
        if hold.span().in_scope(hand_on) {
            hold.end_span();
            return None;
        }
    }
    let release = Release {
        min_hold,
        gives_way,
        ..grant.release()
    };
    Some((release, removed.runtime))
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
        let is_answered = renewals.store().answers_within(leaver.hold().key()) <= limit;
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
            Ok(result) => hold.outcome(result),
            Err(Elapsed) => {
                hold.note_unanswered();
                Ok(())
            }
        })
    }
}

//! The exits from holds: the last one to leave a hold ends it.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::FutureExt;
use smallvec::SmallVec;
use tokio::task::coop::unconstrained;

use crate::base::background::FinishInBackground;
use crate::base::error::LockError;
use crate::base::events;
use crate::base::timer::{Sleep, sleep};
use crate::hold::depth::Remains;
use crate::hold::hold::Hold;
use crate::hold::renewals::RenewalSchedule;
use crate::queue::{LocalQueues, Release};

/// Ends the hold. The next waiter of this process continues it in memory, or it is released, together with others if
/// there are any. If its minimum time is not over, it is left to its lease.
fn end(hold: &Arc<Hold>, renewals: &RenewalSchedule) -> Option<EndedHold> {
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
    let ended = if hold.is_kept() {
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
        let of = Arc::clone(hold);
        // An async block would store the future of the release twice.
        let released = releasing.map(move |released| {
            of.found(&released);
            of.end_span();
            of.outcome(released)
        });
        let released = hold.span().around(released);
        let is_in_memory = renewals.store().is_memory();
        Some(EndedHold {
            hold: Arc::clone(hold),
            release: FinishInBackground::new(removed.runtime, is_in_memory, released),
        })
    };
    // A release in flight is counted separately.
    queues.activity().end();
    ended
}

/// Ends the hold of an acquisition that is no longer polled, unless it has ended already.
pub(super) fn give_up(hold: &Arc<Hold>, renewals: &Arc<RenewalSchedule>) {
    if hold.lessen(0) == Remains::Nothing {
        events::acquire_undone(hold.key(), hold.id());
        drop(end(hold, renewals));
    }
}

/// The exit from holds. Waits until the store knows that those that have ended are released, for at most the response
/// timeout. After that, and if it is dropped, the releases continue in the background (P13).
///
/// Fails if a lock turns out to have been lost and this must end the body. Also fails if the store rejects a release. A
/// loss takes precedence over any other failure.
pub(crate) struct Exit {
    /// The holds whose releases have not ended.
    ended: SmallVec<[EndedHold; 1]>,
    /// `None` if there is nothing to wait for.
    limit: Option<Sleep>,
    /// Whether the responses to the first requests wake it before the limit. Then the first poll arms no timer.
    is_woken: bool,
    failure: Option<Box<LockError>>,
}

/// A hold that has ended, and its release.
struct EndedHold {
    hold: Arc<Hold>,
    release: FinishInBackground<Result<(), LockError>>,
}

impl Exit {
    /// The exit of those that have left these holds.
    #[inline]
    pub(super) fn new<'a>(
        left: impl Iterator<Item = (&'a Arc<Hold>, Remains)>,
        renewals: &RenewalSchedule,
    ) -> Self {
        let nothing = left.filter(|(_, remains)| *remains == Remains::Nothing);
        let ended: SmallVec<_> = nothing
            .filter_map(|(hold, _)| end(hold, renewals))
            .collect();
        let timeout = renewals.response_timeout();
        let within = |hold: &Hold| renewals.store().answers_within(hold.key());
        Self {
            limit: (!ended.is_empty()).then(|| sleep(timeout)),
            is_woken: ended
                .iter()
                .all(|ended: &EndedHold| within(&ended.hold) <= timeout),
            ended,
            failure: None,
        }
    }

    /// Leaves the releases to the background. A caller that makes only one attempt for the same lock waits for them.
    pub(super) fn continue_in_background(self, queues: &LocalQueues) {
        for EndedHold { hold, .. } in &self.ended {
            queues.ends_soon(hold.key(), hold.id());
        }
    }
}

impl Future for Exit {
    type Output = Result<(), LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.ended.retain(|ended| {
            let released = match Pin::new(&mut ended.release).poll(cx) {
                Poll::Pending => return true,
                Poll::Ready(released) => released,
            };
            if let Err(error) = released {
                let counts = |known: &LockError| error.is_lost() && !known.is_lost();
                if this.failure.as_deref().is_none_or(counts) {
                    this.failure = Some(Box::new(error));
                }
            }
            false
        });
        if let Some(limit) = this.limit.as_mut().filter(|_| !this.ended.is_empty()) {
            if mem::take(&mut this.is_woken) {
                return Poll::Pending;
            }
            // The limit applies even if the releases have used up the budget of the task.
            ready!(Pin::new(&mut unconstrained(limit)).poll(cx));
            for EndedHold { hold, .. } in this.ended.drain(..) {
                events::release_backgrounded(hold.key(), hold.id());
            }
        }
        Poll::Ready(this.failure.take().map_or(Ok(()), |failure| Err(*failure)))
    }
}

impl fmt::Debug for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exit").finish_non_exhaustive()
    }
}

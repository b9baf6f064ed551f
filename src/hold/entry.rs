//! One level of a hold: how it is entered and left.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use pin_project::pin_project;
use tokio::runtime::Handle;

use crate::{
    base::{
        background::Handover,
        error::{Effect, Failure, LockError},
        events,
        key::LockKey,
        options::{DepthSync, Terms},
        timer::{Elapsed, Timeout, timeout},
    },
    hold::{
        hold::{CallGraph, Hold},
        renewals::RenewalSchedule,
        sync::{Follower, sync},
    },
    queue::Cohort,
};

#[cfg(test)]
mod tests;

/// One entry of a hold. Dropping it takes one level off in the background.
pub(crate) struct Entry {
    hold: Arc<Hold>,
    renewals: Arc<RenewalSchedule>,
    depth_sync: DepthSync,
    /// Whether the level has been taken off.
    has_left: bool,
}

impl Entry {
    /// Enters a lock that was won by a request before which there were so many disconnects. It is renewed from
    /// now on, on this runtime.
    pub(crate) fn outermost(
        cohort: Cohort,
        key: &LockKey,
        graph: CallGraph,
        terms: Terms,
        disconnects: u64,
        (renewals, runtime): (&Arc<RenewalSchedule>, &Handle),
    ) -> Self {
        let hold = Hold::new(cohort, key, graph, terms, disconnects, runtime.id());
        // From here on whatever panics ends the hold.
        let entry = Self::of(hold, renewals, terms.depth_sync);
        renewals.push(&entry.hold, runtime);
        events::acquired(key, entry.hold.id(), entry.hold.token());
        if cohort.depth.depth != Some(1) {
            // The last change of the call graph before was not answered.
            entry.sync_later();
        }
        entry
    }

    /// Enters a hold once more. The store has the new depth before this returns, unless it is to follow
    /// in the background.
    ///
    /// A store that does not answer is asked again until the lease ends, since the lock is held until
    /// then. Returns `None` if the hold has ended: then it cannot be re-entered.
    pub(crate) async fn nested(
        hold: Arc<Hold>,
        renewals: &Arc<RenewalSchedule>,
        ttl: Option<Duration>,
        depth_sync: DepthSync,
    ) -> Option<Result<Self, LockError>> {
        if !hold.deepen(ttl) {
            return None;
        }
        let entry = Self::of(hold, renewals, depth_sync);
        let entered = match (entry.hold.lost(), depth_sync) {
            (Some(reason), _) => Err(Failure::Lost(reason)),
            (None, DepthSync::Awaited) => sync(&entry.hold, renewals.store()).await,
            (None, DepthSync::Background) => {
                entry.sync_later();
                Ok(())
            }
        };
        Some(match entered {
            Ok(()) => Ok(entry),
            Err(failure) => Err(failure.on(entry.hold.key().name())),
        })
    }

    fn of(hold: Arc<Hold>, renewals: &Arc<RenewalSchedule>, depth_sync: DepthSync) -> Self {
        Self {
            hold,
            renewals: Arc::clone(renewals),
            depth_sync,
            has_left: false,
        }
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    /// Takes one level off; see [`Exit`].
    pub(crate) fn exit(mut self) -> Exit {
        self.has_left = true;
        let limit = self.renewals.response_timeout();
        // It wakes with the answer to its first request.
        let is_answered = self.renewals.store().answers_within() <= limit;
        let limited = |work| timeout(limit, work).sparing(is_answered, |_| true);
        Exit {
            work: self.leave().map(limited),
            entry: self,
        }
    }

    /// Takes one level off. What there is to wait for goes on in the background if it is dropped.
    fn leave(&self) -> Option<Handover<Result<(), Failure>>> {
        if self.hold.rise() == 0 {
            return self.end();
        }
        match self.depth_sync {
            DepthSync::Background => {
                self.sync_later();
                None
            }
            DepthSync::Awaited => {
                let (hold, renewals) = (Arc::clone(&self.hold), Arc::clone(&self.renewals));
                let runtime = renewals.runtime(&hold);
                let work = async move { sync(&hold, renewals.store()).await };
                Some(Handover::new(runtime, work))
            }
        }
    }

    /// Ends the hold. The next waiter of this process goes on with it in memory, or it is released.
    fn end(&self) -> Option<Handover<Result<(), Failure>>> {
        let (hold, queues) = (&self.hold, self.renewals.queues());
        let removed = self.renewals.remove(hold);
        let (cohort, is_open) = hold.end(self.renewals.disconnects());
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

    /// Lets a task bring the store up to the wanted depth.
    fn sync_later(&self) {
        if let Some(follower) = Follower::of(&self.hold, self.renewals.queues())
            && let Some(runtime) = self.renewals.runtime(&self.hold)
        {
            drop(runtime.spawn(follower.run()));
        }
    }
}

/// Waits for the store to take a level off, but no longer than the response timeout: then the work goes on in
/// the background (P13).
///
/// Fails if the lock turns out to have been lost, where that is to end the body, and if the store refuses.
#[pin_project]
#[derive(Debug)]
pub(crate) struct Exit {
    entry: Entry,
    /// `None` where there is nothing to wait for.
    #[pin]
    work: Option<Timeout<Handover<Result<(), Failure>>>>,
}

impl Future for Exit {
    type Output = Result<(), LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let Some(work) = this.work.as_pin_mut() else {
            return Poll::Ready(Ok(()));
        };
        let hold = this.entry.hold();
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

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.has_left {
            drop(self.leave());
        }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("hold", &self.hold)
            .field("depth_sync", &self.depth_sync)
            .field("has_left", &self.has_left)
            .finish_non_exhaustive()
    }
}

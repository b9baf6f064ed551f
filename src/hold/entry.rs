//! One level of the holds that an acquisition has entered, with how they are entered and left.

use std::sync::Arc;
use std::time::Duration;
use std::{fmt, mem};

use futures_util::future::try_join_all;
use tokio::runtime::Handle;

use crate::base::background::Handover;
use crate::base::error::{Failure, LockError};
use crate::base::events;
use crate::base::key::LockKey;
use crate::base::option_types::{DepthSync, Mode};
use crate::base::options::Terms;
use crate::base::span::Span;
use crate::hold::abort::must_abort;
use crate::hold::depth::Remains;
use crate::hold::exit::{Exit, Leaving, Leavings, end};
use crate::hold::group::Group;
use crate::hold::hold::{CallGraph, Hold, Holds, Reentry};
use crate::hold::label;
use crate::hold::renewals::RenewalSchedule;
use crate::hold::sync::{Follower, sync};
use crate::queue::Grant;

#[cfg(test)]
mod tests;

/// One entry of each hold, in the order in which they were made: first those of holds that enclosing calls began.
/// Dropping it removes one level from each of them in the background.
pub(crate) struct Entry {
    holds: Holds,
    /// The number of holds that it began.
    begun: usize,
    renewals: Arc<RenewalSchedule>,
    depth_sync: DepthSync,
    /// Whether it belongs to a guard.
    is_guards: bool,
}

impl Entry {
    /// An entry that has no hold yet.
    #[inline]
    pub(crate) fn new(renewals: &Arc<RenewalSchedule>, depth_sync: DepthSync) -> Self {
        Self {
            holds: Holds::new(),
            begun: 0,
            renewals: Arc::clone(renewals),
            depth_sync,
            is_guards: false,
        }
    }

    /// Enters a lock that was acquired. It is renewed from now on, on this runtime. The locks of a group are renewed
    /// together.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        grant: Grant,
        key: &LockKey,
        graph: CallGraph,
        terms: Terms,
        group: Option<&Arc<Group<Hold>>>,
        runtime: &Handle,
    ) -> &Arc<Hold> {
        let hold = Hold::new(grant, key, graph, terms, group.cloned(), runtime.id());
        self.renewals.queues().activity().begin();
        let at = self.holds.len();
        // From here on, any panic ends the hold.
        self.holds.push(hold);
        self.begun += 1;
        let hold = &self.holds[at];
        self.renewals.push(hold, runtime);
        if grant.depth.depth != Some(1) {
            // The last change of the previous call graph was not answered.
            self.sync_later(hold);
        }
        hold
    }

    /// Forgets the holds that it began, which were given up.
    pub(crate) fn forget_begun(&mut self) {
        let reentered = self.holds.len() - self.begun;
        self.holds.truncate(reentered);
        self.begun = 0;
    }

    /// Enters a hold of an enclosing call once more. A hold that has ended cannot be re-entered, and is left out.
    pub(crate) fn reenter(
        &mut self,
        hold: Arc<Hold>,
        mode: Mode,
        ttl: Option<Duration>,
    ) -> Result<(), LockError> {
        match hold.deepen(mode, ttl) {
            Reentry::Entered => self.holds.push(hold),
            Reentry::Ended => {}
            Reentry::Upgrade => {
                let key = hold.key().name().to_owned();
                return Err(LockError::Upgrade { key });
            }
        }
        Ok(())
    }

    /// Waits until the store has the new depths of the holds that were entered once more. It does not wait if the depth
    /// is updated in the background.
    ///
    /// It also leaves the update to the background if the store has not responded within the response timeout, because
    /// the lock is held until the lease expires.
    pub(crate) async fn reentered(&self) -> Result<(), LockError> {
        match &self.holds[..] {
            [hold] => self.deepened(hold).await,
            holds => {
                let all = try_join_all(holds.iter().map(|hold| self.deepened(hold)));
                Box::pin(all).await.map(drop)
            }
        }
    }

    async fn deepened(&self, hold: &Arc<Hold>) -> Result<(), LockError> {
        let deepened = match hold.lost() {
            Some(reason) => Err(Failure::Lost(reason)),
            None if self.syncs_later(hold) => Ok(true),
            None => {
                sync(
                    hold,
                    self.renewals.store(),
                    self.renewals.response_timeout(),
                )
                .await
            }
        };
        if !deepened.map_err(|failure| hold.error(failure))? {
            events::depth_backgrounded(hold.key(), hold.id());
            self.sync_later(hold);
        }
        events::reentered(hold.key(), hold.id(), || hold.depth());
        Ok(())
    }

    /// Notes that it belongs to a guard from now on.
    pub(crate) fn give_to_guard(&mut self) {
        self.is_guards = true;
        self.holds.iter().for_each(|hold| hold.add_guard());
    }

    /// The holds, each of them once.
    pub(crate) fn holds(&self) -> &[Arc<Hold>] {
        &self.holds
    }

    /// The holds that it began.
    #[inline]
    pub(crate) fn begun(&self) -> &[Arc<Hold>] {
        &self.holds[self.holds.len() - self.begun..]
    }

    /// Opens the span of the holds that it began.
    #[inline]
    pub(crate) fn trace(&self, keys: &[LockKey], mode: Mode) {
        let begun = self.begun();
        if let Some(first) = begun.first() {
            let span = Span::hold(keys, mode, first.id(), first.token());
            begun.iter().for_each(|hold| hold.set_span(span.clone()));
        }
    }

    /// Labels the holds that it began.
    pub(crate) fn label(&self, label: impl Fn(&LockKey) -> Option<Arc<str>>) {
        for hold in self.begun() {
            if let Some(label) = label(hold.key()) {
                label::publish(hold, &label, &self.renewals);
            }
        }
    }

    /// The span around what is done under the holds that it began; none if it only re-entered holds of others.
    pub(crate) fn span(&self) -> Span {
        // They share one span.
        self.begun()
            .last()
            .map(|hold| hold.span())
            .unwrap_or_default()
    }

    /// The loss of the first lock among them, if it must end what is done under them.
    pub(crate) fn lost(&self) -> Option<LockError> {
        must_abort(&self.holds)
    }

    /// Removes one level from each hold; see [`Exit`].
    #[inline]
    pub(crate) fn exit(mut self) -> Exit {
        let leavings = self.leave();
        Exit::new(mem::take(&mut self.holds), leavings, &self.renewals)
    }

    /// Removes one level from each hold. The holds that end this way are released together. If the future is dropped,
    /// the remaining work continues in the background.
    #[inline]
    fn leave(&self) -> Leavings {
        let mut leavings = Leavings::default();
        for hold in &self.holds {
            leavings.push(match hold.lessen(self.is_guards.into()) {
                Remains::Nothing => end(hold, &self.renewals),
                remains => self.follow(hold, remains),
            });
        }
        leavings
    }

    /// Updates the store to the depth that remains.
    fn follow(&self, hold: &Arc<Hold>, remains: Remains) -> Option<Leaving> {
        if remains != Remains::LessDepth || self.syncs_later(hold) {
            return None;
        }
        let (of, renewals) = (Arc::clone(hold), Arc::clone(&self.renewals));
        let work = async move {
            let synced = sync(&of, renewals.store(), Duration::MAX).await;
            of.outcome(synced.map(drop))
        };
        let runtime = self.renewals.runtime(hold);
        Some(Handover::new(runtime, hold.span(), work))
    }

    /// Lets a task update the store to the wanted depth, unless the caller waits for that. If the store is unavailable,
    /// only one caller waits in vain.
    fn syncs_later(&self, hold: &Arc<Hold>) -> bool {
        let is_awaited = self.depth_sync == DepthSync::Awaited && !hold.is_store_away();
        !is_awaited && (self.sync_later(hold) || self.depth_sync == DepthSync::Background)
    }

    /// Lets a task update the store to the wanted depth. Returns false if there is no runtime for it.
    fn sync_later(&self, hold: &Arc<Hold>) -> bool {
        let Some(follower) = Follower::of(hold, self.renewals.queues()) else {
            return true;
        };
        let runtime = self.renewals.runtime(hold);
        let Some(runtime) = runtime.or_else(|| Handle::try_current().ok()) else {
            return false;
        };
        drop(runtime.spawn(follower.run()));
        true
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let leavings = self.leave();
        let queues = self.renewals.queues();
        for hold in self.holds.iter().filter(|hold| hold.depth() == 0) {
            queues.ends_soon(hold.key(), hold.id());
        }
        drop(leavings);
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("holds", &self.holds)
            .field("depth_sync", &self.depth_sync)
            .finish_non_exhaustive()
    }
}

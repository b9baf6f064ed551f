//! One level of a hold: how it is entered and left.

use std::{fmt, sync::Arc, time::Duration};

use tokio::{runtime::Handle, time::Instant};

use crate::{
    base::{
        background::Handover,
        error::{Failure, LockError},
        events,
        key::LockKey,
        mode::Mode,
        options::{DepthSync, Terms},
        span::Span,
    },
    hold::{
        depth::Remains,
        exit::{Exit, Leaving, Occupant, end, finish},
        group::Group,
        hold::{CallGraph, Hold, Reentry},
        renewals::RenewalSchedule,
        sync::{Follower, sync},
    },
    queue::{Grant, Release},
};

#[cfg(test)]
mod tests;

/// A lock that was won, and by whom.
pub(crate) struct Won<'k> {
    pub(crate) grant: Grant,
    pub(crate) key: &'k LockKey,
    pub(crate) graph: CallGraph,
    pub(crate) terms: Terms,
    /// How many disconnects there were before the request that won it.
    pub(crate) disconnects: u64,
    /// Since when the caller has waited.
    pub(crate) since: Instant,
}

/// One entry of a hold. Dropping it takes one level off in the background.
pub(crate) struct Entry {
    hold: Arc<Hold>,
    renewals: Arc<RenewalSchedule>,
    depth_sync: DepthSync,
    /// Whether it has begun the hold.
    is_outermost: bool,
    /// Whether the level has been taken off.
    has_left: bool,
    /// Whether a guard has it.
    is_guards: bool,
}

impl Entry {
    /// Enters a lock that was won. It is renewed from now on, on this runtime.
    pub(crate) fn outermost(
        won: Won<'_>,
        group: Option<Arc<Group<Hold>>>,
        (renewals, runtime): (&Arc<RenewalSchedule>, &Handle),
    ) -> Self {
        let Won {
            grant,
            key,
            graph,
            terms,
            disconnects,
            since,
        } = won;
        let place = (group, runtime.id());
        let hold = Hold::new(grant, key, graph, terms, disconnects, place);
        renewals.queues().activity().begin();
        // From here on whatever panics ends the hold.
        let mut entry = Self::of(hold, renewals, terms.depth_sync);
        entry.is_outermost = true;
        renewals.push(&entry.hold, runtime);
        events::acquired(key, entry.hold.id(), entry.hold.token(), grant.via, since);
        if grant.depth.depth != Some(1) {
            // The last change of the call graph before was not answered.
            entry.sync_later();
        }
        entry
    }

    /// Enters a hold once more. The store has the new depth before this returns, unless it is to follow
    /// in the background.
    ///
    /// It follows there too where the store has not answered within the response timeout, since the lock is held
    /// until the lease ends. Returns `None` if the hold has ended: then it cannot be re-entered.
    pub(crate) async fn nested(
        hold: Arc<Hold>,
        renewals: &Arc<RenewalSchedule>,
        ttl: Option<Duration>,
        (mode, depth_sync): (Mode, DepthSync),
    ) -> Option<Result<Self, LockError>> {
        match hold.deepen(mode, ttl) {
            Reentry::Entered => {}
            Reentry::Ended => return None,
            Reentry::Upgrade => {
                let key = hold.key().name().to_owned();
                return Some(Err(LockError::Upgrade { key }));
            }
        }
        let entry = Self::of(hold, renewals, depth_sync);
        let entered = match entry.hold.lost() {
            Some(reason) => Err(Failure::Lost(reason)),
            None if entry.syncs_later() => Ok(true),
            None => sync(&entry.hold, renewals.store(), renewals.response_timeout()).await,
        };
        Some(match entered {
            Ok(is_synced) => {
                if !is_synced {
                    events::depth_backgrounded(entry.hold.key(), entry.hold.id());
                    entry.sync_later();
                }
                events::reentered(entry.hold.key(), entry.hold.id(), || entry.hold.depth());
                Ok(entry)
            }
            Err(failure) => Err(entry.hold.error(failure)),
        })
    }

    fn of(hold: Arc<Hold>, renewals: &Arc<RenewalSchedule>, depth_sync: DepthSync) -> Self {
        Self {
            hold,
            renewals: Arc::clone(renewals),
            depth_sync,
            is_outermost: false,
            has_left: false,
            is_guards: false,
        }
    }

    /// A guard has it from now on.
    pub(crate) fn keep(&mut self) {
        self.is_guards = true;
        self.hold.add_guard();
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    /// Around what is done under it: nothing of its own, where it has entered the hold of another one.
    pub(crate) fn span(&self) -> Span {
        if self.is_outermost {
            self.hold.span()
        } else {
            Span::default()
        }
    }

    /// Takes one level off; see [`Exit`].
    pub(crate) fn exit(mut self) -> Exit<Self> {
        self.has_left = true;
        Exit::new(self, Self::leave)
    }

    /// Takes one level off. What there is to wait for goes on in the background if it is dropped.
    fn leave(&self) -> Option<Leaving> {
        match self.hold.lessen(self.is_guards.into()) {
            Remains::Nothing => end(&self.hold, &self.renewals),
            remains => self.follow(remains),
        }
    }

    /// Takes one level off. A hold that ends so is to be released together with others.
    pub(super) fn take_off(&mut self) -> Left {
        self.has_left = true;
        match self.hold.lessen(self.is_guards.into()) {
            Remains::Nothing => match finish(&self.hold, &self.renewals) {
                Some((release, runtime)) => Left::Hold(release, runtime),
                None => {
                    self.renewals.queues().activity().end();
                    Left::Level(None)
                }
            },
            remains => Left::Level(self.follow(remains)),
        }
    }

    /// Brings the store up to the depth that is left.
    fn follow(&self, remains: Remains) -> Option<Leaving> {
        if remains != Remains::LessDepth || self.syncs_later() {
            return None;
        }
        let (hold, renewals) = (Arc::clone(&self.hold), Arc::clone(&self.renewals));
        let runtime = renewals.runtime(&hold);
        let work = async move {
            let synced = sync(&hold, renewals.store(), Duration::MAX).await;
            synced.map(drop)
        };
        Some(Handover::new(runtime, self.hold.span(), work))
    }

    /// Lets a task bring the store up to the wanted depth, unless the caller waits for it. Where the store is away, one
    /// caller has waited in vain for all.
    fn syncs_later(&self) -> bool {
        let is_awaited = self.depth_sync == DepthSync::Awaited && !self.hold.is_store_away();
        !is_awaited && (self.sync_later() || self.depth_sync == DepthSync::Background)
    }

    /// Lets a task bring the store up to the wanted depth. Returns false where there is no runtime for it.
    fn sync_later(&self) -> bool {
        let Some(follower) = Follower::of(&self.hold, self.renewals.queues()) else {
            return true;
        };
        let runtime = self.renewals.runtime(&self.hold);
        let Some(runtime) = runtime.or_else(|| Handle::try_current().ok()) else {
            return false;
        };
        drop(runtime.spawn(follower.run()));
        true
    }
}

/// What is left to do when a level was taken off.
pub(super) enum Left {
    /// To bring the depth in the store up to date, if that is to be waited for.
    Level(Option<Leaving>),
    /// To release the lock, on this runtime unless it has ended.
    Hold(Release, Option<Handle>),
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.has_left {
            drop(self.leave());
        }
    }
}

impl Occupant for Entry {
    fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    fn renewals(&self) -> &Arc<RenewalSchedule> {
        &self.renewals
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

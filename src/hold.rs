//! One outermost acquisition, shared by everything that has entered it.

use std::{fmt, sync::Arc, time::Duration};

use tokio::{
    runtime::Handle,
    sync::watch,
    task::AbortHandle,
    time::{Instant, timeout},
};

use crate::{
    depth::Depth,
    error::{Failure, LockError, LostReason},
    id::{FencingToken, HoldId, Owner},
    key::LockKey,
    lease::Lease,
    options::{DepthSync, OnLost, Terms},
    queue::{Grant, Queue, Release},
    releaser::Handover,
    report,
    watchdog::Watchdog,
};

/// A lock that this call graph holds.
pub(crate) struct Hold {
    key: LockKey,
    id: HoldId,
    owner: Arc<Owner>,
    token: FencingToken,
    on_lost: OnLost,
    lease: Arc<Lease>,
    depth: Arc<Depth>,
    /// Whether some acquire of the hold was never answered.
    unanswered: bool,
    watchdog: AbortHandle,
    queue: Arc<Queue>,
    response_timeout: Duration,
    runtime: Handle,
}

impl Hold {
    /// Turns a won lock into a hold and starts its watchdog.
    pub(crate) fn start(
        grant: Grant,
        owner: Arc<Owner>,
        terms: Terms,
        outages: watch::Receiver<u64>,
        response_timeout: Duration,
    ) -> Entry {
        report::acquired(&grant.key, grant.hold, grant.token);
        let lease = Arc::new(Lease::new(
            grant.key.clone(),
            grant.hold,
            grant.sent,
            grant.lease,
            grant.ttl,
            terms.max_hold,
        ));
        let depth = Arc::new(Depth::new(
            Arc::clone(grant.queue.store()),
            grant.key.clone(),
            grant.hold,
            Arc::clone(&lease),
        ));
        let watchdog = Watchdog {
            store: Arc::clone(grant.queue.store()),
            key: grant.key.clone(),
            hold: grant.hold,
            lease: Arc::clone(&lease),
            depth: Arc::clone(&depth),
            response_timeout,
            outages,
        };
        let hold = Self {
            key: grant.key.clone(),
            id: grant.hold,
            owner,
            token: grant.token,
            on_lost: terms.on_lost,
            lease,
            depth,
            unanswered: grant.unanswered,
            watchdog: grant.runtime.spawn(watchdog.run()).abort_handle(),
            queue: Arc::clone(&grant.queue),
            response_timeout,
            runtime: grant.runtime.clone(),
        };
        grant.enter();
        Entry {
            hold: Arc::new(hold),
            depth_sync: terms.depth_sync,
            left: false,
        }
    }

    pub(crate) fn key(&self) -> &LockKey {
        &self.key
    }

    pub(crate) fn id(&self) -> HoldId {
        self.id
    }

    pub(crate) fn owner(&self) -> &Arc<Owner> {
        &self.owner
    }

    pub(crate) fn token(&self) -> FencingToken {
        self.token
    }

    pub(crate) fn depth(&self) -> u32 {
        self.depth.wanted()
    }

    pub(crate) fn remaining(&self) -> Duration {
        if self.depth() == 0 || self.lost().is_some() {
            return Duration::ZERO;
        }
        self.lease
            .deadline()
            .saturating_duration_since(Instant::now())
    }

    /// How the lock was lost, if it was.
    pub(crate) fn lost(&self) -> Option<LostReason> {
        self.lease.lost_by(Instant::now())
    }

    /// Whether a loss ends the body.
    pub(crate) fn aborts_on_loss(&self) -> bool {
        self.on_lost == OnLost::Abort
    }

    /// How the lock was lost, if the body has to end because of it.
    pub(crate) fn must_abort(&self) -> Option<LostReason> {
        self.aborts_on_loss().then(|| self.lost()).flatten()
    }

    pub(crate) async fn until_lost(&self) -> LostReason {
        self.lease.lost().await
    }

    pub(crate) fn lost_error(&self, reason: LostReason) -> LockError {
        Failure::Lost(reason).on(self.key.name())
    }

    /// Enters once more. The depth in the store follows before this returns, unless it is to follow
    /// in the background.
    ///
    /// A store that does not answer is asked again until the lease ends, since the lock is held all
    /// the while. `None` if the hold has ended: then it is nobody's to re-enter.
    pub(crate) async fn enter(
        self: Arc<Self>,
        ttl: Option<Duration>,
        depth_sync: DepthSync,
    ) -> Option<Result<Entry, LockError>> {
        if !self.depth.deepen(ttl) {
            return None;
        }
        let entry = Entry {
            hold: Arc::clone(&self),
            depth_sync,
            left: false,
        };
        let entered = match (self.lost(), depth_sync) {
            (Some(reason), _) => Err(Failure::Lost(reason)),
            (None, DepthSync::Awaited) => self.depth.sync().await,
            (None, DepthSync::Background) => {
                self.depth.sync_later();
                Ok(())
            }
        };
        Some(match entered {
            Ok(()) => Ok(entry),
            Err(failure) => Err(failure.on(self.key.name())),
        })
    }

    /// Takes one level off. What there is to wait for goes on if its waiter is dropped.
    fn leave(self: Arc<Self>, depth_sync: DepthSync) -> Option<Handover<Result<(), Failure>>> {
        let left = self.depth.rise();
        let runtime = self.runtime.clone();
        if left > 0 && depth_sync == DepthSync::Background {
            self.depth.sync_later();
            return None;
        }
        if left > 0 {
            let work = async move { self.depth.sync().await };
            return Some(Handover::new(&runtime, work));
        }
        self.watchdog.abort();
        self.lease.end();
        let release = Release {
            key: self.key.clone(),
            hold: self.id,
            tombstone: self.unanswered,
            deadline: self.lease.deadline(),
            ttl: self.lease.ttl(),
        };
        Some(Handover::new(&runtime, async move {
            let released = self.queue.release(release).await;
            if let Err(Failure::Lost(reason)) = released {
                self.lease.found_lost(reason);
            }
            released
        }))
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("key", &self.key)
            .field("id", &self.id)
            .field("token", &self.token)
            .field("depth", &self.depth())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}

/// One entry of a hold. Dropping it takes one level off in the background.
#[derive(Debug)]
pub(crate) struct Entry {
    hold: Arc<Hold>,
    depth_sync: DepthSync,
    /// Whether the level has been taken off.
    left: bool,
}

impl Entry {
    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    /// Takes one level off and waits for the store, but no longer than the response timeout: then
    /// the work goes on in the background (P13).
    ///
    /// Fails if the lock turns out to have been lost, where that is to end the body, and if the store
    /// refuses.
    pub(crate) async fn exit(mut self) -> Result<(), LockError> {
        self.left = true;
        let hold = &self.hold;
        let Some(work) = Arc::clone(hold).leave(self.depth_sync) else {
            return Ok(());
        };
        match timeout(hold.response_timeout, work).await {
            Ok(Err(Failure::Lost(_))) if !hold.aborts_on_loss() => Ok(()),
            Ok(result) => result.map_err(|failure| failure.on(hold.key.name())),
            Err(_elapsed) => {
                report::release_backgrounded(&hold.key, hold.id);
                Ok(())
            }
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.left {
            drop(Arc::clone(&self.hold).leave(self.depth_sync));
        }
    }
}

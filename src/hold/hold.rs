//! One outermost acquisition, shared by everything that has entered it.

use std::{fmt, sync::Arc, time::Duration};

use tokio::{runtime::Handle, sync::watch, task::AbortHandle, time::Instant};

use crate::{
    base::{
        background::Handover,
        error::{Effect, Failure, LockError, LostReason},
        events,
        id::{FencingToken, HoldId, Owner},
        key::LockKey,
        options::{DepthSync, OnLost, Terms},
        timer::timeout,
    },
    hold::{depth::Depth, lease::Lease, renewal::Watchdog},
    queue::{Cohort, LocalQueues, TokenSeries},
};

/// A lock that this call graph holds.
pub(crate) struct Hold {
    owner: Arc<Owner>,
    tokens: TokenSeries,
    on_lost: OnLost,
    /// With the lease, which it guards together with the renewals.
    depth: Arc<Depth>,
    renewal: AbortHandle,
    unanswered: bool,
    disconnects: u64,
    queues: Arc<LocalQueues>,
    response_timeout: Duration,
    runtime: Handle,
}

impl Hold {
    /// Turns a won lock into a hold, and starts its watchdog.
    pub(crate) fn start(
        cohort: Cohort,
        key: &LockKey,
        owner: Arc<Owner>,
        terms: Terms,
        context: Context,
    ) -> Entry {
        let Context {
            queues,
            mut disconnects,
            count,
            response_timeout,
            runtime,
        } = context;
        let seen = cohort.disconnects.unwrap_or(count);
        if seen != *disconnects.borrow() {
            disconnects.mark_changed();
        }
        let lease = Lease::new(key.clone(), cohort.hold, cohort.lease, terms.max_hold);
        let depth = Depth::new(Arc::clone(queues.store()), Arc::new(lease), cohort.depth);
        let depth = Arc::new(depth);
        if depth.is_behind() {
            depth.sync_later();
        }
        let watchdog = Watchdog {
            queues: Arc::clone(&queues),
            depth: Arc::clone(&depth),
            response_timeout,
            disconnects,
        };
        let hold = Self {
            owner,
            tokens: cohort.tokens,
            on_lost: terms.on_lost,
            depth,
            renewal: runtime.spawn(watchdog.run()).abort_handle(),
            unanswered: cohort.unanswered,
            disconnects: seen,
            queues,
            response_timeout,
            runtime,
        };
        events::acquired(key, hold.id(), hold.token());
        Entry {
            hold: Arc::new(hold),
            depth_sync: terms.depth_sync,
            left: false,
        }
    }

    pub(crate) fn lease(&self) -> &Arc<Lease> {
        self.depth.lease()
    }

    pub(crate) fn key(&self) -> &LockKey {
        self.lease().key()
    }

    pub(crate) fn id(&self) -> HoldId {
        self.lease().hold()
    }

    pub(crate) fn owner(&self) -> &Arc<Owner> {
        &self.owner
    }

    pub(crate) fn token(&self) -> FencingToken {
        self.tokens.token()
    }

    pub(crate) fn depth(&self) -> u32 {
        self.depth.wanted()
    }

    /// How the lock was lost, if it was.
    pub(crate) fn lost(&self) -> Option<LostReason> {
        self.lease().lost_by(Instant::now())
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
        self.lease().until_lost().await
    }

    pub(crate) fn lost_error(&self, reason: LostReason) -> LockError {
        Failure::Lost(reason).on(self.key().name())
    }

    /// Enters once more. The store has the new depth before this returns, unless it is to follow
    /// in the background.
    ///
    /// A store that does not answer is asked again until the lease ends, since the lock is held until
    /// then. Returns `None` if the hold has ended: then it cannot be re-entered.
    pub(crate) async fn enter(
        self: Arc<Self>,
        ttl: Option<Duration>,
        depth_sync: DepthSync,
    ) -> Option<Result<Entry, LockError>> {
        let depth = &self.depth;
        if !depth.deepen(ttl) {
            return None;
        }
        let entry = Entry {
            hold: Arc::clone(&self),
            depth_sync,
            left: false,
        };
        let entered = match (self.lost(), depth_sync) {
            (Some(reason), _) => Err(Failure::Lost(reason)),
            (None, DepthSync::Awaited) => depth.sync().await,
            (None, DepthSync::Background) => {
                depth.sync_later();
                Ok(())
            }
        };
        Some(match entered {
            Ok(()) => Ok(entry),
            Err(failure) => Err(failure.on(self.key().name())),
        })
    }

    /// Takes one level off. What there is to wait for goes on in the background if it is dropped.
    fn leave(self: Arc<Self>, depth_sync: DepthSync) -> Option<Handover<Result<(), Failure>>> {
        let depth = &self.depth;
        let left = depth.rise();
        let runtime = self.runtime.clone();
        if left > 0 && depth_sync == DepthSync::Background {
            depth.sync_later();
            return None;
        }
        if left > 0 {
            let depth = Arc::clone(depth);
            return Some(Handover::new(&runtime, async move { depth.sync().await }));
        }
        let cohort = self.end();
        if self.may_go_on() && self.queues.hand_on(self.key(), cohort) {
            return None;
        }
        let releasing = self.queues.release(self.key(), cohort.release());
        Some(Handover::new(&runtime, async move {
            let released = releasing.await;
            if let Err(Failure::Lost(reason)) = released {
                self.lease().found_lost(reason);
            }
            released
        }))
    }

    /// Ends what guards the lock, so that it may be released, or go on with another call graph.
    fn end(&self) -> Cohort {
        self.renewal.abort();
        let lease = self.lease();
        lease.end();
        Cohort {
            hold: self.id(),
            tokens: self.tokens,
            lease: lease.leased(),
            depth: self.depth.stored(),
            unanswered: self.unanswered,
            is_open: lease.lost_by(Instant::now()).is_none(),
            disconnects: Some(self.disconnects),
        }
    }

    fn may_go_on(&self) -> bool {
        self.lease().is_open() && !self.depth.is_lengthening()
    }
}

/// What a hold is started with.
pub(crate) struct Context {
    pub(crate) queues: Arc<LocalQueues>,
    /// From before the lock was asked for, so that no disconnect falls between that and the watchdog.
    pub(crate) disconnects: watch::Receiver<u64>,
    /// Their count then.
    pub(crate) count: u64,
    pub(crate) response_timeout: Duration,
    /// Where it is renewed and released.
    pub(crate) runtime: Handle,
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("key", self.key())
            .field("id", &self.id())
            .field("token", &self.token())
            .field("depth", &self.depth())
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
            // The store gave no answer until the lease had ended by itself.
            Ok(Err(Failure::Store(error))) if error.effect() != Effect::Refused => Ok(()),
            Ok(result) => result.map_err(|failure| failure.on(hold.key().name())),
            Err(_elapsed) => {
                events::release_backgrounded(hold.key(), hold.id());
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

//! One outermost acquisition, shared by everything that has entered it.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::Shared};
use tokio::{
    runtime::Handle,
    task::AbortHandle,
    time::{Instant, timeout, timeout_at},
};

use crate::{
    error::{Effect, LockError, LostReason, StoreError},
    id::{FencingToken, HoldId, Owner},
    key::LockKey,
    lease::Lease,
    mutex::Mutex,
    options::{OnLost, Terms},
    queue::{Grant, Queue, Release},
    releaser::{Handover, pauses},
    report,
    store::{Answer, DepthChange, Presence},
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
    depth: Mutex<Depth>,
    /// Whether some acquire of the hold was never answered.
    unanswered: bool,
    watchdog: AbortHandle,
    queue: Arc<Queue>,
    response_timeout: Duration,
    runtime: Handle,
}

/// The depth as it should be, and as the store last confirmed it.
#[derive(Debug)]
struct Depth {
    wanted: u32,
    /// `None` while a change is in flight or its outcome is unknown.
    stored: Option<u32>,
    seq: u64,
    /// Whether a re-entry has asked for a longer lease than the store was told of.
    lengthen: bool,
    /// The one change that is in flight.
    flight: Option<Flight>,
}

/// A change of the depth in flight. Whoever waits for it moves it on, so that an entry or an exit
/// which was begun and is not polled any more holds nobody up.
#[derive(Clone, Debug)]
struct Flight {
    change: DepthChange,
    /// Before the request is sent.
    sent: Instant,
    answer: Shared<Answer<Presence>>,
}

/// Why a re-entry failed.
enum Failure {
    Lost(LostReason),
    Store(StoreError),
}

impl Hold {
    /// Turns a won lock into a hold and starts its watchdog.
    pub(crate) fn start(
        grant: Grant,
        owner: Arc<Owner>,
        terms: Terms,
        response_timeout: Duration,
    ) -> Entry {
        report::acquired(&grant.key, grant.hold, grant.token);
        let lease = Arc::new(Lease::new(
            grant.sent,
            grant.lease,
            grant.ttl,
            terms.max_hold,
        ));
        let watchdog = Watchdog {
            store: Arc::clone(grant.queue.store()),
            key: grant.key.clone(),
            hold: grant.hold,
            lease: Arc::clone(&lease),
            response_timeout,
            outages: grant.queue.store().outages(),
        };
        let hold = Self {
            key: grant.key.clone(),
            id: grant.hold,
            owner,
            token: grant.token,
            on_lost: terms.on_lost,
            lease,
            depth: Mutex::new(Depth {
                wanted: 1,
                stored: Some(1),
                seq: 0,
                lengthen: false,
                flight: None,
            }),
            unanswered: grant.unanswered,
            watchdog: grant.runtime.spawn(watchdog.run()).abort_handle(),
            queue: Arc::clone(&grant.queue),
            response_timeout,
            runtime: grant.runtime.clone(),
        };
        grant.enter();
        Entry {
            hold: Arc::new(hold),
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
        self.depth.lock().wanted
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
        LockError::Lost {
            key: self.key.name().to_owned(),
            reason,
        }
    }

    /// Enters once more: the depth in the store follows before this returns.
    ///
    /// A store that does not answer is asked again until the lease ends, since the lock is held all
    /// the while. `None` if the hold has ended: then it is nobody's to re-enter.
    pub(crate) async fn enter(
        self: Arc<Self>,
        ttl: Option<Duration>,
    ) -> Option<Result<Entry, LockError>> {
        {
            let mut depth = self.depth.lock();
            if depth.wanted == 0 {
                return None;
            }
            depth.wanted += 1;
            depth.lengthen |= ttl.is_some_and(|ttl| self.lease.raise_ttl(ttl));
        }
        let entry = Entry {
            hold: Arc::clone(&self),
            left: false,
        };
        let entered = match self.lost() {
            Some(reason) => Err(Failure::Lost(reason)),
            None => self.sync().await,
        };
        Some(match entered {
            Ok(()) => Ok(entry),
            Err(Failure::Lost(reason)) => Err(self.lost_error(reason)),
            Err(Failure::Store(source)) => Err(LockError::Store {
                key: Some(self.key.name().to_owned()),
                source,
            }),
        })
    }

    /// Brings the depth in the store to the wanted one.
    async fn sync(&self) -> Result<(), Failure> {
        let mut pauses = pauses();
        while let Some(flight) = self.flight() {
            if let Some(reason) = self.lease.lost_by(Instant::now()) {
                return Err(Failure::Lost(reason));
            }
            match timeout_at(self.lease.deadline(), flight.answer.clone()).await {
                Ok(Ok(Presence::Present)) => self.confirm(&flight),
                Ok(Ok(Presence::Gone)) => {
                    // A hold that is being released is gone rightly.
                    if self.depth() > 0 {
                        self.lease.lose(LostReason::Gone);
                    }
                    return Err(Failure::Lost(LostReason::Gone));
                }
                Ok(Err(error)) => {
                    let first_to_know = self.land(&flight, None);
                    if error.effect() == Effect::Refused {
                        return Err(Failure::Store(error));
                    }
                    if first_to_know {
                        report::depth_retried(&self.key, self.id, &error);
                    }
                    let pause = Instant::now() + pauses.next().unwrap_or_default();
                    tokio::time::sleep_until(pause.min(self.lease.deadline())).await;
                }
                Err(_lease_ended) => {}
            }
        }
        Ok(())
    }

    /// The change that is in flight, or the next one that the store needs, if any. From here on its
    /// depth is unknown until confirmed.
    fn flight(&self) -> Option<Flight> {
        let mut depth = self.depth.lock();
        let settled = depth.stored == Some(depth.wanted) && !depth.lengthen;
        if settled || depth.wanted == 0 {
            return None;
        }
        if depth.flight.is_some() {
            return depth.flight.clone();
        }
        depth.stored = None;
        depth.seq += 1;
        let change = DepthChange {
            hold: self.id,
            target: depth.wanted,
            seq: depth.seq,
            ttl: self.lease.ttl(),
            lengthen: depth.lengthen,
        };
        let flight = Flight {
            change,
            sent: Instant::now(),
            answer: self.queue.store().depth(&self.key, change).shared(),
        };
        depth.flight = Some(flight.clone());
        Some(flight)
    }

    fn confirm(&self, flight: &Flight) {
        let change = flight.change;
        if change.lengthen {
            self.lease.confirm(flight.sent, change.ttl);
        }
        self.land(flight, Some(change.target));
    }

    /// The flight has been answered, and the depth in the store is now `stored`. Whether the caller
    /// is the first to know.
    fn land(&self, flight: &Flight, stored: Option<u32>) -> bool {
        let change = flight.change;
        let mut depth = self.depth.lock();
        let present = |flight: &mut Flight| flight.change.seq == change.seq;
        let first = depth.flight.take_if(present).is_some();
        if first && stored.is_some() {
            depth.stored = stored;
            depth.lengthen &= change.ttl < self.lease.ttl();
        }
        first
    }

    /// Takes one level off. The work that follows from it goes on if its waiter is dropped.
    fn leave(self: Arc<Self>) -> Handover<Option<LostReason>> {
        let wanted = {
            let mut depth = self.depth.lock();
            depth.wanted = depth.wanted.saturating_sub(1);
            depth.wanted
        };
        let runtime = self.runtime.clone();
        if wanted > 0 {
            return Handover::new(&runtime, async move {
                match self.sync().await {
                    Err(Failure::Lost(reason)) => Some(reason),
                    Ok(()) | Err(Failure::Store(_)) => None,
                }
            });
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
        Handover::new(&runtime, async move { self.queue.release(release).await })
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
    /// An error means that the lock turns out to have been lost, where that is to end the body.
    pub(crate) async fn exit(mut self) -> Result<(), LockError> {
        self.left = true;
        let hold = &self.hold;
        match timeout(hold.response_timeout, Arc::clone(hold).leave()).await {
            Ok(Some(reason)) if hold.aborts_on_loss() => Err(hold.lost_error(reason)),
            Ok(_) => Ok(()),
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
            drop(Arc::clone(&self.hold).leave());
        }
    }
}

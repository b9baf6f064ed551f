//! One outermost acquisition, shared by everything that has entered it.
//!
//! It keeps nothing alive: what it needs of its `Locks` is with those who have entered
//! ([`Entry`](super::entry::Entry)).

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::runtime;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::base::error::LostReason;
use crate::base::events;
use crate::base::id::{FencingToken, HoldId, Owner, OwnerId};
use crate::base::key::LockKey;
use crate::base::metrics::Stopwatch;
use crate::base::option_types::{Confirm, Mode, OnLost};
use crate::base::options::Terms;
use crate::base::span::Span;
use crate::base::sync::Mutex;
use crate::hold::depth::{Depth, Remains};
use crate::hold::group::Group;
use crate::hold::lease::Lease;
use crate::hold::schedule::ScheduleSlot;
use crate::queue::{Grant, TokenSeries};

mod end;
mod losses;
pub(super) mod renewing;

/// The holds of an entry: in most cases one.
pub(crate) type Holds = SmallVec<[Arc<Hold>; 1]>;

/// A lock that a call graph holds, or has held.
pub(crate) struct Hold {
    key: LockKey,
    id: HoldId,
    /// How many permits it takes.
    permits: u32,
    tokens: TokenSeries,
    graph: CallGraph,
    on_lost: OnLost,
    /// Those that were taken together with it, where it is one of several.
    group: Option<Arc<Group<Self>>>,
    /// Whether some acquire of the hold was never answered.
    unanswered: bool,
    /// How many replicas must have it before it counts.
    pub(super) confirm: Option<Confirm>,
    /// Where it is renewed and released, and its place in the schedule there.
    runtime: runtime::Id,
    slot: OnceLock<ScheduleSlot>,
    began: Stopwatch,
    state: Mutex<HoldState>,
    /// Notified of the loss, and of the end if a renewal is in flight or the hold has a label.
    over: Notify,
}

/// What changes while a lock is held.
pub(super) struct HoldState {
    pub(super) lease: Lease,
    pub(super) depth: Depth,
    /// Shared from the moment on at which a downgrade is sent.
    pub(super) mode: Mode,
    /// How long the lock is held at least.
    min_hold: Option<Duration>,
    /// How many of the entries are those of guards: in no body that a loss could end.
    guards: u32,
    /// Whether a wait inside it was chosen to end a deadlock.
    gives_way: bool,
    /// Whether a task waits for the end, to remove its label.
    is_labelled: bool,
    /// Whether a renewal is about this hold alone, since one that was about others too may have failed because of it.
    is_renewed_alone: bool,
    /// Around the hold, until its release is answered.
    span: Span,
}

impl HoldState {
    fn is_upgrade(&self, wanted: Mode) -> bool {
        self.depth.wanted() > 0 && wanted == Mode::Exclusive && self.mode == Mode::Shared
    }
}

/// What became of an attempt to enter a hold once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reentry {
    Entered,
    /// It has ended, and cannot be entered any more.
    Ended,
    /// It shares its lock, which was wanted exclusively.
    Upgrade,
}

/// The call graph that takes a lock.
#[derive(Debug)]
pub(crate) enum CallGraph {
    /// It holds no other lock: the first hold keeps its identity and the counter of its holds.
    New(Owner),
    /// It has begun with this hold.
    Of(Arc<Hold>),
}

impl CallGraph {
    pub(crate) fn owner(&self) -> &Owner {
        match self {
            Self::New(owner) => owner,
            Self::Of(first) => first.graph.owner(),
        }
    }

    /// Whether it may hold other locks.
    pub(crate) fn has_begun(&self) -> bool {
        matches!(self, Self::Of(_))
    }
}

impl Hold {
    /// The hold of a lock that was won.
    pub(super) fn new(
        grant: Grant,
        key: &LockKey,
        graph: CallGraph,
        terms: Terms,
        group: Option<Arc<Group<Self>>>,
        runtime: runtime::Id,
    ) -> Arc<Self> {
        let state = HoldState {
            lease: Lease::new(grant.lease, grant.disconnects, terms.max_hold, terms.grace),
            depth: Depth::new(grant.depth),
            mode: grant.mode,
            min_hold: None,
            guards: 0,
            gives_way: false,
            is_labelled: false,
            is_renewed_alone: false,
            span: Span::default(),
        };
        Arc::new(Self {
            key: key.clone(),
            id: grant.hold,
            permits: grant.permits,
            tokens: grant.tokens,
            graph,
            on_lost: terms.on_lost,
            group,
            unanswered: grant.unanswered,
            confirm: terms.confirm,
            runtime,
            slot: OnceLock::new(),
            began: Stopwatch::start(),
            state: Mutex::new(state),
            over: Notify::new(),
        })
    }

    pub(crate) fn key(&self) -> &LockKey {
        &self.key
    }

    pub(crate) fn id(&self) -> HoldId {
        self.id
    }

    /// Its ids in the lock: one for each permit.
    pub(super) fn ids(&self) -> impl Iterator<Item = HoldId> {
        self.id.of_permits(self.permits)
    }

    pub(crate) fn token(&self) -> FencingToken {
        self.tokens.token()
    }

    /// The identity of the call graph.
    pub(crate) fn owner(&self) -> OwnerId {
        self.graph.owner().id()
    }

    /// Its call graph, for the locks that are taken under it.
    pub(crate) fn graph(self: &Arc<Self>) -> CallGraph {
        CallGraph::Of(match &self.graph {
            CallGraph::New(_) => Arc::clone(self),
            CallGraph::Of(first) => Arc::clone(first),
        })
    }

    pub(crate) fn depth(&self) -> u32 {
        self.state.lock().depth.wanted()
    }

    /// Whether it shares its lock.
    pub(crate) fn mode(&self) -> Mode {
        self.state.lock().mode
    }

    /// How the lock was lost, if it was.
    pub(crate) fn lost(&self) -> Option<LostReason> {
        self.change(|state| state.lease.lost_by(Instant::now()))
    }

    /// How long the lease is certain to last; zero once the hold is lost or released.
    pub(crate) fn remaining(&self) -> Duration {
        let now = Instant::now();
        self.change(|state| match state.lease.lost_by(now) {
            None if state.depth.wanted() > 0 => {
                state.lease.deadline().saturating_duration_since(now)
            }
            _ => Duration::ZERO,
        })
    }

    /// Whether a loss ends the body.
    pub(crate) fn aborts_on_loss(&self) -> bool {
        self.on_lost == OnLost::Abort
    }

    /// How the lock was lost, if the body has to end because of it.
    pub(crate) fn must_abort(&self) -> Option<LostReason> {
        self.aborts_on_loss().then(|| self.lost()).flatten()
    }

    /// Marks the lock as lost; the first reason stands.
    pub(crate) fn lose(&self, reason: LostReason) {
        self.change(|state| state.lease.lose(reason));
    }

    /// One level more, and a lease of at least `ttl`.
    pub(super) fn deepen(&self, wanted: Mode, ttl: Option<Duration>) -> Reentry {
        self.change(|state| {
            if state.is_upgrade(wanted) {
                return Reentry::Upgrade;
            }
            if !state.depth.deepen() {
                return Reentry::Ended;
            }
            if ttl.is_some_and(|ttl| state.lease.raise_ttl(ttl)) {
                state.depth.lengthen();
            }
            Reentry::Entered
        })
    }

    /// Whether the lock is held shared, and wanted exclusively.
    pub(crate) fn is_upgrade(&self, wanted: Mode) -> bool {
        self.state.lock().is_upgrade(wanted)
    }

    /// One level less, and so many guards.
    pub(super) fn lessen(&self, guards: u32) -> Remains {
        self.change(|state| {
            state.guards = state.guards.saturating_sub(guards);
            state.depth.lessen()
        })
    }

    /// Whether the store has left a caller without an answer that waited for the depth.
    pub(super) fn is_store_away(&self) -> bool {
        self.state.lock().depth.is_away
    }

    /// Notes that a caller has waited in vain for the store to take in that it has left.
    pub(super) fn note_unanswered(&self) {
        self.change(|state| state.depth.is_away = true);
        events::release_backgrounded(&self.key, self.id);
    }

    /// One member more. Returns false if the hold has ended: then it cannot be joined.
    pub(super) fn join(&self) -> bool {
        self.change(|state| state.depth.join())
    }

    /// One member less.
    pub(super) fn leave(&self) -> Remains {
        self.change(|state| state.depth.leave())
    }

    /// Changes the state. Every loss passes through here: the first reason stands, and is reported once.
    pub(super) fn change<T>(&self, work: impl FnOnce(&mut HoldState) -> T) -> T {
        let mut state = self.state.lock();
        let before = state.lease.lost();
        let output = work(&mut state);
        let lost = state.lease.lost().filter(|_| before.is_none());
        drop(state);
        if let Some(reason) = lost {
            let span = self.span();
            span.fail("lost");
            span.in_scope(|| events::lost(&self.key, self.id, reason, self.tokens.since()));
            self.over.notify_waiters();
            self.lose_others(reason);
        }
        output
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("key", &self.key)
            .field("id", &self.id)
            .field("token", &self.token())
            .field("depth", &self.depth())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::LockError;
    use crate::base::options::Options;

    const SECOND: Duration = Duration::from_secs(1);

    fn held() -> Result<Arc<Hold>, LockError> {
        let owner = Owner::new();
        let grant = Grant::won(owner.next_hold(), Instant::now(), SECOND, SECOND);
        let key = LockKey::new("", "order:42")?;
        let terms = Options::default().resolve(Options::default())?;
        let runtime = runtime::Handle::current().id();
        let graph = CallGraph::New(owner);
        Ok(Hold::new(grant, &key, graph, terms, None, runtime))
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_is_noticed_without_a_renewal() -> Result<(), LockError> {
        let hold = held()?;
        let deadline = hold.deadline();
        assert_eq!(hold.until_lost().await, LostReason::Unconfirmed);
        assert!(Instant::now() < deadline + SECOND / 100);
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_hold_that_has_ended_is_never_lost() -> Result<(), LockError> {
        let hold = held()?;
        hold.end(0);
        tokio::time::advance(2 * SECOND).await;
        assert_eq!(hold.lost(), None);
        hold.until_ended().await;
        Ok(())
    }
}

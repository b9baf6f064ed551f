//! One outermost acquisition, shared by everything that has entered it.
//!
//! It keeps nothing alive: its entries ([`Entry`](super::entry::Entry)) hold what it needs of its `Locks`.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::runtime;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::base::error::{LockError, LostReason};
use crate::base::events;
use crate::base::id::{FencingToken, HoldId, Owner, OwnerId};
use crate::base::key::LockKey;
use crate::base::lease_times::TokenSeries;
use crate::base::metrics::Stopwatch;
use crate::base::options::{Confirm, LockOptions, Mode, OnLost};
use crate::base::span::Span;
use crate::base::sync::Mutex;
use crate::hold::lease::Lease;
use crate::queue::{Grant, StoredDepth};

mod end;
mod lease_access;

/// The holds of an entry, usually one.
pub(crate) type Holds = SmallVec<[Arc<Hold>; 1]>;

/// A lock that a call graph holds, or has held.
pub(crate) struct Hold {
    key: LockKey,
    id: HoldId,
    mode: Mode,
    tokens: TokenSeries,
    graph: CallGraph,
    on_lost: OnLost,
    /// The holds that were acquired together with it, if it is one of several.
    pub(super) group: Option<Arc<Group>>,
    /// Whether some acquire of the hold was never answered.
    unanswered: bool,
    /// The number of replicas that must have it before it counts.
    pub(super) confirm: Option<Confirm>,
    /// The runtime on which it is renewed and released.
    pub(super) runtime: runtime::Id,
    began: Stopwatch,
    /// A loss is found and reported by [`change`](Self::change).
    pub(super) state: Mutex<HoldState>,
    /// The signal of the loss. It also signals the end, and a confirmation, if a renewal is in flight.
    changed: Notify,
}

/// The state of a hold that changes.
pub(super) struct HoldState {
    pub(super) lease: Lease,
    pub(super) depth: Depth,
    /// The end of `min_hold`: until then the lock is held, whatever its holder does.
    min_hold_end: Option<Instant>,
    /// Where it is in the schedule of its runtime.
    scheduled: Option<ScheduleKey>,
    /// The attempts to renew it that have no response yet.
    attempts: Option<UnansweredAttempts>,
    /// Whether a renewal must be about this hold only, because a common one may have failed because of it.
    pub(super) is_renewed_alone: bool,
    /// The span around the hold, until its release is answered.
    span: Span,
}

/// The position of a hold in the schedule of its runtime, which is ordered by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ScheduleKey {
    /// The time at which the hold is checked next.
    pub(super) at: Instant,
    /// The number of the hold on its runtime.
    pub(super) number: u64,
}

/// The times of the first and the last attempt to renew a hold, among those that have no response yet.
#[derive(Clone, Copy, Debug)]
struct UnansweredAttempts {
    first: Instant,
    last: Instant,
}

/// The holds of several keys that one acquisition has taken. Their loss is common. Its mutex comes after that of the
/// schedules, and before the state of a hold. A hold does not lock it while its own state is locked.
pub(crate) type Group = Mutex<GroupState>;

#[derive(Debug, Default)]
pub(crate) struct GroupState {
    /// The holds. A loss changes nothing for those that have ended.
    members: Vec<Weak<Hold>>,
    /// The lock that was lost first, and the reason.
    loss: Option<(LockKey, LostReason)>,
}

impl HoldState {
    pub(super) fn is_in_min_hold(&self) -> bool {
        self.min_hold_end.is_some_and(|end| Instant::now() < end)
    }
}

impl GroupState {
    fn members(&self) -> Vec<Arc<Hold>> {
        self.members.iter().filter_map(Weak::upgrade).collect()
    }
}

/// The call graph that acquires a lock.
#[derive(Debug)]
pub(crate) enum CallGraph {
    /// A call graph that holds no other lock. The first hold has its identity and the counter of its holds.
    New(Owner),
    /// A call graph that began with this hold.
    Begun(Arc<Hold>),
}

impl CallGraph {
    pub(crate) fn owner(&self) -> &Owner {
        match self {
            Self::New(owner) => owner,
            Self::Begun(first) => first.graph.owner(),
        }
    }

    /// Returns whether it may hold other locks.
    pub(crate) fn has_begun(&self) -> bool {
        matches!(self, Self::Begun(_))
    }
}

impl Hold {
    /// The hold of a lock that was acquired.
    pub(super) fn new(
        grant: Grant,
        key: &LockKey,
        graph: CallGraph,
        terms: &LockOptions,
        group: Option<Arc<Group>>,
        runtime: runtime::Id,
    ) -> Arc<Self> {
        let state = HoldState {
            lease: Lease::new(grant.lease, grant.generation, terms.max_hold, terms.grace),
            depth: Depth {
                // The caller that acquired the lock is inside. A guard takes this entry over.
                calls: 1,
                guards: 0,
                members: 0,
                stored: grant.depth,
                has_mirror: false,
            },
            min_hold_end: None,
            scheduled: None,
            attempts: None,
            is_renewed_alone: false,
            span: Span::default(),
        };
        Arc::new(Self {
            key: key.clone(),
            id: grant.hold,
            mode: grant.mode,
            tokens: grant.tokens,
            graph,
            on_lost: terms.on_lost,
            group,
            unanswered: grant.unanswered,
            confirm: terms.confirm,
            runtime,
            began: Stopwatch::start(),
            state: Mutex::new(state),
            changed: Notify::new(),
        })
    }

    pub(crate) fn key(&self) -> &LockKey {
        &self.key
    }

    pub(crate) fn id(&self) -> HoldId {
        self.id
    }

    pub(crate) fn token(&self) -> FencingToken {
        self.tokens.token()
    }

    pub(crate) fn owner(&self) -> OwnerId {
        self.graph.owner().id()
    }

    /// Its call graph, for the locks that are acquired under it.
    pub(crate) fn graph(self: &Arc<Self>) -> CallGraph {
        // The reference is always to the first hold, which has the counter of the ids. So holds never form a list that
        // keeps those in between alive.
        CallGraph::Begun(match &self.graph {
            CallGraph::New(_) => Arc::clone(self),
            CallGraph::Begun(first) => Arc::clone(first),
        })
    }

    pub(crate) fn depth(&self) -> u32 {
        self.state.lock().depth.target()
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    /// The reason of the loss, if the lock was lost.
    pub(crate) fn check_loss(&self) -> Option<LostReason> {
        // Not only what was noted: the deadline may have passed, and the task of the schedule may not have run since
        // (P5).
        self.change(|state| state.lease.check_loss(Instant::now()))
    }

    /// The time for which the lease certainly lasts; zero after the hold was lost or released.
    pub(crate) fn remaining(&self) -> Duration {
        let now = Instant::now();
        self.change(|state| match state.lease.check_loss(now) {
            // After the end of a hold its deadline may still lie ahead, but the lock is released.
            None if state.depth.target() > 0 => {
                state.lease.deadline().saturating_duration_since(now)
            }
            _ => Duration::ZERO,
        })
    }

    pub(crate) fn aborts_on_loss(&self) -> bool {
        self.on_lost == OnLost::Abort
    }

    /// The loss, if the body must end because of it.
    pub(crate) fn abort_error(&self) -> Option<LockError> {
        let reason = self.check_loss().filter(|_| self.aborts_on_loss())?;
        Some(self.lost_error(reason))
    }

    /// Marks the lock as lost. The first reason counts.
    pub(crate) fn lose(&self, reason: LostReason) {
        self.change(|state| state.lease.lose(reason));
    }

    /// Adds an entry, and requests a lease of at least `ttl`. Returns false if the hold has ended: then it cannot be
    /// entered.
    pub(super) fn enter(&self, kind: EntryKind, ttl: Option<Duration>) -> bool {
        let is_held = self.change(|state| state.depth.enter(kind));
        let ttl = ttl.filter(|_| is_held);
        let longer = ttl.filter(|ttl| self.change(|state| state.lease.raise_ttl(*ttl)));
        if let (Some(ttl), Some(group)) = (longer, &self.group) {
            // The first of them to expire ends all. The mutex of the group is released before their states are changed,
            // because a change that finds a loss locks it again.
            let members = group.lock().members();
            for other in members {
                other.change(|state| state.lease.raise_ttl(ttl));
            }
        }
        is_held
    }

    /// Removes an entry. Returns whether the hold has ended with it.
    pub(super) fn leave(&self, kind: EntryKind) -> bool {
        self.change(|state| state.depth.leave(kind))
    }

    /// Changes the state. Every loss passes through here. The first reason counts, and is reported once.
    pub(super) fn change<T>(&self, work: impl FnOnce(&mut HoldState) -> T) -> T {
        let mut state = self.state.lock();
        let before = state.lease.lost();
        let output = work(&mut state);
        // Whatever the work was, it may have found the deadline passed.
        let lost = state.lease.lost().filter(|_| before.is_none());
        drop(state);
        if let Some(reason) = lost {
            // After the mutex is released, because spans, events and wakers run foreign code, and the other holds of
            // the group lock their own states.
            let span = self.span();
            span.fail("lost");
            span.in_scope(|| events::lost(&self.key, self.id, reason, self.tokens.since()));
            self.changed.notify_waiters();
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

/// The depth of one hold. It is authoritative here, and the depth in the store follows.
#[derive(Debug)]
pub(crate) struct Depth {
    calls: u32,
    guards: u32,
    members: u32,
    /// The depth is `None` while a change is in flight or its outcome is unknown.
    pub(super) stored: StoredDepth,
    /// Whether a task updates the store.
    pub(super) has_mirror: bool,
}

/// What an entry of a hold belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// A call, or an acquisition.
    Call,
    /// A guard. It is in no body that a loss could end.
    Guard,
    /// Work that has left its task, or the minimum time of the lock. It keeps the hold, and adds nothing to the depth.
    Member,
}

impl Depth {
    /// The depth that the store must have; 0 after the hold has ended. It is 1 while only members are left.
    pub(super) fn target(&self) -> u32 {
        (self.calls + self.guards).max(self.members.min(1))
    }

    pub(super) fn is_left_to_guards(&self) -> bool {
        (self.calls, self.members) == (0, 0)
    }

    pub(super) fn is_one_member(&self) -> bool {
        (self.calls, self.guards, self.members) == (0, 0, 1)
    }

    fn count(&mut self, kind: EntryKind) -> &mut u32 {
        match kind {
            EntryKind::Call => &mut self.calls,
            EntryKind::Guard => &mut self.guards,
            EntryKind::Member => &mut self.members,
        }
    }

    /// Adds an entry. Returns false if the hold has ended: then it cannot be entered.
    pub(super) fn enter(&mut self, kind: EntryKind) -> bool {
        // A hold whose depth has reached 0 ends, and its release may be on its way. So the depth cannot rise again.
        let is_held = self.target() > 0;
        *self.count(kind) += u32::from(is_held);
        is_held
    }

    /// Removes an entry. Returns whether the hold has ended with it, and not before, because it was given up.
    pub(super) fn leave(&mut self, kind: EntryKind) -> bool {
        // A hold that was given up has ended already. Its entry, which is still there, must not end it once more.
        let was_held = self.target() > 0;
        let count = self.count(kind);
        *count = count.saturating_sub(1);
        was_held && self.target() == 0
    }

    /// Makes the entry of a call that of a guard.
    pub(super) fn convert_to_guard(&mut self) {
        self.calls = self.calls.saturating_sub(1);
        self.guards += 1;
    }
}

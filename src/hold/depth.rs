//! The number of nested entries and members of a hold, and the depth that the store has for it.

use std::mem;
use std::time::Duration;

use crate::base::id::HoldId;
use crate::base::option_types::Mode;
use crate::queue::StoredDepth;
use crate::store::DepthChange;

/// The depth of one hold. The wanted depth is authoritative. A task updates the store to it, one change at a time.
/// After an unknown outcome, the next change updates it.
#[derive(Debug)]
pub(crate) struct Depth {
    calls: u32,
    guards: u32,
    members: u32,
    /// The depth is `None` while a change is in flight or its outcome is unknown.
    stored: StoredDepth,
    /// Whether a re-entry has requested a longer lease than the store knows of.
    lengthen: bool,
    /// Whether a task updates the store.
    is_mirrored: bool,
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
    /// The depth of a hold that is entered, as the previous turn has left it in the store.
    pub(super) fn new(stored: StoredDepth) -> Self {
        Self {
            calls: 1,
            guards: 0,
            members: 0,
            stored,
            lengthen: false,
            is_mirrored: false,
        }
    }

    /// The wanted depth; 0 after the hold has ended. It is 1 while only members are left.
    pub(super) fn wanted(&self) -> u32 {
        (self.calls + self.guards).max(self.members.min(1))
    }

    /// Returns whether only guards are left.
    pub(super) fn is_left_to_guards(&self) -> bool {
        (self.calls, self.members) == (0, 0)
    }

    /// Returns whether one member alone is left.
    pub(super) fn is_one_member(&self) -> bool {
        (self.calls, self.guards, self.members) == (0, 0, 1)
    }

    /// The depth that the store has, for the call graph that continues the hold.
    pub(super) fn stored(&self) -> StoredDepth {
        self.stored
    }

    /// Returns whether a re-entry has requested a longer lease that the store has not confirmed.
    pub(super) fn is_lengthening(&self) -> bool {
        self.lengthen
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
        let is_held = self.wanted() > 0;
        *self.count(kind) += u32::from(is_held);
        is_held
    }

    /// Removes an entry. Returns whether the hold has ended with it, and not before, because it was given up.
    pub(super) fn leave(&mut self, kind: EntryKind) -> bool {
        let was_held = self.wanted() > 0;
        let count = self.count(kind);
        *count = count.saturating_sub(1);
        was_held && self.wanted() == 0
    }

    /// Makes the entry of a call that of a guard.
    pub(super) fn give_to_guard(&mut self) {
        self.calls = self.calls.saturating_sub(1);
        self.guards += 1;
    }

    /// Notes that the next change must lengthen the lease.
    pub(super) fn lengthen(&mut self) {
        self.lengthen = true;
    }

    /// Returns whether a task must be started that updates the store.
    pub(super) fn begin_to_mirror(&mut self) -> bool {
        self.is_stale() && !mem::replace(&mut self.is_mirrored, true)
    }

    fn is_stale(&self) -> bool {
        let is_settled = self.stored.depth == Some(self.wanted()) && !self.lengthen;
        !is_settled && self.wanted() > 0
    }

    /// The next change for the task to send. From here on the depth in the store is unknown until it is confirmed.
    /// `None` if there is nothing left to do: then the task ends.
    pub(super) fn next(&mut self, hold: HoldId, mode: Mode, ttl: Duration) -> Option<DepthChange> {
        self.is_mirrored = self.is_stale();
        self.is_mirrored.then(|| {
            self.stored.depth = None;
            self.stored.seq += 1;
            DepthChange {
                hold,
                mode,
                target: self.wanted(),
                seq: self.stored.seq,
                ttl,
                lengthen: self.lengthen,
            }
        })
    }

    /// Notes that the store has this change.
    pub(super) fn confirm(&mut self, change: DepthChange, ttl: Duration) {
        self.stored.depth = Some(change.target);
        self.lengthen &= change.ttl < ttl;
    }

    /// Notes that the task has ended early.
    pub(super) fn stop_to_mirror(&mut self) {
        self.is_mirrored = false;
    }
}

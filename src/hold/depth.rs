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
    entries: u32,
    /// The number of members: work that has left its task under the hold, and has not ended.
    members: u32,
    /// The depth is `None` while a change is in flight or its outcome is unknown.
    stored: StoredDepth,
    /// Whether a re-entry has requested a longer lease than the store knows of.
    lengthen: bool,
    /// Whether a task updates the store.
    is_mirrored: bool,
}

/// The remains of a hold after an entry or a member has left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remains {
    /// The hold has ended.
    Nothing,
    /// Other entries or members remain.
    Something,
}

impl Depth {
    /// The depth of a hold that is entered, as the previous turn has left it in the store.
    pub(super) fn new(stored: StoredDepth) -> Self {
        Self {
            entries: 1,
            members: 0,
            stored,
            lengthen: false,
            is_mirrored: false,
        }
    }

    /// The wanted depth; 0 after the hold has ended. Members keep the field in the store without being counted there.
    pub(super) fn wanted(&self) -> u32 {
        self.entries.max(self.members.min(1))
    }

    /// Returns whether there are exactly this number of entries, and no members.
    pub(super) fn is_only(&self, entries: u32) -> bool {
        (self.entries, self.members) == (entries, 0)
    }

    /// Returns whether there is one member, and no entry.
    pub(super) fn is_one_member(&self) -> bool {
        (self.entries, self.members) == (0, 1)
    }

    /// The depth that the store has, for the call graph that continues the hold.
    pub(super) fn stored(&self) -> StoredDepth {
        self.stored
    }

    /// Returns whether a re-entry has requested a longer lease that the store has not confirmed.
    pub(super) fn is_lengthening(&self) -> bool {
        self.lengthen
    }

    /// Adds one level. Returns false if the hold has ended: then it cannot be re-entered.
    pub(super) fn deepen(&mut self) -> bool {
        let is_held = self.wanted() > 0;
        self.entries += u32::from(is_held);
        is_held
    }

    /// Adds one member. Returns false if the hold has ended: then it cannot be joined.
    pub(super) fn join(&mut self) -> bool {
        let is_held = self.wanted() > 0;
        self.members += u32::from(is_held);
        is_held
    }

    /// Removes one member.
    pub(super) fn leave(&mut self) -> Remains {
        self.members = self.members.saturating_sub(1);
        self.remains()
    }

    /// Notes that the next change must lengthen the lease.
    pub(super) fn lengthen(&mut self) {
        self.lengthen = true;
    }

    /// Removes one level. Nothing follows if the hold has ended already, because it was given up.
    pub(super) fn lessen(&mut self) -> Remains {
        if self.wanted() == 0 {
            return Remains::Something;
        }
        self.entries = self.entries.saturating_sub(1);
        self.remains()
    }

    fn remains(&self) -> Remains {
        match self.wanted() {
            0 => Remains::Nothing,
            _ => Remains::Something,
        }
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

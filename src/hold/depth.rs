//! The number of nested entries and members of a hold, and the depth that the store has for it.

use crate::queue::StoredDepth;

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
    /// The depth of a hold that is entered, as the previous turn has left it in the store.
    pub(super) fn new(stored: StoredDepth) -> Self {
        Self {
            calls: 1,
            guards: 0,
            members: 0,
            stored,
            has_mirror: false,
        }
    }

    /// The depth that the store must have; 0 after the hold has ended. It is 1 while only members are left.
    pub(super) fn target(&self) -> u32 {
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

    fn count(&mut self, kind: EntryKind) -> &mut u32 {
        match kind {
            EntryKind::Call => &mut self.calls,
            EntryKind::Guard => &mut self.guards,
            EntryKind::Member => &mut self.members,
        }
    }

    /// Adds an entry. Returns false if the hold has ended: then it cannot be entered.
    pub(super) fn enter(&mut self, kind: EntryKind) -> bool {
        let is_held = self.target() > 0;
        *self.count(kind) += u32::from(is_held);
        is_held
    }

    /// Removes an entry. Returns whether the hold has ended with it, and not before, because it was given up.
    pub(super) fn leave(&mut self, kind: EntryKind) -> bool {
        let was_held = self.target() > 0;
        let count = self.count(kind);
        *count = count.saturating_sub(1);
        was_held && self.target() == 0
    }

    /// Makes the entry of a call that of a guard.
    pub(super) fn give_to_guard(&mut self) {
        self.calls = self.calls.saturating_sub(1);
        self.guards += 1;
    }
}

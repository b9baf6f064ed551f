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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::id::Owner;

    const TTL: Duration = Duration::from_secs(30);

    fn depth(depth: Option<u32>, seq: u64) -> Depth {
        Depth::new(StoredDepth { depth, seq })
    }

    fn next(depth: &mut Depth, ttl: Duration) -> Option<DepthChange> {
        depth.next(Owner::new().next_hold(), Mode::Exclusive, ttl)
    }

    #[test]
    fn a_change_is_wanted_until_it_is_confirmed() {
        let mut depth = depth(Some(1), 0);
        assert_eq!(next(&mut depth, TTL), None);
        assert!(depth.deepen());
        for seq in 1..=2 {
            let wanted = next(&mut depth, TTL).unwrap();
            assert_eq!((wanted.target, wanted.seq), (2, seq));
        }
        let wanted = next(&mut depth, TTL).unwrap();
        depth.confirm(wanted, TTL);
        assert_eq!(next(&mut depth, TTL), None);
    }

    #[test]
    fn changes_during_one_in_flight_are_combined_into_the_next() {
        let mut depth = depth(Some(1), 0);
        assert!(depth.deepen());
        let first = next(&mut depth, TTL).unwrap();
        assert!(depth.deepen() && depth.deepen());
        depth.lessen();
        depth.confirm(first, TTL);
        let second = next(&mut depth, TTL).unwrap();
        assert_eq!((second.target, second.seq), (3, 2));
    }

    /// The runtime that was updating the store may have stopped at the last exit.
    #[test]
    fn the_next_turn_sends_a_change_if_that_of_the_one_before_was_not_answered() {
        let mut first = depth(Some(1), 0);
        assert!(first.deepen());
        assert!(next(&mut first, TTL).is_some());
        let left = [first.lessen(), first.lessen()];
        assert_eq!(left, [Remains::Something, Remains::Nothing]);
        assert_eq!(next(&mut first, TTL), None);
        assert!(!first.deepen(), "it has ended");
        let StoredDepth { depth: stored, seq } = first.stored();
        assert_eq!(stored, None);
        let wanted = next(&mut depth(stored, seq), TTL).unwrap();
        assert_eq!((wanted.target, wanted.seq), (1, 2));
    }

    #[test]
    fn a_longer_lease_is_asked_for_until_the_store_has_it() {
        let mut depth = depth(Some(1), 0);
        assert!(depth.deepen());
        depth.lengthen();
        let wanted = next(&mut depth, TTL).unwrap();
        assert!(wanted.lengthen && depth.is_lengthening());
        // Another re-entry has requested a longer lease by then.
        depth.confirm(wanted, 2 * TTL);
        assert!(depth.is_lengthening());
        let wanted = next(&mut depth, 2 * TTL).unwrap();
        depth.confirm(wanted, 2 * TTL);
        assert!(!depth.is_lengthening());
    }

    #[test]
    fn the_last_entry_or_member_ends_the_hold() {
        use Remains::{Nothing, Something};
        let mut entry_last = depth(Some(1), 0);
        assert!(entry_last.join() && entry_last.join());
        assert_eq!([entry_last.leave(), entry_last.leave()], [Something; 2]);
        assert_eq!(entry_last.lessen(), Nothing);
        let mut member_last = depth(Some(1), 0);
        assert!(member_last.join() && member_last.deepen());
        assert_eq!([member_last.lessen(), member_last.lessen()], [Something; 2]);
        assert_eq!(member_last.leave(), Nothing);
        assert!(!member_last.join() && !member_last.deepen(), "it has ended");
        assert_eq!(member_last.wanted(), 0);
    }

    /// The field already exists, with the depth that it had for the previous entries.
    #[test]
    fn the_first_entry_beside_members_needs_no_change() {
        let mut depth = depth(Some(1), 0);
        assert!(depth.join());
        depth.lessen();
        assert_eq!(depth.wanted(), 1);
        assert!(depth.deepen());
        assert_eq!(next(&mut depth, TTL), None);
        assert!(depth.deepen());
        assert_eq!(next(&mut depth, TTL).map(|it| it.target), Some(2));
        depth.lessen();
        assert_eq!(next(&mut depth, TTL).map(|it| it.target), Some(1));
    }

    #[test]
    fn an_entry_beside_members_can_lengthen_the_lease() {
        let mut depth = depth(Some(1), 0);
        assert!(depth.join());
        depth.lessen();
        assert!(depth.deepen());
        depth.lengthen();
        let wanted = next(&mut depth, TTL).unwrap();
        assert!(wanted.lengthen && wanted.target == 1);
    }

    #[test]
    fn one_task_updates_the_store_until_nothing_is_left_to_do() {
        let mut depth = depth(Some(1), 0);
        assert!(!depth.begin_to_mirror(), "nothing to do");
        assert!(depth.deepen());
        assert!(depth.begin_to_mirror() && !depth.begin_to_mirror());
        let change = next(&mut depth, TTL).unwrap();
        assert!(depth.deepen());
        depth.confirm(change, TTL);
        let change = next(&mut depth, TTL).unwrap();
        assert!(!depth.begin_to_mirror(), "another change is in flight");
        depth.confirm(change, TTL);
        assert_eq!(next(&mut depth, TTL), None);
        assert!(depth.deepen() && depth.begin_to_mirror());
        depth.stop_to_mirror();
        assert!(depth.begin_to_mirror());
        for _ in 0..4 {
            depth.lessen();
        }
        assert_eq!(next(&mut depth, TTL), None, "the hold has ended");
    }
}

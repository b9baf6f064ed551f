//! The number of nested entries and members of a hold, and the depth that the store has for it.

use std::time::Duration;

use futures_util::future::Shared;
use tokio::time::Instant;

use crate::base::id::HoldId;
use crate::base::option_types::Mode;
use crate::queue::StoredDepth;
use crate::store::{AnswerFuture, DepthChange, Presence};

/// The depth of one hold. The wanted depth is authoritative. The store is updated to it, one change at a time. After an
/// unknown outcome, the next change updates it.
#[derive(Debug)]
pub(crate) struct Depth {
    entries: u32,
    /// The number of members: work that has left its task under the hold, and has not ended.
    members: u32,
    /// The number of changes of the wanted depth, and how many of them the store is known to have: a later depth
    /// includes all earlier changes.
    wishes: u64,
    met: u64,
    /// The depth is `None` while a change is in flight or its outcome is unknown.
    stored: StoredDepth,
    /// Whether a re-entry has requested a longer lease than the store knows of.
    lengthen: bool,
    /// Whether a task updates the store.
    is_followed: bool,
    /// Whether a caller has waited in vain for the store. No other caller waits for it until it has responded.
    pub(super) is_away: bool,
    /// The one change that is in flight. Boxed, because there rarely is one.
    flight: Option<Box<ChangeInFlight>>,
}

/// A change of the depth in flight. Every caller that waits for it polls it. So an entry or an exit that was begun and
/// is no longer polled does not block any other.
#[derive(Clone, Debug)]
pub(super) struct ChangeInFlight {
    pub(super) change: DepthChange,
    /// The last wish that the change includes.
    wish: u64,
    /// The instant before the request is sent.
    pub(super) sent: Instant,
    pub(super) answer: Shared<AnswerFuture<Presence>>,
}

/// The remains of a hold after an entry or a member has left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remains {
    /// The hold has ended.
    Nothing,
    /// Other entries or members remain, and the depth in the store is unchanged.
    SameDepth,
    /// Other entries remain. The depth in the store must be updated.
    LessDepth,
}

/// The next step that updates the store.
pub(super) enum NextChange {
    /// The store is up to date.
    Nothing,
    InFlight(ChangeInFlight),
    /// The change that must be sent now.
    Change(DepthChange),
}

impl Depth {
    /// The depth of a hold that is entered, as the previous turn has left it in the store.
    pub(super) fn new(stored: StoredDepth) -> Self {
        Self {
            entries: 1,
            members: 0,
            wishes: 1,
            met: 0,
            stored,
            lengthen: false,
            is_followed: false,
            is_away: false,
            flight: None,
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

    /// The number of changes that were wanted up to now.
    pub(super) fn wishes(&self) -> u64 {
        self.wishes
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
        if is_held {
            self.entries += 1;
            self.wishes += 1;
        }
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
        match self.wanted() {
            0 => Remains::Nothing,
            _ => Remains::SameDepth,
        }
    }

    /// Notes that the next change must lengthen the lease.
    pub(super) fn lengthen(&mut self) {
        self.lengthen = true;
    }

    /// Removes one level. Nothing follows if the hold has ended already, because it was given up.
    pub(super) fn lessen(&mut self) -> Remains {
        if self.wanted() == 0 {
            return Remains::SameDepth;
        }
        self.entries = self.entries.saturating_sub(1);
        self.wishes += 1;
        match (self.entries, self.wanted()) {
            (_, 0) => Remains::Nothing,
            (0, _) => Remains::SameDepth,
            _ => Remains::LessDepth,
        }
    }

    /// The change that is in flight, or the next one that the store needs, until the store has this wish. From here on
    /// the depth in the store is unknown until it is confirmed.
    pub(super) fn next(
        &mut self,
        wish: u64,
        hold: HoldId,
        mode: Mode,
        ttl: Duration,
    ) -> NextChange {
        let is_settled = self.stored.depth == Some(self.wanted()) && !self.lengthen;
        if is_settled || self.met >= wish || self.wanted() == 0 {
            return NextChange::Nothing;
        }
        if let Some(flight) = &self.flight {
            return NextChange::InFlight(ChangeInFlight::clone(flight));
        }
        self.stored.depth = None;
        self.stored.seq += 1;
        NextChange::Change(DepthChange {
            hold,
            mode,
            target: self.wanted(),
            seq: self.stored.seq,
            ttl,
            lengthen: self.lengthen,
        })
    }

    /// Notes that the change is in flight.
    pub(super) fn fly(
        &mut self,
        change: DepthChange,
        sent: Instant,
        answer: Shared<AnswerFuture<Presence>>,
    ) -> ChangeInFlight {
        let wish = self.wishes;
        let flight = ChangeInFlight {
            change,
            wish,
            sent,
            answer,
        };
        self.flight = Some(Box::new(flight.clone()));
        flight
    }

    /// Notes that the change was answered, and that the depth in the store is now `stored`. Returns whether the caller
    /// is the first to know.
    pub(super) fn land(
        &mut self,
        flight: &ChangeInFlight,
        stored: Option<u32>,
        ttl: Duration,
    ) -> bool {
        let change = flight.change;
        let present = |flight: &mut Box<ChangeInFlight>| flight.change.seq == change.seq;
        let is_first = self.flight.take_if(present).is_some();
        if is_first && stored.is_some() {
            self.stored.depth = stored;
            self.met = flight.wish;
            self.lengthen &= change.ttl < ttl;
            self.is_away = false;
        }
        is_first
    }

    /// Returns whether a task must be started that updates the store.
    pub(super) fn begin_to_follow(&mut self) -> bool {
        !std::mem::replace(&mut self.is_followed, true)
    }

    /// Notes that the task has updated the store to this wish, or cannot. Returns whether the task ends.
    pub(super) fn stop_to_follow(&mut self, wish: u64) -> bool {
        self.is_followed &= self.wishes != wish && self.wanted() > 0;
        !self.is_followed
    }

    /// Forgets the task, which has ended with its runtime.
    pub(super) fn forget_follower(&mut self) {
        self.is_followed = false;
        self.is_away = false;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::base::id::Owner;

    const TTL: Duration = Duration::from_secs(30);

    fn depth(depth: Option<u32>, seq: u64) -> Depth {
        Depth::new(StoredDepth { depth, seq })
    }

    fn change(depth: &mut Depth, ttl: Duration) -> Option<DepthChange> {
        let hold = Owner::new().next_hold();
        match depth.next(depth.wishes(), hold, Mode::Exclusive, ttl) {
            NextChange::Change(change) => Some(change),
            NextChange::Nothing | NextChange::InFlight(_) => None,
        }
    }

    fn fly(depth: &mut Depth, change: DepthChange) -> ChangeInFlight {
        let answer: AnswerFuture<Presence> = Box::pin(async { Ok(Presence::Present) });
        depth.fly(change, Instant::now(), answer.shared())
    }

    #[test]
    fn a_change_is_wanted_until_it_is_confirmed() {
        let mut depth = depth(Some(1), 0);
        assert_eq!(change(&mut depth, TTL), None);
        assert!(depth.deepen());
        let wanted = change(&mut depth, TTL).unwrap();
        assert_eq!((wanted.target, wanted.seq), (2, 1));
        let flight = fly(&mut depth, wanted);
        assert!(matches!(
            depth.next(depth.wishes(), wanted.hold, wanted.mode, TTL),
            NextChange::InFlight(_)
        ));
        assert!(depth.land(&flight, None, TTL));
        let wanted = change(&mut depth, TTL).unwrap();
        assert_eq!((wanted.target, wanted.seq), (2, 2));
        let flight = fly(&mut depth, wanted);
        assert!(depth.land(&flight, Some(2), TTL));
        assert!(!depth.land(&flight, Some(2), TTL), "once");
        assert_eq!(change(&mut depth, TTL), None);
    }

    /// The caller that was updating the store may have stopped at the last exit.
    #[test]
    fn the_next_turn_sends_a_change_if_that_of_the_one_before_was_not_answered() {
        let mut first = depth(Some(1), 0);
        assert!(first.deepen());
        let wanted = change(&mut first, TTL).unwrap();
        let _flight = fly(&mut first, wanted);
        let left = [first.lessen(), first.lessen()];
        assert_eq!(left, [Remains::LessDepth, Remains::Nothing]);
        assert_eq!(change(&mut first, TTL), None);
        assert!(!first.deepen(), "it has ended");
        let StoredDepth { depth: stored, seq } = first.stored();
        assert_eq!(stored, None);
        let mut next = depth(stored, seq);
        let wanted = change(&mut next, TTL).unwrap();
        assert_eq!((wanted.target, wanted.seq), (1, 2));
    }

    #[test]
    fn a_longer_lease_is_asked_for_until_the_store_has_it() {
        let mut depth = depth(Some(1), 0);
        assert!(depth.deepen());
        depth.lengthen();
        let wanted = change(&mut depth, TTL).unwrap();
        assert!(wanted.lengthen && depth.is_lengthening());
        let flight = fly(&mut depth, wanted);
        // Another re-entry has requested a longer lease by then.
        assert!(depth.land(&flight, Some(2), 2 * TTL));
        assert!(depth.is_lengthening());
        assert!(depth.deepen());
        let wanted = change(&mut depth, 2 * TTL).unwrap();
        let flight = fly(&mut depth, wanted);
        assert!(depth.land(&flight, Some(3), 2 * TTL));
        assert!(!depth.is_lengthening());
    }

    #[test]
    fn the_store_is_away_until_it_has_answered() {
        let mut depth = depth(Some(1), 0);
        assert!(depth.deepen());
        let wanted = change(&mut depth, TTL).unwrap();
        let flight = fly(&mut depth, wanted);
        depth.is_away = true;
        assert!(depth.land(&flight, None, TTL) && depth.is_away);
        let wanted = change(&mut depth, TTL).unwrap();
        let flight = fly(&mut depth, wanted);
        assert!(depth.land(&flight, Some(2), TTL) && !depth.is_away);
    }

    #[test]
    fn the_last_entry_or_member_ends_the_hold() {
        use Remains::{LessDepth, Nothing, SameDepth};
        let mut entry_last = depth(Some(1), 0);
        assert!(entry_last.join() && entry_last.join());
        assert_eq!([entry_last.leave(), entry_last.leave()], [SameDepth; 2]);
        assert_eq!(entry_last.lessen(), Nothing);
        let mut member_last = depth(Some(1), 0);
        assert!(member_last.join() && member_last.deepen());
        assert_eq!(
            [member_last.lessen(), member_last.lessen()],
            [LessDepth, SameDepth]
        );
        assert_eq!(member_last.leave(), Nothing);
        assert!(!member_last.join() && !member_last.deepen(), "it has ended");
        assert_eq!(member_last.wanted(), 0);
    }

    /// The field already exists, with the depth that it had for the previous entries.
    #[test]
    fn the_first_entry_beside_members_needs_no_change() {
        let mut depth = depth(Some(1), 0);
        assert!(depth.join());
        assert_eq!(depth.lessen(), Remains::SameDepth);
        assert_eq!(depth.wanted(), 1);
        assert!(depth.deepen());
        assert_eq!(change(&mut depth, TTL), None);
        assert!(depth.deepen());
        assert_eq!(change(&mut depth, TTL).map(|it| it.target), Some(2));
        assert_eq!(depth.lessen(), Remains::LessDepth);
        assert_eq!(change(&mut depth, TTL).map(|it| it.target), Some(1));
    }

    #[test]
    fn an_entry_beside_members_can_lengthen_the_lease() {
        let mut depth = depth(Some(1), 0);
        assert!(depth.join());
        depth.lessen();
        assert!(depth.deepen());
        depth.lengthen();
        let wanted = change(&mut depth, TTL).unwrap();
        assert!(wanted.lengthen && wanted.target == 1);
    }

    #[test]
    fn one_task_follows_until_nothing_is_left_to_do() {
        let mut depth = depth(Some(1), 0);
        assert!(depth.begin_to_follow() && !depth.begin_to_follow());
        let wish = depth.wishes();
        assert!(depth.deepen());
        assert!(!depth.stop_to_follow(wish), "another change is wanted");
        assert!(depth.stop_to_follow(depth.wishes()));
        assert!(depth.begin_to_follow());
        depth.forget_follower();
        assert!(depth.begin_to_follow());
        depth.lessen();
        depth.lessen();
        assert!(depth.stop_to_follow(wish), "the hold has ended");
    }
}

//! The group of holds of several keys that one acquisition has taken. They are renewed together, and the loss of one of
//! them is the loss of all.

use std::sync::Arc;

use crate::base::error::LostReason;
use crate::base::key::LockKey;
use crate::base::sync::Mutex;

/// The holds of one acquisition. Its mutex comes after that of the schedules, and before the state of a hold. A hold
/// does not lock it while its own state is locked.
#[derive(Debug)]
pub(crate) struct Group<H> {
    state: Mutex<GroupState<H>>,
}

#[derive(Debug)]
struct GroupState<H> {
    /// The holds that have not ended.
    members: Vec<Arc<H>>,
    /// The lock that was lost first, and the reason.
    loss: Option<(LockKey, LostReason)>,
}

impl<H> Group<H> {
    pub(crate) fn new() -> Arc<Self> {
        let (members, loss) = (Vec::new(), None);
        Arc::new(Self {
            state: Mutex::new(GroupState { members, loss }),
        })
    }

    pub(super) fn join(&self, member: &Arc<H>) {
        self.state.lock().members.push(Arc::clone(member));
    }

    /// Notes that a member has ended.
    pub(super) fn leave(&self, member: &Arc<H>) {
        let mut state = self.state.lock();
        let mut members = state.members.iter();
        let at = members.position(|it| Arc::ptr_eq(it, member));
        let left = at.map(|at| state.members.remove(at));
        drop(state);
        drop(left);
    }

    pub(super) fn members(&self) -> Vec<Arc<H>> {
        self.state.lock().members.clone()
    }

    /// Notes that the lock of a member was lost. Returns whether it is the first.
    pub(super) fn lose(&self, key: &LockKey, reason: LostReason) -> bool {
        let mut state = self.state.lock();
        let is_first = state.loss.is_none();
        if is_first {
            state.loss = Some((key.clone(), reason));
        }
        is_first
    }

    /// The lock that was lost first, and the reason.
    pub(super) fn loss(&self) -> Option<(LockKey, LostReason)> {
        self.state.lock().loss.clone()
    }
}

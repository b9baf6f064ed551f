//! The loss of a lock: how it is reported, and its effect on the other locks that were acquired together with it.

use std::ptr;
use std::sync::Arc;

use tokio::select;
use tokio::time::Instant;

use super::Hold;
use crate::base::error::{Failure, LockError, LostReason};
use crate::base::sync::until;
use crate::base::timer::sleep_until;

impl Hold {
    pub(crate) fn lost_error(&self, reason: LostReason) -> LockError {
        self.error(Failure::Lost(reason))
    }

    /// The error of a step. For several locks it is the error of the first loss.
    pub(in crate::hold) fn error(&self, failure: Failure) -> LockError {
        let is_shared = matches!(failure, Failure::Lost(LostReason::Sibling));
        let group = self.group.as_ref().filter(|_| is_shared);
        match group.and_then(|group| group.lock().loss.clone()) {
            Some((key, reason)) => Failure::Lost(reason).on(key.name()),
            None => failure.on(self.key.name()),
        }
    }

    /// The release may have found that the lock had been lost before.
    pub(in crate::hold) fn found(&self, released: &Result<(), Failure>) {
        if let Err(Failure::Lost(reason)) = *released {
            self.change(|state| state.lease.found_lost(reason));
        }
    }

    /// The result of an exit. Fails if the lock turns out to have been lost and this must end the body, or if the store
    /// rejects the request.
    pub(in crate::hold) fn outcome(&self, left: Result<(), Failure>) -> Result<(), LockError> {
        match left {
            Err(Failure::Lost(_)) if !self.aborts_on_loss() => Ok(()),
            // The store did not respond until the lease had expired.
            Err(Failure::Store(error)) if !error.effect().is_rejected() => Ok(()),
            left => left.map_err(|failure| self.error(failure)),
        }
    }

    /// Returns whether it was lost, and no body is inside that might still end or continue, because only guards keep
    /// it.
    pub(crate) fn is_left_to_guards(&self) -> bool {
        self.lost().is_some() && self.change(|state| state.depth.is_left_to_guards())
    }

    /// Returns whether the lock is held in the store, as far as this process knows.
    pub(crate) fn may_be_held(&self) -> bool {
        match self.lost() {
            None => true,
            Some(LostReason::Deleted) => false,
            Some(_) => Instant::now() < self.deadline(),
        }
    }

    /// The loss of one of several locks is the loss of all of them.
    pub(super) fn lose_others(&self, reason: LostReason) {
        let Some(group) = &self.group else {
            return;
        };
        let mut state = group.lock();
        if state.loss.is_none() {
            state.loss = Some((self.key.clone(), reason));
            let members = state.members.clone();
            drop(state);
            for other in members {
                other.lose(LostReason::Sibling);
            }
        }
    }

    /// Joins the holds that are acquired together with it. The loss of one of them is also its loss.
    pub(in crate::hold) fn join_group(self: &Arc<Self>) {
        if let Some(group) = &self.group {
            let mut state = group.lock();
            state.members.push(Arc::clone(self));
            let is_lost = state.loss.is_some();
            drop(state);
            if is_lost {
                self.lose(LostReason::Sibling);
            }
        }
    }

    /// Leaves them, because it ends.
    pub(in crate::hold) fn leave_group(&self) {
        if let Some(group) = &self.group {
            let mut state = group.lock();
            let mut members = state.members.iter();
            let at = members.position(|member| ptr::eq(&**member, self));
            let left = at.map(|at| state.members.remove(at));
            drop(state);
            drop(left);
        }
    }
}

impl Hold {
    /// Resolves when the lock is lost, and never otherwise. It notices by itself that the deadline passes, because the
    /// runtime of the schedule may be stalled.
    pub(crate) async fn until_lost(&self) -> LostReason {
        loop {
            let deadline = {
                let state = self.state.lock();
                (!state.lease.has_ended()).then(|| state.lease.deadline())
            };
            let Some(deadline) = deadline else {
                return until(&self.over, || self.lost()).await;
            };
            select! {
                biased;
                reason = until(&self.over, || self.lost()) => return reason,
                () = sleep_until(deadline) => {}
            }
        }
    }

    /// Resolves when an attempt that was sent at this instant can change nothing any more: the hold has ended or was
    /// lost, or a later attempt was confirmed.
    pub(in crate::hold) async fn until_settled(&self, sent: Instant) {
        let is_settled = || {
            let lease = &self.state.lock().lease;
            let is_settled = lease.has_ended() || lease.lost().is_some();
            (is_settled || lease.times().confirmed > sent).then_some(())
        };
        until(&self.over, is_settled).await;
    }
}

//! Who has the lock in this process, and who has it next.

use std::time::Duration;

use tokio::time::Instant;

use super::{Holder, Kind, LocalQueue};
use crate::{
    base::{deadline::deadline, id::HoldId},
    queue::step::{Action, Grant, Heard},
    store::{AcquireRequest, Order, Successor},
};

impl LocalQueue {
    /// Whether it is this hold that has the lock in this process, as far as is known.
    pub(in crate::queue) fn is_held_by(&self, hold: HoldId) -> bool {
        self.holder.is(hold)
    }

    /// The first waiter, if it may go on with a hold of this TTL in memory: nothing in the store may be
    /// meant for it, since it enters under the id of another hold.
    ///
    /// As long as no other process waits there is no bound to the hand-offs. Where the lock was not in the store
    /// for a heartbeat, as `is_late` says, it goes there: the message of another process may have been lost, or the
    /// lock itself.
    pub(in crate::queue) fn heir(&self, ttl: Duration, is_late: bool) -> Option<HoldId> {
        let first = self.waiters.front()?;
        let AcquireRequest { hold, .. } = first.request;
        let flight = self.flight.as_ref();
        let is_known = first.is_known() || flight.is_some_and(|flight| flight.waiter == hold);
        let fits = first.may_inherit && first.request.ttl == ttl && !is_known;
        let most = self.queueing.local_handoffs;
        let is_alone = self.listens && !self.is_contended;
        let may_stay = !is_late && (self.handoffs < most || (most > 0 && is_alone));
        (fits && may_stay).then_some(hold)
    }

    pub(super) fn grant(
        &mut self,
        grant: Grant,
        handoffs: u32,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        let Some(waiter) = self.remove(grant.hold) else {
            return;
        };
        (self.handoffs, self.is_contended) = (handoffs, grant.is_contended);
        let until = deadline(grant.sent, grant.lease);
        self.hold(Holder::Until(grant.hold, until), &waiter.request, now);
        actions.push(Action::Grant(grant.hold, grant));
    }

    /// A waiter is brought the lock, and has to come for it.
    pub(super) fn hold(&mut self, holder: Holder, request: &AcquireRequest, now: Instant) {
        self.holder = holder;
        self.heard = Heard::Busy;
        (self.ask_at, self.free_at) = (None, None);
        // In strict order the next one takes its place in the store's queue now.
        self.maybe_free = self.queueing.local_handoffs == 0;
        let due = now + 2 * self.queueing.heartbeat(request.ttl);
        self.unclaimed.push((due, request.hold));
    }

    /// The grant of a waiter is entered, or given back.
    pub(super) fn claim(&mut self, waiter: HoldId) {
        self.unclaimed.retain(|(_, other)| *other != waiter);
    }

    /// A hold ends. Returns who is to have the lock next, unless the store decides that.
    pub(super) fn end(&mut self, hold: HoldId) -> Option<Successor> {
        if self.holder.is(hold) {
            self.holder = Holder::Nobody;
        }
        self.nominate()
    }

    /// Names the first waiter as successor, unless another request is in flight.
    pub(super) fn nominate(&mut self) -> Option<Successor> {
        let first = self.waiters.front().filter(|_| self.flight.is_none())?;
        let AcquireRequest { hold, ttl, entry } = first.request;
        let entry = entry?;
        let (order, handoffs) = if self.handoffs < self.queueing.local_handoffs {
            (Order::SuccessorFirst, self.handoffs + 1)
        } else {
            (Order::QueueFirst, 0)
        };
        self.fly(hold, Kind::Release { handoffs });
        Some(Successor {
            hold,
            ttl,
            entry,
            order,
        })
    }
}

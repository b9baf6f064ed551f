//! The grants and releases of the lock in this process.

use std::time::Duration;

use tokio::time::Instant;

use super::{Holders, LocalQueue, Waiter};
use crate::base::id::HoldId;
use crate::base::options::{Mode, QueueOptions};
use crate::base::timer::after;
use crate::queue::grant::Grant;
use crate::queue::step::{Action, Heard};
use crate::store::AcquireRequest;

impl LocalQueue {
    /// Returns whether this hold has the lock in this process, as far as is known.
    pub(in crate::queue) fn is_held_by(&self, hold: HoldId) -> bool {
        self.holders.contains(hold)
    }

    /// Returns the first waiter, if it may continue a hold of this TTL in memory. The store must not know of the
    /// waiter, because it enters under the id of another hold.
    ///
    /// While no other process waits, the number of hand-offs has no bound. If the lock was not in the store for a
    /// heartbeat (`is_late`), it goes through the store. The reason is that the message of another process, or the lock
    /// itself, may have been lost.
    pub(in crate::queue) fn heir(&self, ttl: Duration, is_late: bool) -> Option<HoldId> {
        let first = self.waiters.first()?;
        let AcquireRequest { hold, .. } = first.request;
        let flight = self.flight.as_ref();
        let is_asked_for = flight.is_some_and(|flight| flight.waiters.contains(&hold));
        let is_known = first.is_known() || is_asked_for;
        let fits = first.may_inherit && first.request.ttl == ttl && !is_known;
        let most = self.queueing.turns;
        let is_alone = self.listens && !self.is_contended;
        let may_stay = !is_late && (self.handoffs < most || (most > 0 && is_alone));
        (fits && may_stay).then_some(hold)
    }

    pub(super) fn grant(&mut self, grant: Grant, now: Instant, actions: &mut Vec<Action>) {
        let Some(waiter) = self.remove(grant.hold) else {
            return;
        };
        (self.handoffs, self.is_contended) = (0, grant.is_contended);
        self.add_holder(grant.hold, grant.lease.deadline, &waiter, now);
        actions.push(Action::Grant(grant.hold, grant));
    }

    /// Notes that a waiter has been granted the lock, and must claim it.
    pub(super) fn add_holder(
        &mut self,
        hold: HoldId,
        until: Instant,
        waiter: &Waiter,
        now: Instant,
    ) {
        let mode = waiter.mode;
        self.holders.add(hold, mode, Some(until));
        self.heard = Heard::Busy;
        (self.ask_at, self.free_at) = (None, None);
        // If the order is strict, the next waiter takes its place in the store's queue now. After a reader, another
        // reader may enter.
        self.maybe_free = self.queueing.turns == 0 || mode == Mode::Shared;
        let due = after(now, 2 * self.queueing.heartbeat(waiter.request.ttl));
        let at = self.unclaimed.partition_point(|(other, _)| *other <= due);
        self.unclaimed.insert(at, (due, waiter.request.hold));
    }

    /// Notes that a waiter has entered its grant, or has returned it.
    pub(super) fn claim(&mut self, waiter: HoldId) {
        // Most grants are claimed in the order in which they were made.
        let mut unclaimed = self.unclaimed.iter();
        if let Some(at) = unclaimed.position(|(_, other)| *other == waiter) {
            self.unclaimed.remove(at);
        }
    }

    /// Ends a hold. If it was exclusive, the first waiter sends its request right behind the release. If its request is in
    /// flight already, it enters the store's queue, to which the release moves the lock, or finds the lock free. So do
    /// those behind a reader.
    pub(super) fn end(&mut self, hold: HoldId) {
        let was_exclusive = matches!(self.holders, Holders::Writer(writer, _) if writer == hold);
        self.holders.remove(hold);
        self.maybe_free |= was_exclusive && self.flight.is_none();
    }
}

impl LocalQueue {
    /// Creates the queue in which one caller has sent a request, and no other has joined.
    pub(in crate::queue) fn asking(queueing: QueueOptions, waiter: Waiter) -> Self {
        let (mut queue, mut sent) = (Self::new(queueing), Vec::new());
        queue.join(waiter, &mut sent);
        queue.go_on(Instant::now(), &mut sent);
        queue
    }

    /// Creates the queue in which a hold has the lock, after this number of hand-offs in a row, and no caller wants it.
    pub(in crate::queue) fn held(
        queueing: QueueOptions,
        (hold, mode): (HoldId, Mode),
        handoffs: u32,
        is_contended: bool,
    ) -> Self {
        Self {
            holders: Holders::one(hold, mode),
            handoffs,
            is_contended,
            heard: Heard::Busy,
            ..Self::new(queueing)
        }
    }

    /// Returns the only hold that has the lock, if no caller wants the lock. Also returns the number of hand-offs in a
    /// row before it.
    pub(in crate::queue) fn held_alone(&self) -> Option<((HoldId, Mode), u32, bool)> {
        let holder = self.holders.alone().filter(|_| !self.is_active())?;
        Some((holder, self.handoffs, self.is_contended))
    }
}

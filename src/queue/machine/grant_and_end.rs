//! The grants of the lock in this process, who continues a hold in memory, and the ends of holds and waits.

use std::time::Duration;

use tokio::time::Instant;

use super::grant::{Grant, Holders, SoleHolder};
use super::inputs_and_actions::{Action, Denied};
use super::waiters::Waiter;
use super::{Step, WaitMachine};
use crate::base::id::HoldId;
use crate::base::options::{Mode, QueueOptions};
use crate::base::timer::after;

impl WaitMachine {
    /// Returns whether this hold has the lock in this process, as far as is known.
    pub(crate) fn is_held_by(&self, hold: HoldId) -> bool {
        self.holders.contains(hold)
    }

    /// Returns the first waiter, if it may continue a hold of this TTL in memory. The store must not know of the
    /// waiter, because it enters under the id of another hold.
    ///
    /// While no other process waits, the number of hand-offs has no bound. If the lock was not in the store for a
    /// heartbeat (`is_late`), it goes through the store. The reason is that the message of another process, or the lock
    /// itself, may have been lost.
    pub(crate) fn next_in_memory(&self, ttl: Duration, is_late: bool) -> Option<HoldId> {
        let first = self.waiters.first()?;
        let hold = first.request.hold;
        // It enters under the id of the hold before it. If the store had its own id too, in the queue or soon in the
        // lock, that would have to be undone.
        let is_known = first.is_known() || self.is_in_flight(hold);
        let fits = first.may_inherit && first.request.ttl == ttl && !is_known;
        let turns = self.queueing.turns;
        // Messages arrive, and none has said that another process waits.
        let has_no_bound = turns > 0 && self.listens && !self.is_contended;
        // Otherwise the processes take turns (P10).
        let may_stay = !is_late && (self.handoffs < turns || has_no_bound);
        (fits && may_stay).then_some(hold)
    }

    pub(super) fn grant(&mut self, grant: Grant, step: &mut Step) {
        let Some(waiter) = self.remove(grant.hold) else {
            return;
        };
        // It comes from the store, so the turns in memory are counted anew.
        (self.handoffs, self.is_contended) = (0, grant.is_contended);
        self.add_holder(grant.hold, grant.lease.deadline, &waiter, step.now);
        step.actions.push(Action::Grant(grant));
    }

    /// Notes that a waiter has been granted the lock, and must claim it.
    pub(super) fn add_holder(
        &mut self,
        hold: HoldId,
        until: Instant,
        waiter: &Waiter,
        now: Instant,
    ) {
        self.holders.add(hold, waiter.mode, Some(until));
        self.last_denial = Some(Denied::Busy);
        // These times were about the holder before.
        (self.request_at, self.free_at) = (None, None);
        // If the order is strict, the next waiter takes its place in the store's queue now. After a reader, another
        // reader may enter.
        self.maybe_free = self.queueing.turns == 0 || waiter.mode == Mode::Shared;
        let due = after(now, 2 * self.queueing.heartbeat(waiter.request.ttl));
        // Each grant has the heartbeat of its own TTL, so the one that was made last need not be the last that is
        // due.
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
    pub(super) fn end_hold(&mut self, hold: HoldId) {
        let was_exclusive = matches!(self.holders, Holders::Writer(writer, _) if writer == hold);
        self.holders.remove(hold);
        self.maybe_free |= was_exclusive && self.in_flight.is_none();
    }

    /// Rejects all waiters, and takes back the grants that were not claimed.
    pub(super) fn close(&mut self, step: &mut Step) {
        // Their callers may never be polled again.
        let unclaimed = self.unclaimed.drain(..);
        step.actions
            .extend(unclaimed.map(|(_, waiter)| Action::PassOver(waiter)));
        let waiters: Vec<_> = self.waiters.iter().map(|it| it.request.hold).collect();
        // Beginning with the last one, so that none becomes the first, and sends a request.
        for hold in waiters.into_iter().rev() {
            self.deny(hold, Denied::Closed, step);
        }
    }
}

/// A machine that begins in the middle.
impl WaitMachine {
    /// Creates the machine in which one caller has sent a request, and no other has joined.
    pub(crate) fn with_request(queueing: QueueOptions, waiter: Waiter) -> Self {
        let (mut machine, mut step) = (Self::new(queueing), Step::new(Instant::now()));
        machine.join(waiter, &mut step);
        machine.send_or_schedule(&mut step);
        machine
    }

    /// Creates the machine in which a hold has the lock, and no caller wants it.
    pub(crate) fn with_holder(queueing: QueueOptions, holder: SoleHolder) -> Self {
        let mut machine = Self {
            handoffs: holder.handoffs,
            is_contended: holder.is_contended,
            last_denial: Some(Denied::Busy),
            ..Self::new(queueing)
        };
        machine.holders.add(holder.hold, holder.mode, None);
        machine
    }

    /// The only hold that has the lock, if no caller wants the lock.
    pub(crate) fn sole_holder(&self) -> Option<SoleHolder> {
        let (hold, mode) = self.holders.sole().filter(|_| !self.is_active())?;
        Some(SoleHolder {
            hold,
            mode,
            handoffs: self.handoffs,
            is_contended: self.is_contended,
        })
    }
}

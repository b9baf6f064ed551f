//! The end of a hold: its release, the minimum time for which it is held, and its loss, which is also that of the other
//! locks that were acquired together with it.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Hold, HoldState};
use crate::base::error::{Failure, LockError, LostReason};
use crate::base::metrics::{self, HandoffPath};
use crate::base::options::Mode;
use crate::base::span::Span;
use crate::base::sync::wait_until;
use crate::base::timer::{after, timeout_at};
use crate::queue::Grant;

/// The release.
impl Hold {
    /// Ends the hold, `now`. Returns the grant for a call graph that would continue it, and whether one may, in this
    /// generation.
    pub(in crate::hold) fn end(&self, generation: u64, now: Instant) -> (Grant, bool) {
        let ended = self.change(|state| {
            let HoldState { lease, depth, .. } = state;
            // First of all, so that the lease may expire from here on without being lost.
            lease.end(now);
            let grant = Grant {
                hold: self.id,
                mode: self.mode,
                tokens: self.tokens,
                lease: lease.times(),
                depth: depth.stored,
                unanswered: self.unanswered,
                is_open: lease.lost().is_none(),
                // The local queue keeps this from turn to turn.
                is_contended: false,
                generation: lease.generation(),
                via: HandoffPath::Memory,
            };
            // A reader shares its lock. A hold that was lost, has an end of its own, or must be verified cannot be
            // relied on. One that waits for a longer lease gets it from the store.
            let may_go_on = self.mode == Mode::Exclusive
                && lease.is_open(generation)
                && !lease.is_lengthening();
            (grant, may_go_on)
        });
        metrics::hold_ended(self.key.class(), self.mode, self.began);
        ended
    }

    /// Notes how the release has ended, and ends the span. Fails if the lock turns out to have been lost and this must
    /// end the body, or if the store rejects the request.
    pub(in crate::hold) fn finish_release(
        &self,
        released: Result<(), Failure>,
    ) -> Result<(), LockError> {
        if let Err(Failure::Lost(reason)) = released {
            // The hold has ended, so an ordinary loss would no longer count.
            self.change(|state| state.lease.note_loss_at_release(reason));
        }
        self.end_span();
        match released {
            // The body was to continue after a loss, and it has.
            Err(Failure::Lost(_)) if !self.aborts_on_loss() => Ok(()),
            // The store did not respond until the lease had expired.
            Err(Failure::Store(error)) if !error.failure_class().is_rejected() => Ok(()),
            released => released.map_err(|failure| self.error(failure)),
        }
    }

    pub(crate) fn set_span(&self, span: Span) {
        if span.is_open() {
            // The one before is empty, so that no foreign code runs under the mutex.
            self.state.lock().span = span;
        }
    }

    pub(in crate::hold) fn span(&self) -> Span {
        self.state.lock().span.clone()
    }

    pub(in crate::hold) fn end_span(&self) {
        // It is dropped after the mutex is released, because that runs foreign code.
        let _ended = mem::take(&mut self.state.lock().span);
    }
}

/// The minimum time.
impl Hold {
    /// Keeps the lock held for at least this time after its acquisition. Returns the end of that time. One of several
    /// locks is not kept before all of them are acquired: until then, whatever ends the attempt releases it.
    pub(in crate::hold) fn begin_min_hold(&self, min_hold: Duration) -> Instant {
        // The time of the acquisition is unknown if its token was ahead of the server's clock.
        let since = self.tokens.since().unwrap_or_else(Instant::now);
        let end = after(since, min_hold);
        self.state.lock().min_hold_end = Some(end);
        end
    }

    /// Gives the lock back when its holder leaves, although its minimum time is not over.
    pub(crate) fn cancel_min_hold(&self) {
        self.state.lock().min_hold_end = None;
        self.notify_changed();
    }

    /// Waits until the minimum time is over, at `end`, or no longer matters. After a loss it still does: the store may
    /// have the hold, and releases it then.
    pub(in crate::hold) async fn await_min_hold_end(&self, end: Instant) {
        let is_over = || {
            let state = self.state.lock();
            let lease = &state.lease;
            let is_closed = lease.has_ended() || lease.lost() == Some(LostReason::Closed);
            (is_closed || state.min_hold_end.is_none()).then_some(())
        };
        let _ = timeout_at(end, wait_until(&self.changed, is_over)).await;
    }

    /// Ends what is done under the lock, because its `Locks` is closed. If nothing but the minimum time keeps the lock,
    /// it is left to its lease.
    pub(crate) fn close(&self) {
        self.change(|state| {
            if state.is_in_min_hold() && state.depth.is_one_member() {
                // It ends and is not lost. So its only member leaves, finds that the minimum time is not over, and
                // sends nothing.
                state.lease.end(Instant::now());
            } else {
                // The bodies that a loss ends are dropped, and then it is released.
                state.lease.lose(LostReason::Closed);
            }
        });
        // An end without a loss signals nothing by itself, and the member must wake up.
        self.notify_changed();
    }
}

/// The loss.
impl Hold {
    pub(crate) fn lost_error(&self, reason: LostReason) -> LockError {
        self.error(Failure::Lost(reason))
    }

    /// The error of a step. For several locks it is the error of the first loss.
    fn error(&self, failure: Failure) -> LockError {
        let is_shared = matches!(failure, Failure::Lost(LostReason::Sibling));
        let group = self.group.as_ref().filter(|_| is_shared);
        match group.and_then(|group| group.lock().loss.clone()) {
            Some((key, reason)) => Failure::Lost(reason).on(key.name()),
            None => failure.on(self.key.name()),
        }
    }

    /// Returns whether it was lost, and no body is inside that might still end or continue, because only guards keep
    /// it.
    pub(crate) fn is_left_to_guards(&self) -> bool {
        self.check_loss().is_some() && self.change(|state| state.depth.is_left_to_guards())
    }

    /// Returns whether the lock is held in the store, as far as this process knows.
    pub(crate) fn may_be_held(&self) -> bool {
        match self.check_loss() {
            None => true,
            // The store has said that the hold is gone. Any other loss was found here, and the store may have the hold
            // until its lease is over.
            Some(LostReason::Deleted) => false,
            Some(_) => Instant::now() < self.deadline(),
        }
    }

    /// Joins the holds that are acquired together with it. If one of them was lost already, so is this one.
    pub(in crate::hold) fn join_group(self: &Arc<Self>) {
        if let Some(group) = &self.group {
            let mut state = group.lock();
            state.members.push(Arc::downgrade(self));
            // A loss that came before it was a member was not passed on to it. A later one is.
            let is_lost = state.loss.is_some();
            drop(state);
            if is_lost {
                self.lose(LostReason::Sibling);
            }
        }
    }

    /// The loss of one of several locks is the loss of all of them.
    pub(super) fn lose_others(&self, reason: LostReason) {
        let Some(group) = &self.group else {
            return;
        };
        let mut state = group.lock();
        // The first loss is that of the whole group. The losses that follow from it come back here, and end here.
        if state.loss.is_none() {
            state.loss = Some((self.key.clone(), reason));
            let members = state.members();
            drop(state);
            // Without the mutex, because each of them locks it again.
            for other in members {
                other.lose(LostReason::Sibling);
            }
        }
    }

    /// Resolves when the lock is lost, and never otherwise. It notices by itself that the deadline passes, because the
    /// runtime of the schedule may be stalled.
    pub(crate) async fn await_loss(&self) -> LostReason {
        loop {
            let lost = wait_until(&self.changed, || self.check_loss());
            let deadline = {
                let state = self.state.lock();
                (!state.lease.has_ended()).then(|| state.lease.deadline())
            };
            let Some(deadline) = deadline else {
                // After its end the deadline means nothing any more. Only the release may still find a loss.
                return lost.await;
            };
            // Otherwise the deadline has passed, or a renewal has put it off in the meantime: it is read again.
            if let Ok(reason) = timeout_at(deadline, lost).await {
                return reason;
            }
        }
    }

    pub(crate) async fn await_loss_error(&self) -> LockError {
        let reason = self.await_loss().await;
        self.lost_error(reason)
    }
}

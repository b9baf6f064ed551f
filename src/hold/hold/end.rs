//! The end of a hold: what the next holder may continue with, the minimum time for which the lock is held, and the end
//! of its span.

use std::mem;
use std::time::Duration;

use tokio::time::Instant;

use super::{Hold, HoldState};
use crate::base::error::LostReason;
use crate::base::metrics::{self, HandoffPath};
use crate::base::options::Mode;
use crate::base::span::Span;
use crate::base::sync::until;
use crate::base::timer::{after, timeout_at};
use crate::queue::Grant;

impl Hold {
    /// Ends the hold, `now`. Returns the grant for a call graph that would continue it, and whether one may, in this
    /// generation.
    pub(in crate::hold) fn end(&self, generation: u64, now: Instant) -> (Grant, bool) {
        self.change(|state| {
            let HoldState { lease, depth, .. } = state;
            lease.end(now);
            let grant = Grant {
                hold: self.id,
                mode: self.mode,
                tokens: self.tokens,
                lease: lease.times(),
                depth: depth.stored,
                unanswered: self.unanswered,
                is_open: lease.lost().is_none(),
                is_contended: false,
                generation: lease.generation(),
                via: HandoffPath::Memory,
            };
            let may_go_on = self.mode == Mode::Exclusive
                && lease.is_open(generation)
                && !lease.is_lengthening()
                && !state.gives_way;
            (grant, may_go_on)
        })
    }

    /// Keeps the lock held for at least this time after its acquisition. Returns the end of that time. One of several
    /// locks is not kept before all of them are acquired: until then, whatever ends the attempt releases it.
    pub(in crate::hold) fn keep_for(&self, min_hold: Duration) -> Instant {
        // The time of the acquisition is unknown if its token was ahead of the server's clock.
        let since = self.tokens.since().unwrap_or_else(Instant::now);
        let until = after(since, min_hold);
        self.state.lock().kept_until = Some(until);
        until
    }

    /// Gives the lock back when its holder leaves, although its minimum time is not over.
    pub(in crate::hold) fn keep_no_longer(&self) {
        self.state.lock().kept_until = None;
        self.call_off();
    }

    /// Waits until the minimum time is over, at `end`, or no longer matters. After a loss it still does: the store may
    /// have the hold, and releases it then.
    pub(in crate::hold) async fn until_kept(&self, end: Instant) {
        let is_over = || {
            let HoldState {
                lease, kept_until, ..
            } = &*self.state.lock();
            let is_closed = lease.has_ended() || lease.lost() == Some(LostReason::Closed);
            (is_closed || kept_until.is_none()).then_some(())
        };
        let _ = timeout_at(end, until(&self.over, is_over)).await;
    }

    /// Ends what is done under the lock, because its `Locks` is closed. If nothing but the minimum time keeps the lock,
    /// it is left to its lease.
    pub(crate) fn close(&self) {
        self.change(
            |state| match state.is_kept() && state.depth.is_one_member() {
                true => state.lease.end(Instant::now()),
                false => state.lease.lose(LostReason::Closed),
            },
        );
        self.call_off();
    }

    /// Sets the span of the hold.
    pub(crate) fn set_span(&self, span: Span) {
        if span.is_open() {
            self.state.lock().span = span;
        }
    }

    pub(in crate::hold) fn span(&self) -> Span {
        self.state.lock().span.clone()
    }

    /// Counts that it is no longer held.
    pub(in crate::hold) fn count_end(&self) {
        metrics::hold_ended(self.key.class(), self.mode, self.began);
    }

    /// Ends the span, because the release was answered.
    pub(in crate::hold) fn end_span(&self) {
        // It is dropped after the mutex is released, because that runs foreign code.
        let _ended = mem::take(&mut self.state.lock().span);
    }
}

//! The end of a hold: what the next holder may continue with, the minimum time for which the lock is held, and the end
//! of its span.

use std::mem;
use std::time::Duration;

use tokio::time::Instant;

use super::{Hold, HoldState};
use crate::base::metrics::{self, Via};
use crate::base::option_types::Mode;
use crate::base::span::Span;
use crate::queue::Grant;

impl Hold {
    /// Ends the hold. Returns the grant for a call graph that would continue it, and whether one may, after this number
    /// of disconnects.
    pub(in crate::hold) fn end(&self, disconnects: u64) -> (Grant, bool) {
        self.change(
            |HoldState {
                 lease, depth, mode, ..
             }| {
                lease.end(Instant::now());
                let grant = Grant {
                    hold: self.id,
                    mode: *mode,
                    tokens: self.tokens,
                    lease: lease.times(),
                    depth: depth.stored(),
                    unanswered: self.unanswered,
                    is_open: lease.lost().is_none(),
                    is_contended: false,
                    disconnects: lease.disconnects(),
                    via: Via::Memory,
                };
                let may_go_on = *mode == Mode::Exclusive
                    && lease.is_open(disconnects)
                    && !depth.is_lengthening();
                (grant, may_go_on)
            },
        )
    }

    /// The minimum time for which the lock is held, unless that time is certainly over.
    pub(in crate::hold) fn min_hold(&self) -> Option<Duration> {
        let min_hold = {
            let state = self.state.lock();
            state.min_hold.filter(|_| state.mode == Mode::Exclusive)
        }?;
        let since = self.tokens.since();
        // One per cent is for clocks that differ in rate.
        let is_over = since.is_some_and(|since| since.elapsed() >= min_hold + min_hold / 100);
        (!is_over).then_some(min_hold)
    }

    /// Sets the minimum time for which the lock is held, from its acquisition on. One of several locks has no such time
    /// before all of them are acquired: until then, whatever ends the attempt releases it.
    pub(crate) fn set_min_hold(&self, min_hold: Option<Duration>) {
        self.state.lock().min_hold = min_hold;
    }

    /// Notes that its holder gives way to a deadlock. The holder may want the lock again immediately, so waiters of
    /// other processes go first.
    pub(in crate::hold) fn give_way(&self) {
        self.state.lock().gives_way = true;
    }

    pub(in crate::hold) fn gives_way(&self) -> bool {
        self.state.lock().gives_way
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
        metrics::hold_ended(self.key.class(), self.mode(), self.began);
    }

    /// Ends the span, because the release was answered.
    pub(in crate::hold) fn end_span(&self) {
        // It is dropped after the mutex is released, because that runs foreign code.
        let _ended = mem::take(&mut self.state.lock().span);
    }
}

//! The queue of a lock that one caller alone has asked for, or holds: as it would be, had it been there from the start.

use tokio::time::Instant;

use super::{Holder, LocalQueue};
use crate::base::id::HoldId;
use crate::base::option_types::Mode;
use crate::base::options::Queueing;
use crate::queue::step::Heard;
use crate::queue::waiter::Waiter;

impl LocalQueue {
    /// The queue where one caller asks, and no other has come.
    pub(in crate::queue) fn asking(queueing: Queueing, waiter: Waiter) -> Self {
        let (mut queue, mut sent) = (Self::new(queueing), Vec::new());
        queue.join(waiter, &mut sent);
        queue.go_on(Instant::now(), &mut sent);
        queue
    }

    /// The queue where a hold has the lock, after so many hand-offs in a row, and no caller wants it.
    pub(in crate::queue) fn held(
        queueing: Queueing,
        (hold, mode): (HoldId, Mode),
        handoffs: u32,
        is_contended: bool,
    ) -> Self {
        Self {
            holders: vec![Holder {
                hold,
                mode,
                until: None,
            }],
            handoffs,
            is_contended,
            heard: Heard::Busy,
            ..Self::new(queueing)
        }
    }

    /// The one hold that has the lock, and after how many hand-offs in a row, where no caller wants it.
    pub(in crate::queue) fn held_alone(&self) -> Option<((HoldId, Mode), u32, bool)> {
        match self.holders[..] {
            [
                Holder {
                    hold,
                    mode,
                    until: None,
                },
            ] if !self.is_active() => Some(((hold, mode), self.handoffs, self.is_contended)),
            _ => None,
        }
    }
}

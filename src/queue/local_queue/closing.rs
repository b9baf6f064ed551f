//! The end of all waits at once: the `Locks` is closed.

use tokio::time::Instant;

use super::LocalQueue;
use crate::queue::step::{Action, Refusal};

impl LocalQueue {
    /// Rejects all waiters, and takes back the grants that were not claimed.
    pub(super) fn close(&mut self, now: Instant, actions: &mut Vec<Action>) {
        let unclaimed = self.unclaimed.drain(..);
        actions.extend(unclaimed.map(|(_, waiter)| Action::PassOver(waiter)));
        let waiters: Vec<_> = self.waiters.iter().map(|it| it.request.hold).collect();
        // Beginning with the last one: the end of the first one, which the store may know, names no successor.
        for hold in waiters.into_iter().rev() {
            self.refuse(hold, Refusal::Closed, now, actions);
        }
    }
}

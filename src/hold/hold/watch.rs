//! Waiting for the loss of a lock, or for the end of its hold.

use std::pin::pin;

use tokio::select;

use super::Hold;
use crate::base::error::LostReason;
use crate::base::sync::until;
use crate::base::timer::sleep_until;

impl Hold {
    /// Resolves when the lock is lost, and never otherwise. It sees the deadline pass by itself, since
    /// the schedule may be that of a runtime that stands still.
    pub(crate) async fn until_lost(&self) -> LostReason {
        loop {
            let mut lost = pin!(until(&self.over, || self.lost()));
            let deadline = {
                let state = self.state.lock();
                (!state.lease.has_ended()).then(|| state.lease.deadline())
            };
            match deadline {
                None => return lost.await,
                Some(deadline) => select! {
                    biased;
                    reason = &mut lost => return reason,
                    () = sleep_until(deadline) => {}
                },
            }
        }
    }

    /// Resolves when the hold has ended.
    pub(in crate::hold) async fn until_ended(&self) {
        let ended = || self.state.lock().lease.has_ended().then_some(());
        until(&self.over, ended).await;
    }
}

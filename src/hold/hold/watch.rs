//! Waiting for the loss of a lock, or for the end of its hold.

use tokio::select;

use super::Hold;
use crate::base::{error::LostReason, timer::sleep_until};

impl Hold {
    /// Resolves when the lock is lost, and never otherwise. It sees the deadline pass by itself, since
    /// the schedule may be that of a runtime that stands still.
    pub(crate) async fn until_lost(&self) -> LostReason {
        loop {
            let over = self.over.notified();
            tokio::pin!(over);
            // Registered before the check, so that a loss between the two still wakes us.
            over.as_mut().enable();
            if let Some(reason) = self.lost() {
                return reason;
            }
            let until = {
                let state = self.state.lock();
                (!state.lease.has_ended()).then(|| state.lease.deadline())
            };
            match until {
                None => over.await,
                Some(deadline) => select! {
                    biased;
                    () = over => {}
                    () = sleep_until(deadline) => {}
                },
            }
        }
    }

    /// Resolves when the hold has ended.
    pub(in crate::hold) async fn until_ended(&self) {
        loop {
            let over = self.over.notified();
            tokio::pin!(over);
            over.as_mut().enable();
            if self.state.lock().lease.has_ended() {
                return;
            }
            over.await;
        }
    }
}

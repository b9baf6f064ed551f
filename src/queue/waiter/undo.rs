//! How a waiter goes away without its lock, and what then happens to what it has asked for.

use std::sync::Arc;

use tokio::{runtime::Handle, time::Instant};

use super::{
    super::{
        Queue, Release,
        attempt::{Outcome, Refusal},
    },
    Waiter,
};
use crate::{
    base::{background::Handover, events},
    store::AcquireRequest,
};

impl Waiter {
    /// Ends whatever the store holds or may come to hold for this waiter, in the background. Answers
    /// whether there is anything of the kind. Only for the one who has taken it out of its line.
    pub(in crate::queue) fn undo(self: &Arc<Self>, queue: &Arc<Queue>) -> bool {
        let attempt = {
            let mut state = self.state.lock();
            state.ended = true;
            if state.attempt.is_none() && !state.unanswered && !state.queued {
                return false;
            }
            state.attempt.clone()
        };
        let (waiter, queue) = (Arc::clone(self), Arc::clone(queue));
        drop(Handover::new(&self.runtime, async move {
            let held = match attempt {
                Some(attempt) => matches!(attempt.await, Outcome::Held { .. }),
                None => false,
            };
            let (tombstone, queued) = {
                let state = waiter.state.lock();
                (state.unanswered, state.queued)
            };
            if !(held || tombstone || queued) {
                return queue.kick(&waiter.key);
            }
            let AcquireRequest { hold, ttl, .. } = waiter.claim;
            events::acquire_undone(&waiter.key, hold);
            let release = Release {
                key: waiter.key.clone(),
                hold,
                tombstone,
                deadline: Instant::now(),
                ttl,
                runtime: waiter.runtime.id(),
            };
            // What goes wrong is reported; there is nobody to tell.
            let _ = queue.release(release).await;
        }));
        true
    }

    /// Undoes what there is to undo for a waiter that stood first; the next one is told in either case.
    /// Only for the one who has taken it out of its line.
    pub(in crate::queue) fn withdraw(self: &Arc<Self>, queue: &Arc<Queue>) {
        if !self.undo(queue) {
            queue.kick(&self.key);
        }
    }

    /// Sends the waiter away. Only for the one who has taken it out of its line.
    pub(in crate::queue) fn refuse(self: &Arc<Self>, queue: &Arc<Queue>, refusal: Refusal) {
        self.withdraw(queue);
        self.answer(Err(refusal));
    }

    /// Takes back the lock that it has not come for.
    pub(in crate::queue) fn pass_over(&self) {
        let mut state = self.state.lock();
        let mut brought = state.answer.take_if(|answer| answer.is_ok());
        if brought.is_some() {
            state.answer = Some(Err(Refusal::PassedOver));
        }
        drop(state);
        // Its own runtime may stand still: that is why it does not come.
        if let (Some(Ok(grant)), Ok(here)) = (&mut brought, Handle::try_current()) {
            grant.runtime = here;
        }
        // Outside of the mutex, since it is released now.
        drop(brought);
    }
}

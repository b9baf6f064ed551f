//! A body raced against the loss of its lock.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use crate::{base::error::LostReason, hold::hold::Hold};

/// Wakes the task of a body when its lock is lost. Made at the first wait, since most short bodies
/// need none.
#[derive(Default)]
pub(crate) struct Loss(Option<Pin<Box<dyn Future<Output = LostReason> + Send>>>);

impl Loss {
    /// Polls `body`, unless the lock is lost. An error is the loss that ends the body.
    ///
    /// The deadline is checked before the body runs on: after a pause of the process no signal of a
    /// watchdog would come in time. And it is checked after the body has finished, since a result
    /// counts only if it came before.
    pub(crate) fn race<F: Future>(
        &mut self,
        hold: &Arc<Hold>,
        body: Pin<&mut F>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<F::Output, LostReason>> {
        if let Some(reason) = hold.must_abort() {
            return Poll::Ready(Err(reason));
        }
        match body.poll(cx) {
            Poll::Ready(output) => Poll::Ready(hold.must_abort().map_or(Ok(output), Err)),
            Poll::Pending => self.poll_lost(hold, cx).map(Err),
        }
    }

    /// The loss of `hold` that ends the body, which has been polled and waits.
    pub(crate) fn poll_lost(&mut self, hold: &Arc<Hold>, cx: &mut Context<'_>) -> Poll<LostReason> {
        if !hold.aborts_on_loss() {
            return Poll::Pending;
        }
        let loss = self.0.get_or_insert_with(|| {
            let hold = Arc::clone(hold);
            Box::pin(async move { hold.until_lost().await })
        });
        loss.as_mut().poll(cx)
    }
}

impl fmt::Debug for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loss").finish_non_exhaustive()
    }
}

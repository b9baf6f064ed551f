//! A body raced against the loss of its lock.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::select_all;

use crate::base::error::LockError;
use crate::hold::hold::Hold;
use crate::hold::scope;

type AnyLost = Pin<Box<dyn Future<Output = LockError> + Send>>;

/// Wakes the task of a body when one of its locks is lost. It is created at the first wait, because most short bodies
/// need none.
#[derive(Default)]
pub(crate) struct Loss(Option<AnyLost>);

impl Loss {
    /// Polls `body`, unless one of the locks is lost. An error is the loss that ends the body.
    ///
    /// The deadline is checked before the body continues, because after a pause of the process the signal of a watchdog
    /// would come too late. It is also checked after the body has finished, because a result counts only if it came
    /// before the deadline.
    pub(crate) fn race<F: Future>(
        &mut self,
        holds: &[Arc<Hold>],
        body: Pin<&mut F>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<F::Output, LockError>> {
        if let Some(error) = must_abort(holds) {
            return Poll::Ready(Err(error));
        }
        match body.poll(cx) {
            Poll::Ready(output) => Poll::Ready(must_abort(holds).map_or(Ok(output), Err)),
            Poll::Pending => self.poll_lost(holds, cx).map(Err),
        }
    }

    /// The loss that ends the body, which was polled and is pending.
    pub(crate) fn poll_lost(
        &mut self,
        holds: &[Arc<Hold>],
        cx: &mut Context<'_>,
    ) -> Poll<LockError> {
        if !holds.iter().any(|hold| hold.aborts_on_loss()) {
            return Poll::Pending;
        }
        let loss = self.0.get_or_insert_with(|| any_lost(holds));
        loss.as_mut().poll(cx)
    }
}

/// The loss of the first lock whose loss ends the body.
pub(super) fn must_abort(holds: &[Arc<Hold>]) -> Option<LockError> {
    let mut lost = holds.iter().filter_map(|hold| {
        let reason = hold.must_abort()?;
        Some(hold.lost_error(reason))
    });
    lost.next()
}

/// Resolves when a lock is lost whose loss ends the body. Such a lock exists.
fn any_lost(holds: &[Arc<Hold>]) -> AnyLost {
    match holds {
        [hold] => {
            let hold = Arc::clone(hold);
            Box::pin(async move { hold.lost_error(hold.until_lost().await) })
        }
        several => {
            let each = several.iter().filter(|hold| hold.aborts_on_loss());
            let each = each.map(|hold| any_lost(std::slice::from_ref(hold)));
            Box::pin(select_all(each).map(|(error, ..)| error))
        }
    }
}

/// Does the work, unless one of the locks is lost in the meantime.
pub(crate) async fn unless_lost<T>(
    holds: &[Arc<Hold>],
    work: impl Future<Output = Result<T, LockError>>,
) -> Result<T, LockError> {
    if holds.is_empty() {
        return work.await;
    }
    let lost = holds.iter().map(|hold| {
        let hold = Arc::clone(hold);
        Box::pin(async move { hold.lost_error(hold.until_lost().await) })
    });
    tokio::select! {
        biased;
        (error, ..) = select_all(lost) => Err(error),
        done = work => done,
    }
}

/// An error on its way to the caller. If a loss must end a body around the caller, that body is dropped first, and the
/// caller makes no further step.
///
/// A level checks for its loss after its body was polled, so this future waits for that. Code in between may poll this
/// future again before, or block its thread until it completes. So it completes after a limited number of polls.
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub(crate) struct Failing {
    error: Option<LockError>,
    polls: u8,
}

/// A set of futures polls a future that wakes itself twice before it returns, and each nested set multiplies that.
const MOST_POLLS: u8 = 16;

impl Failing {
    pub(crate) fn new(error: LockError) -> Self {
        Self {
            error: Some(error),
            polls: 0,
        }
    }
}

impl Future for Failing {
    type Output = LockError;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LockError> {
        if self.polls < MOST_POLLS && scope::must_abort() {
            self.polls += 1;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.error.take().map_or(Poll::Pending, Poll::Ready)
    }
}

impl fmt::Debug for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loss").finish_non_exhaustive()
    }
}

//! A body raced against the loss of its lock.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::select_all;
use smallvec::SmallVec;

use crate::base::error::LockError;
use crate::hold::hold::Hold;
use crate::hold::scope;

type LostFuture = Pin<Box<dyn Future<Output = LockError> + Send>>;

/// Wakes the task of a body when one of the locks is lost whose loss ends it. The futures are created at the first wait,
/// because most short bodies need none.
#[derive(Default)]
pub(crate) struct Loss(Option<SmallVec<[LostFuture; 1]>>);

impl Loss {
    /// Polls `body`, unless one of the locks is lost. An error is the loss that ends the body.
    ///
    /// The deadline is checked before the body continues, because after a pause of the process the signal of a watchdog
    /// would come too late. It is also checked after the body has finished, because a result counts only if it came
    /// before the deadline.
    pub(crate) fn race<'a, F: Future>(
        &mut self,
        holds: impl Iterator<Item = &'a Arc<Hold>> + Clone,
        body: Pin<&mut F>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<F::Output, LockError>> {
        if let Some(error) = must_abort(holds.clone()) {
            return Poll::Ready(Err(error));
        }
        if let Poll::Ready(output) = body.poll(cx) {
            return Poll::Ready(must_abort(holds).map_or(Ok(output), Err));
        }
        let aborts = holds.filter(|hold| hold.aborts_on_loss());
        let losses = self
            .0
            .get_or_insert_with(|| aborts.map(until_lost).collect());
        let mut lost = losses.iter_mut().map(|lost| lost.as_mut().poll(cx));
        let first = lost.find(Poll::is_ready).unwrap_or(Poll::Pending);
        first.map(Err)
    }
}

/// The loss of the first lock whose loss ends the body.
pub(crate) fn must_abort<'a>(mut holds: impl Iterator<Item = &'a Arc<Hold>>) -> Option<LockError> {
    holds.find_map(|hold| {
        let reason = hold.must_abort()?;
        Some(hold.lost_error(reason))
    })
}

/// Resolves when the lock is lost.
fn until_lost(hold: &Arc<Hold>) -> LostFuture {
    let hold = Arc::clone(hold);
    Box::pin(async move { hold.lost_error(hold.until_lost().await) })
}

/// Does the work, unless one of the locks is lost in the meantime.
pub(crate) async fn unless_lost<T>(
    holds: &[Arc<Hold>],
    work: impl Future<Output = Result<T, LockError>>,
) -> Result<T, LockError> {
    if holds.is_empty() {
        return work.await;
    }
    tokio::select! {
        biased;
        (error, ..) = select_all(holds.iter().map(until_lost)) => Err(error),
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

//! The detection of deadlocks. An acquisition that waits while its call graph holds other locks may wait for itself, by
//! way of others. It publishes its wait, searches for a cycle among the waits of all processes, and gives way if it is
//! chosen.
//!
//! Of the waits that wait for each other, the last to publish walks after all others have published, so the cycle is
//! found. It is confirmed by a second walk ([`walk`]). Every wait of a cycle may find it. A claim in the store decides
//! which one gives way.
//!
//! An acquisition that nothing encloses does not take part. An enclosed one arms one timer after its first request is
//! answered and it has to wait. The search begins a quarter of a heartbeat after the acquisition began.

use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project::pin_project;

use self::search::Search;
use crate::base::error::LockError;
use crate::base::timer::{Sleep, after, sleep_until};

mod published;
mod publisher;
mod search;
mod searches;
mod waiting;
mod walk;

#[cfg(test)]
mod tests;

pub(crate) use self::searches::Searches;
pub(crate) use self::waiting::Waiting;

/// Waits for a lock; see [`unless_deadlock`].
#[pin_project(project = UnlessDeadlockProjection)]
pub(crate) struct UnlessDeadlock<'a, F> {
    #[pin]
    acquiring: F,
    #[pin]
    stage: SearchStage,
    /// The waiting acquisition; `None` after it was passed to the search.
    waiting: Option<Waiting<'a>>,
    search: Option<Pin<Box<dyn Future<Output = LockError> + Send + 'a>>>,
}

#[pin_project(project = SearchStageProjection)]
enum SearchStage {
    /// It is certain to be polled when its first request is answered, so no timer is needed until then.
    Asking,
    Patient(#[pin] Sleep),
    Searching,
}

/// Waits for a lock, unless that is a deadlock and this wait is chosen to give way.
///
/// Dropping it removes what was published, in the background.
pub(crate) fn unless_deadlock<F>(acquiring: F, waiting: Waiting<'_>) -> UnlessDeadlock<'_, F> {
    UnlessDeadlock {
        acquiring,
        stage: SearchStage::Asking,
        waiting: Some(waiting),
        search: None,
    }
}

impl<F, T> Future for UnlessDeadlock<'_, F>
where
    F: Future<Output = Result<T, LockError>>,
{
    type Output = Result<T, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Poll::Ready(acquired) = this.acquiring.poll(cx) {
            return Poll::Ready(acquired);
        }
        if let Some(waiting) = &*this.waiting {
            if matches!(*this.stage, SearchStage::Asking) {
                if waiting.queues.asks_alone(waiting.key, waiting.hold) {
                    return Poll::Pending;
                }
                let patience = after(waiting.since, waiting.heartbeat / 4);
                this.stage.set(SearchStage::Patient(sleep_until(patience)));
            }
            if let SearchStageProjection::Patient(pause) = this.stage.as_mut().project() {
                if pause.poll(cx).is_pending() {
                    return Poll::Pending;
                }
                this.stage.set(SearchStage::Searching);
            }
        }
        if let Some(waiting) = this.waiting.take() {
            *this.search = Some(Box::pin(Search::new(waiting).run()));
        }
        match this.search {
            Some(search) => search.as_mut().poll(cx).map(Err),
            None => Poll::Pending,
        }
    }
}

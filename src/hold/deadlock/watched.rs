//! An acquisition with the search for a deadlock beside it.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use pin_project::pin_project;

use super::{search::Search, waiting::Waiting};
use crate::base::{
    error::LockError,
    span::Span,
    timer::{Sleep, after, sleep_until},
};

/// Waits for a lock; see [`watched`].
#[pin_project(project = WatchedProjection)]
pub(crate) struct Watched<'a, F> {
    #[pin]
    acquiring: F,
    #[pin]
    stage: Stage,
    waiting: Option<Waiting<'a>>,
    span: Span,
    search: Option<Pin<Box<dyn Future<Output = LockError> + Send + 'a>>>,
}

#[pin_project(project = StageProjection)]
enum Stage {
    /// It is certain to be polled when its first request is answered: no timer is needed until then.
    Asking,
    Patient(#[pin] Sleep),
    Searching,
}

/// Waits for a lock, unless that is a deadlock and this wait is chosen to give way. Without `waiting`, or while
/// nothing encloses it, it is the acquisition and nothing more. It is polled inside of the span.
///
/// Dropping it takes back what was published, in the background.
pub(crate) fn watched<F>(acquiring: F, waiting: Option<Waiting<'_>>, span: Span) -> Watched<'_, F> {
    Watched {
        acquiring,
        stage: Stage::Asking,
        waiting,
        span,
        search: None,
    }
}

impl<F, T> Future for Watched<'_, F>
where
    F: Future<Output = Result<T, LockError>>,
{
    type Output = Result<T, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let span = this.span.clone();
        span.in_scope(|| this.poll(cx))
    }
}

impl<F, T> WatchedProjection<'_, '_, F>
where
    F: Future<Output = Result<T, LockError>>,
{
    fn poll(mut self, cx: &mut Context<'_>) -> Poll<Result<T, LockError>> {
        if let Poll::Ready(acquired) = self.acquiring.poll(cx) {
            return Poll::Ready(acquired);
        }
        if let Some(waiting) = &*self.waiting {
            if matches!(*self.stage, Stage::Asking) {
                if waiting.queues.asks_alone(waiting.key, waiting.hold) {
                    return Poll::Pending;
                }
                let patience = after(waiting.since, waiting.heartbeat / 4);
                self.stage.set(Stage::Patient(sleep_until(patience)));
            }
            if let StageProjection::Patient(pause) = self.stage.as_mut().project() {
                if pause.poll(cx).is_pending() {
                    return Poll::Pending;
                }
                self.stage.set(Stage::Searching);
            }
        }
        if let Some(waiting) = self.waiting.take() {
            *self.search = Some(Box::pin(Search::new(waiting).run()));
        }
        match self.search {
            Some(search) => search.as_mut().poll(cx).map(Err),
            None => Poll::Pending,
        }
    }
}

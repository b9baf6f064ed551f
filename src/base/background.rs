//! Work that must be finished even if no caller waits for it: releases, and acquires to be undone.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::runtime::Handle;

use crate::base::{metrics, span::Span};

/// Runs work on the runtime for which no caller waits.
pub(crate) fn spawn(runtime: &Handle, work: impl Future<Output: Send> + Send + 'static) {
    let counted = Counted::begin();
    drop(runtime.spawn(async move {
        let _counted = counted;
        work.await
    }));
}

/// Work that is under way until this is dropped, with it or with its runtime.
struct Counted;

impl Counted {
    fn begin() -> Self {
        metrics::background(1.0);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        metrics::background(-1.0);
    }
}

/// Work that goes on in the background when its waiter is dropped.
///
/// It is polled inside of its span. It carries the handle of a runtime, so that the waiter may be dropped on any
/// thread. Without one it goes on on the runtime on which the waiter is dropped.
pub(crate) struct Handover<T: Send + 'static> {
    work: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    runtime: Option<Handle>,
    span: Span,
}

impl<T: Send + 'static> Handover<T> {
    pub(crate) fn new(
        runtime: Option<Handle>,
        span: Span,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Self {
        Self {
            work: Some(Box::pin(work)),
            runtime,
            span,
        }
    }
}

impl<T: Send + 'static> fmt::Debug for Handover<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handover").finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Future for Handover<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Self { work, span, .. } = &mut *self;
        let Some(polled) = work.as_mut() else {
            return Poll::Pending;
        };
        let output = ready!(span.in_scope(|| polled.as_mut().poll(cx)));
        *work = None;
        Poll::Ready(output)
    }
}

impl<T: Send + 'static> Drop for Handover<T> {
    fn drop(&mut self) {
        let runtime = self.runtime.take().or_else(|| Handle::try_current().ok());
        // If no runtime is there the lease ends by itself.
        if let (Some(work), Some(runtime)) = (self.work.take(), runtime) {
            spawn(&runtime, self.span.around(work));
        }
    }
}

//! Work that must be finished even if no caller waits for it: releases, and the undoing of acquisitions.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::thread;

use tokio::runtime::Handle;

use crate::base::metrics;
use crate::base::span::Span;

/// Runs work on the runtime for which no caller waits.
pub(crate) fn spawn(runtime: &Handle, work: impl Future<Output: Send> + Send + 'static) {
    let task = BackgroundTask::begin();
    drop(runtime.spawn(async move {
        let _task = task;
        work.await
    }));
}

/// A task that the metrics count until the value is dropped, either with its work or with its runtime.
struct BackgroundTask;

impl BackgroundTask {
    fn begin() -> Self {
        metrics::background(1.0);
        Self
    }
}

impl Drop for BackgroundTask {
    fn drop(&mut self) {
        metrics::background(-1.0);
    }
}

/// Work that continues in the background when its waiter is dropped.
///
/// The work is polled inside its span. It continues on `runtime`, so that the waiter may be dropped on any thread.
/// Without `runtime`, the work continues in the runtime in which the waiter is dropped.
pub(crate) struct Handover<T: Send + 'static> {
    work: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    runtime: Option<Handle>,
    span: Span,
    is_in_memory: bool,
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
            is_in_memory: false,
        }
    }

    /// Work in memory needs no runtime: it is done when its waiter is dropped.
    pub(crate) fn in_memory(mut self, is_in_memory: bool) -> Self {
        self.is_in_memory = is_in_memory;
        self
    }
}

impl<T: Send + 'static> Handover<T> {
    /// Whether the work has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.work.is_none()
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
        let Some(mut work) = self.work.take() else {
            return;
        };
        // A second panic would end the process.
        if self.is_in_memory && !thread::panicking() {
            let mut cx = Context::from_waker(Waker::noop());
            let polled = self.span.in_scope(|| work.as_mut().poll(&mut cx));
            if polled.is_ready() {
                return;
            }
        }
        let runtime = self.runtime.take().or_else(|| Handle::try_current().ok());
        // Without a runtime the lease expires by itself.
        if let Some(runtime) = runtime {
            spawn(&runtime, self.span.around(work));
        }
    }
}

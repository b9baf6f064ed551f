//! Work that must be finished even if no caller waits for it: releases, and acquires to be undone.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::runtime::Handle;

/// Work that goes on in the background when its waiter is dropped.
///
/// It carries the handle of a runtime, so that the waiter may be dropped on any thread.
pub(crate) struct Handover<T: Send + 'static> {
    work: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    runtime: Handle,
}

impl<T: Send + 'static> Handover<T> {
    pub(crate) fn new(runtime: &Handle, work: impl Future<Output = T> + Send + 'static) -> Self {
        Self {
            work: Some(Box::pin(work)),
            runtime: runtime.clone(),
        }
    }
}

impl<T: Send + 'static> Future for Handover<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(work) = self.work.as_mut() else {
            return Poll::Pending;
        };
        let output = ready!(work.as_mut().poll(cx));
        self.work = None;
        Poll::Ready(output)
    }
}

impl<T: Send + 'static> Drop for Handover<T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            // If the runtime is gone the lease ends by itself.
            drop(self.runtime.spawn(work));
        }
    }
}

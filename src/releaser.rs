//! Work that must be finished even if nobody waits for it: releases, and acquires to be undone.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::runtime::Handle;

/// The pauses between two attempts at a request that must get through.
pub(crate) fn pauses() -> impl Iterator<Item = Duration> {
    growing_pauses(Duration::from_millis(500), 2.0)
}

/// Pauses that grow by `factor` from 10 ms to `longest`. The jitter adds up to as much again to each.
pub(crate) fn growing_pauses(longest: Duration, factor: f32) -> impl Iterator<Item = Duration> {
    ExponentialBuilder::new()
        .with_min_delay(Duration::from_millis(10))
        .with_max_delay(longest)
        .with_factor(factor)
        .with_jitter()
        .without_max_times()
        .build()
}

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

//! Work that is done once for all who wait for it.

use std::{fmt, pin::Pin, time::Duration};

use futures_util::{FutureExt, future::Shared};

use crate::base::{mutex::Mutex, timer::timeout};

/// It runs as a task of its own, so that a caller which is dropped does not cut it off. `None` if it ended with its
/// runtime.
type Running<T> = Shared<Pin<Box<dyn Future<Output = Option<T>> + Send>>>;

/// An attempt at something that all of its callers need.
pub(super) struct Attempt<T>(Mutex<Option<Running<T>>>);

impl<T> Default for Attempt<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone + Send + Sync + 'static> Attempt<T> {
    /// Waits for the attempt that is under way, or begins one. Where it ends with its runtime, or has no outcome for so
    /// long, since that stands still, another one is begun.
    pub(super) async fn outcome<F>(&self, limit: Duration, begin: impl Fn() -> F) -> T
    where
        F: Future<Output = T> + Send + 'static,
    {
        loop {
            let running = {
                let mut present = self.0.lock();
                let running = present.get_or_insert_with(|| start(begin()));
                running.clone()
            };
            let outcome = timeout(limit, running.clone()).await;
            // The next caller makes an attempt of its own.
            let mut present = self.0.lock();
            let is_present = |present: &mut Running<T>| present.ptr_eq(&running);
            let ended = present.take_if(is_present);
            drop(present);
            drop(ended);
            if let Ok(Some(outcome)) = outcome {
                return outcome;
            }
        }
    }
}

fn start<T: Clone + Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Running<T> {
    let task = tokio::spawn(work);
    let running: Pin<Box<dyn Future<Output = Option<T>> + Send>> =
        Box::pin(async { task.await.ok() });
    running.shared()
}

impl<T> fmt::Debug for Attempt<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt").finish_non_exhaustive()
    }
}

//! Work that is done once for all who wait for it.

use std::{fmt, pin::Pin, time::Duration};

use futures_util::{FutureExt, future::Shared};
use tokio::task::AbortHandle;

use crate::base::{mutex::Mutex, timer::timeout};

/// `None` if it ended with its runtime.
type Outcome<T> = Shared<Pin<Box<dyn Future<Output = Option<T>> + Send>>>;

/// It runs as a task of its own, so that a caller which is dropped does not cut it off.
struct Running<T> {
    task: AbortHandle,
    outcome: Outcome<T>,
}

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
            let (running, ended) = {
                let mut present = self.0.lock();
                // One whose callers were dropped may have ended long ago.
                let ended = present.take_if(|present| present.task.is_finished());
                let running = present.get_or_insert_with(|| start(begin()));
                (running.outcome.clone(), ended)
            };
            drop(ended);
            let outcome = timeout(limit, running.clone()).await;
            // The next caller makes an attempt of its own.
            let mut present = self.0.lock();
            let is_present = |present: &mut Running<T>| present.outcome.ptr_eq(&running);
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
    let abort = task.abort_handle();
    let outcome: Pin<Box<dyn Future<Output = Option<T>> + Send>> =
        Box::pin(async { task.await.ok() });
    Running {
        task: abort,
        outcome: outcome.shared(),
    }
}

impl<T> fmt::Debug for Attempt<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    };

    use futures_util::future::join;
    use tokio::task::yield_now;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Its outcome is the number of the attempt.
    fn counting(begun: &Arc<AtomicU32>) -> impl Fn() -> Pin<Box<dyn Future<Output = u32> + Send>> {
        let begun = Arc::clone(begun);
        move || {
            let number = begun.fetch_add(1, SeqCst);
            Box::pin(async move {
                yield_now().await;
                number
            })
        }
    }

    #[tokio::test]
    async fn callers_at_the_same_time_share_one_attempt() {
        let (attempt, begun) = (Attempt::default(), Arc::default());
        let [one, other] = [(); 2].map(|()| attempt.outcome(LONG, counting(&begun)));
        assert_eq!(join(one, other).await, (0, 0));
        assert_eq!(attempt.outcome(LONG, counting(&begun)).await, 1);
    }

    #[tokio::test]
    async fn what_dropped_callers_asked_is_no_answer_for_a_later_one() {
        let (attempt, begun) = (Attempt::default(), Arc::default());
        assert_eq!(attempt.outcome(LONG, counting(&begun)).now_or_never(), None);
        // The task of the attempt ends without a caller.
        while !attempt
            .0
            .lock()
            .as_ref()
            .is_some_and(|it| it.task.is_finished())
        {
            yield_now().await;
        }
        assert_eq!(attempt.outcome(LONG, counting(&begun)).await, 1);
    }
}

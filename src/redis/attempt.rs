//! An attempt to connect, to learn where the servers are, or to ask for their replicas, for which all callers wait.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tokio::time::Instant;

use crate::base::error::{Effect, StoreError};
use crate::base::sync::Mutex;
use crate::base::timer::timeout_at;

/// A task of its own, so that it continues when a caller is dropped.
#[derive(Clone)]
pub(crate) struct Attempt<T> {
    /// `None` if the task has ended with its runtime.
    outcome: Shared<BoxFuture<'static, Option<Result<T, StoreError>>>>,
    /// The instant at which another attempt begins, because the runtime of this one is stalled.
    until: Instant,
}

impl<T: Clone + Send + Sync + 'static> Attempt<T> {
    /// Begins an attempt, which does not need longer than until this instant on a runtime that is driven.
    pub(crate) fn begin(
        endpoint: &Arc<str>,
        until: Instant,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Self {
        let cause = "the attempt panicked";
        let panicked = StoreError::new("connect", endpoint, Effect::Refused, cause);
        let outcome = tokio::spawn(work).map(|ended| match ended {
            Ok(outcome) => Some(outcome),
            Err(error) => error.is_panic().then_some(Err(panicked)),
        });
        Self {
            outcome: outcome.boxed().shared(),
            until,
        }
    }

    /// Returns whether its outcome may still be waited for.
    pub(crate) fn is_running(&self, now: Instant) -> bool {
        now < self.until && self.outcome.peek().is_none()
    }

    /// Waits for the outcome. `None` if there will be none: then another attempt must begin.
    pub(crate) async fn outcome(self) -> Option<Result<T, StoreError>> {
        timeout_at(self.until, self.outcome).await.ok().flatten()
    }
}

/// The place of the attempt in progress.
pub(crate) struct InProgress<T>(Mutex<Option<Attempt<T>>>);

impl<T> Default for InProgress<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone + Send + Sync + 'static> InProgress<T> {
    /// Waits for the attempt in progress, or begins one.
    pub(crate) async fn outcome(&self, begin: impl Fn() -> Attempt<T>) -> Result<T, StoreError> {
        loop {
            let attempt = {
                let mut present = self.0.lock();
                let running = present.take().filter(|it| it.is_running(Instant::now()));
                present.insert(running.unwrap_or_else(&begin)).clone()
            };
            if let Some(outcome) = attempt.outcome().await {
                return outcome;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::SeqCst;
    use std::time::Duration;

    use futures_util::future::join;
    use tokio::runtime::Builder;
    use tokio::task::yield_now;

    use super::*;
    use crate::base::timer::timeout;

    const LONG: Duration = Duration::from_secs(60);

    /// Counts the attempts. The first one never ends if `is_first_stuck` is set.
    fn count(begun: &Arc<AtomicU32>, is_first_stuck: bool) -> Attempt<()> {
        let begun = Arc::clone(begun);
        Attempt::begin(&"here".into(), Instant::now() + LONG, async move {
            if begun.fetch_add(1, SeqCst) == 0 && is_first_stuck {
                pending::<()>().await;
            }
            yield_now().await;
            Ok(())
        })
    }

    #[tokio::test]
    async fn callers_at_the_same_time_share_one_attempt() {
        let (attempts, begun) = (InProgress::default(), Arc::default());
        let ask = || attempts.outcome(|| count(&begun, false));
        let (one, other) = join(ask(), ask()).await;
        assert!(one.is_ok() && other.is_ok());
        assert_eq!(begun.load(SeqCst), 1);
        assert!(ask().await.is_ok());
        assert_eq!(begun.load(SeqCst), 2);
    }

    #[tokio::test]
    async fn one_that_panics_is_an_error() {
        let work = async { panic!("on purpose") };
        let attempt = Attempt::<()>::begin(&"here".into(), Instant::now() + LONG, work);
        let outcome = attempt.outcome().await;
        assert!(matches!(outcome, Some(Err(error)) if error.is_refused()));
    }

    #[test]
    fn one_that_ends_with_its_runtime_is_made_anew() {
        let (attempts, begun) = (InProgress::default(), Arc::default());
        let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
        let (first, next) = (runtime(), runtime());
        let mut asked = Box::pin(attempts.outcome(|| count(&begun, true)));
        first.block_on(async {
            assert!((&mut asked).now_or_never().is_none());
            yield_now().await;
        });
        drop(first);
        assert!(next.block_on(asked).is_ok());
        assert_eq!(begun.load(SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_stands_still_is_given_up_however_short_its_callers_wait() {
        let (attempts, begun) = (InProgress::default(), Arc::default());
        let ask = || attempts.outcome(|| count(&begun, true));
        for _ in 0..4 {
            assert!(timeout(LONG / 5, ask()).await.is_err());
        }
        assert!(timeout(2 * LONG / 5, ask()).await.is_ok());
        assert_eq!(begun.load(SeqCst), 2);
    }
}

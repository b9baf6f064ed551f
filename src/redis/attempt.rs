//! Work of which one attempt at a time is in progress, for which all callers wait: to connect, to learn where the
//! servers are, or to ask for their replicas.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tokio::time::Instant;

use crate::base::error::{FailureClass, StoreError};
use crate::base::sync::Mutex;
use crate::base::timer::{after, timeout_at};

/// The attempt in progress.
#[derive(Default)]
pub(crate) struct SharedAttempt(Mutex<Option<Attempt>>);

/// The outcome of an attempt, and the instant at which another one begins, because the runtime of this one is stalled.
type Attempt = (Shared<BoxFuture<'static, Option<Outcome>>>, Instant);

type Outcome = Result<(), StoreError>;

impl SharedAttempt {
    /// Waits for the attempt in progress, or begins one. On a runtime that is driven, the work does not need longer than
    /// the limit.
    pub(crate) async fn outcome<F: Future<Output = Outcome> + Send + 'static>(
        &self,
        endpoint: &Arc<str>,
        limit: Duration,
        work: impl Fn() -> F,
    ) -> Outcome {
        loop {
            let (outcome, until) = {
                let now = Instant::now();
                let mut present = self.0.lock();
                let running = present
                    .take()
                    .filter(|(outcome, until)| now < *until && outcome.peek().is_none());
                let begin = || (begin(endpoint, work()), after(now, limit));
                present.insert(running.unwrap_or_else(begin)).clone()
            };
            // If its runtime has ended, or is stalled, another attempt begins.
            if let Ok(Some(outcome)) = timeout_at(until, outcome).await {
                return outcome;
            }
        }
    }
}

/// Begins an attempt in a task of its own, so that it continues when a caller is dropped. There is no outcome if the task
/// ends with its runtime.
fn begin(
    endpoint: &Arc<str>,
    work: impl Future<Output = Outcome> + Send + 'static,
) -> Shared<BoxFuture<'static, Option<Outcome>>> {
    let cause = "the attempt panicked";
    let panicked = StoreError::new("connect", endpoint, FailureClass::Permanent, cause);
    let outcome = tokio::spawn(work).map(|ended| match ended {
        Ok(outcome) => Some(outcome),
        Err(error) => error.is_panic().then_some(Err(panicked)),
    });
    outcome.boxed().shared()
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::SeqCst;

    use futures_util::future::join;
    use tokio::runtime::Builder;
    use tokio::task::yield_now;

    use super::*;
    use crate::base::timer::timeout;

    const LONG: Duration = Duration::from_secs(60);

    /// Asks for an outcome, and counts the attempts. The first one never ends if `is_first_stuck` is set.
    async fn ask(
        attempts: &SharedAttempt,
        begun: &Arc<AtomicU32>,
        is_first_stuck: bool,
    ) -> Result<(), StoreError> {
        let count = || {
            let begun = Arc::clone(begun);
            async move {
                if begun.fetch_add(1, SeqCst) == 0 && is_first_stuck {
                    pending::<()>().await;
                }
                yield_now().await;
                Ok(())
            }
        };
        attempts.outcome(&"here".into(), LONG, count).await
    }

    #[tokio::test]
    async fn callers_at_the_same_time_share_one_attempt() {
        let (attempts, begun) = (SharedAttempt::default(), Arc::default());
        let ask = || ask(&attempts, &begun, false);
        let (one, other) = join(ask(), ask()).await;
        assert!(one.is_ok() && other.is_ok());
        assert_eq!(begun.load(SeqCst), 1);
        assert!(ask().await.is_ok());
        assert_eq!(begun.load(SeqCst), 2);
    }

    #[tokio::test]
    async fn one_that_panics_is_an_error() {
        let work = || async { panic!("on purpose") };
        let outcome = SharedAttempt::default()
            .outcome(&"here".into(), LONG, work)
            .await;
        assert!(outcome.is_err_and(|error| error.is_denied()));
    }

    #[test]
    fn one_that_ends_with_its_runtime_is_made_anew() {
        let (attempts, begun) = (SharedAttempt::default(), Arc::default());
        let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
        let (first, next) = (runtime(), runtime());
        let mut asked = Box::pin(ask(&attempts, &begun, true));
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
        let (attempts, begun) = (SharedAttempt::default(), Arc::default());
        let ask = || ask(&attempts, &begun, true);
        for _ in 0..4 {
            assert!(timeout(LONG / 5, ask()).await.is_err());
        }
        assert!(timeout(2 * LONG / 5, ask()).await.is_ok());
        assert_eq!(begun.load(SeqCst), 2);
    }
}

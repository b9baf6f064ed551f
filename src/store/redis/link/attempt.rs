//! Work that is done once for all who wait for it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::base::error::{Effect, StoreError};
use crate::base::sync::Mutex;
use crate::base::timer::{after, timeout_at};

/// An attempt at something that all of its callers need.
pub(crate) struct Attempt {
    running: Mutex<Option<Running>>,
    /// The server that it connects to, for messages.
    endpoint: Arc<str>,
}

/// It runs as a task of its own, so that a caller which is dropped does not cut it off.
struct Running {
    task: AbortHandle,
    /// `None` if it ended with its runtime.
    outcome: Shared<BoxFuture<'static, Option<Result<(), StoreError>>>>,
    /// When another one is begun, since the runtime of this one stands still.
    until: Instant,
}

impl Attempt {
    pub(crate) fn new(endpoint: Arc<str>) -> Self {
        Self {
            running: Mutex::default(),
            endpoint,
        }
    }

    /// Waits for the attempt that is under way, or begins one. Returns at once if that is needless. If the attempt ends with
    /// its runtime, or has no outcome `limit` after its beginning, another one begins.
    pub(crate) async fn outcome<F>(
        &self,
        limit: Duration,
        is_needless: impl Fn() -> bool,
        begin: impl Fn() -> F,
    ) -> Result<(), StoreError>
    where
        F: Future<Output = Result<(), StoreError>> + Send + 'static,
    {
        loop {
            let now = Instant::now();
            let (running, ended) = {
                let mut present = self.running.lock();
                // The attempt may have ended long ago, if its callers were dropped. Its result is visible before its end is.
                // So `is_needless`, which comes after this, sees the result.
                let is_over = |it: &mut Running| it.task.is_finished() || it.until <= now;
                let ended = present.take_if(is_over);
                let start = || self.start(begin(), after(now, limit));
                let running = (!is_needless()).then(|| present.get_or_insert_with(start));
                (running.map(|it| (it.outcome.clone(), it.until)), ended)
            };
            drop(ended);
            let Some((outcome, until)) = running else {
                return Ok(());
            };
            if let Ok(Some(outcome)) = timeout_at(until, outcome).await {
                return outcome;
            }
        }
    }

    fn start(
        &self,
        work: impl Future<Output = Result<(), StoreError>> + Send + 'static,
        until: Instant,
    ) -> Running {
        let task = tokio::spawn(work);
        let abort = task.abort_handle();
        let cause = "the attempt to connect panicked";
        let panicked = StoreError::new("connect", &self.endpoint, Effect::Refused, cause);
        let outcome = task.map(|ended| match ended {
            Ok(outcome) => Some(outcome),
            Err(error) => error.is_panic().then_some(Err(panicked)),
        });
        Running {
            task: abort,
            outcome: outcome.boxed().shared(),
            until,
        }
    }
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

    fn attempt() -> Attempt {
        Attempt::new("here".into())
    }

    /// Counts the attempts, of which the first one goes on for ever if it is to.
    async fn count(begun: Arc<AtomicU32>, is_first_stuck: bool) -> Result<(), StoreError> {
        if begun.fetch_add(1, SeqCst) == 0 && is_first_stuck {
            pending::<()>().await;
        }
        yield_now().await;
        Ok(())
    }

    #[tokio::test]
    async fn callers_at_the_same_time_share_one_attempt() {
        let (attempt, begun) = (attempt(), Arc::<AtomicU32>::default());
        let ask = || attempt.outcome(LONG, || false, || count(Arc::clone(&begun), false));
        let (one, other) = join(ask(), ask()).await;
        assert!(one.is_ok() && other.is_ok());
        assert_eq!(begun.load(SeqCst), 1);
        assert!(ask().await.is_ok());
        assert_eq!(begun.load(SeqCst), 2);
    }

    #[tokio::test]
    async fn what_dropped_callers_asked_is_no_answer_for_a_later_one() {
        let (attempt, begun) = (attempt(), Arc::<AtomicU32>::default());
        let ask = || attempt.outcome(LONG, || false, || count(Arc::clone(&begun), false));
        assert!(ask().now_or_never().is_none());
        // The task of the attempt ends without a caller.
        let has_ended = |running: &Running| running.task.is_finished();
        while !attempt.running.lock().as_ref().is_some_and(has_ended) {
            yield_now().await;
        }
        assert!(ask().await.is_ok());
        assert_eq!(begun.load(SeqCst), 2);
    }

    #[tokio::test]
    async fn there_is_none_without_need() {
        let work = || async { unreachable!("it is needless") };
        assert!(attempt().outcome(LONG, || true, work).await.is_ok());
    }

    #[tokio::test]
    async fn one_that_panics_is_an_error() {
        let work = || async { panic!("on purpose") };
        let asked = attempt().outcome(LONG, || false, work).await;
        assert!(asked.unwrap_err().is_refused());
    }

    #[test]
    fn one_that_ends_with_its_runtime_is_made_anew() {
        let (attempt, begun) = (attempt(), Arc::<AtomicU32>::default());
        let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
        let (first, next) = (runtime(), runtime());
        let begin = || count(Arc::clone(&begun), true);
        let mut asked = Box::pin(attempt.outcome(LONG, || false, begin));
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
        let (attempt, begun) = (attempt(), Arc::<AtomicU32>::default());
        let ask = || attempt.outcome(LONG, || false, || count(Arc::clone(&begun), true));
        for _ in 0..4 {
            assert!(timeout(LONG / 5, ask()).await.is_err());
        }
        assert!(ask().await.is_ok());
        assert_eq!(begun.load(SeqCst), 2);
    }
}

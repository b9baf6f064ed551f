//! Attempts to connect. Each is made once for all callers that wait for it, and the connection that the last one opened
//! is kept.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::base::error::{Effect, StoreError};
use crate::base::sync::Mutex;
use crate::base::timer::{after, timeout_at};

/// An attempt to connect, or to learn the address, which all callers share.
pub(crate) struct Attempt {
    running: Mutex<Option<Running>>,
    /// The name of the server in messages.
    endpoint: Arc<str>,
}

/// An attempt in progress. It is a task of its own, so that it continues when a caller is dropped.
struct Running {
    task: AbortHandle,
    /// The outcome; `None` if the task ended with its runtime.
    outcome: Shared<BoxFuture<'static, Option<Result<(), StoreError>>>>,
    /// The instant at which another attempt begins, because the runtime of this one is stalled.
    until: Instant,
}

impl Attempt {
    pub(crate) fn new(endpoint: Arc<str>) -> Self {
        Self {
            running: Mutex::default(),
            endpoint,
        }
    }

    /// Waits for the attempt in progress, or begins one. Returns immediately if that is needless. Another attempt
    /// begins if this one ends with its runtime, or has no outcome `limit` after its beginning.
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
                // The attempt may have ended long ago, if its callers were dropped. Its result is visible before its
                // end is. So `is_needless`, which is called after this, sees the result.
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

/// The connection that is kept, if there is one. Each attempt to connect has a number, which identifies its connection.
#[derive(Debug)]
pub(crate) struct Kept<C> {
    connection: Option<C>,
    /// The number of the attempt that ended last. The connection is the result of that attempt.
    ended: u64,
    /// The number of the attempt that began last.
    begun: u64,
    is_closed: bool,
}

impl<C> Default for Kept<C> {
    fn default() -> Self {
        Self {
            connection: None,
            ended: 0,
            begun: 0,
            is_closed: false,
        }
    }
}

impl<C> Kept<C> {
    /// The connection, if there is one.
    pub(crate) fn present(&self) -> Option<&C> {
        self.connection.as_ref()
    }

    /// The number of the attempt that ended last.
    pub(crate) fn number(&self) -> u64 {
        self.ended
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Begins an attempt, and returns its number.
    pub(crate) fn begin(&mut self) -> u64 {
        self.begun += 1;
        self.begun
    }

    /// Returns whether the connection of this attempt is kept, or is being opened.
    pub(crate) fn has_or_awaits(&self, number: u64) -> bool {
        let is_awaited = self.begun == number && self.ended != number;
        is_awaited || self.ended == number && self.connection.is_some()
    }

    /// Keeps the result of an attempt, and returns the value that is not kept. An attempt that was given up does not
    /// replace the result of a later one.
    pub(crate) fn keep(&mut self, number: u64, connection: Option<C>) -> Option<C> {
        if self.begun != number {
            return connection;
        }
        self.ended = number;
        if self.is_closed {
            return connection;
        }
        std::mem::replace(&mut self.connection, connection)
    }

    /// Forgets a connection, unless it has already been replaced.
    pub(crate) fn forget(&mut self, number: u64) -> Option<C> {
        self.connection.take_if(|_| self.ended == number)
    }

    /// Forgets the connection if `is_so`.
    pub(crate) fn forget_if(&mut self, is_so: impl Fn(&C) -> bool) -> Option<C> {
        self.connection.take_if(|connection| is_so(connection))
    }

    /// Forgets the connection, and keeps no later one.
    pub(crate) fn close(&mut self) -> Option<C> {
        self.is_closed = true;
        self.connection.take()
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

    /// Counts the attempts. The first one never ends if `is_first_stuck` is set.
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

    /// It has the connection of its first attempt.
    fn kept() -> Kept<&'static str> {
        let mut kept = Kept::default();
        let number = kept.begin();
        assert_eq!(kept.keep(number, Some("first")), None);
        kept
    }

    #[test]
    fn an_attempt_that_was_given_up_replaces_nothing_that_came_after_it() {
        let mut kept = kept();
        let (late, next) = (kept.begin(), kept.begin());
        assert_eq!(kept.keep(late, Some("late")), Some("late"));
        assert!(kept.has_or_awaits(next) && !kept.has_or_awaits(late));
        assert_eq!(kept.keep(next, Some("next")), Some("first"));
        assert_eq!(kept.keep(late, Some("late")), Some("late"));
        assert_eq!((kept.present(), kept.number()), (Some(&"next"), next));
    }

    #[test]
    fn a_connection_is_forgotten_by_its_own_number_alone() {
        let mut kept = kept();
        let first = kept.number();
        let next = kept.begin();
        // It serves until another one exists.
        assert_eq!(kept.forget(next), None);
        assert_eq!(kept.keep(next, Some("next")), Some("first"));
        assert_eq!(kept.forget(first), None);
        assert_eq!(kept.forget(next), Some("next"));
        assert!(!kept.has_or_awaits(next));
    }

    #[test]
    fn none_is_kept_once_it_is_closed() {
        let mut kept = kept();
        let number = kept.begin();
        assert_eq!(kept.close(), Some("first"));
        assert_eq!(kept.keep(number, Some("next")), Some("next"));
        assert!(kept.is_closed() && kept.present().is_none());
    }
}

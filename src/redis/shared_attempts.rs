//! Two kinds of attempts at something that may fail: one that all callers share, for example to connect, to learn where
//! the servers are, or to ask for their replicas; and a question to several servers in parallel, of which most must
//! answer.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::Instant;

use crate::base::error::{FailureClass, StoreError};
use crate::base::sync::Mutex;
use crate::base::timer::{Elapsed, after, timeout_at};

/// The attempt in progress.
#[derive(Default)]
pub(crate) struct SharedAttempt(Mutex<Option<Attempt>>);

/// The outcome of an attempt, and the instant at which another one begins, because the runtime of this one is stalled.
type Attempt = (Shared<BoxFuture<'static, Option<AttemptOutcome>>>, Instant);

type AttemptOutcome = Result<(), StoreError>;

impl SharedAttempt {
    /// Waits for the attempt in progress, or begins one. On a runtime that is driven, the work does not need longer than
    /// the limit.
    pub(crate) async fn outcome<F: Future<Output = AttemptOutcome> + Send + 'static>(
        &self,
        endpoint: &Arc<str>,
        limit: Duration,
        work: impl Fn() -> F,
    ) -> AttemptOutcome {
        loop {
            let (outcome, until) = {
                let now = Instant::now();
                let mut present = self.0.lock();
                // An attempt that has ended answers the callers that waited for it. A later caller needs a new one,
                // because its outcome may be old.
                let running = present
                    .take()
                    .filter(|(outcome, until)| now < *until && outcome.peek().is_none());
                let begin = || (begin(endpoint, work()), after(now, limit));
                // Clones share the outcome, so the mutex is free while this caller waits.
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
    work: impl Future<Output = AttemptOutcome> + Send + 'static,
) -> Shared<BoxFuture<'static, Option<AttemptOutcome>>> {
    let cause = "the attempt panicked";
    let panicked = StoreError::new("connect", endpoint, FailureClass::Permanent, cause);
    // A panic ends the attempt for all callers. Without an outcome each of them would begin the next one, which panics
    // again.
    let outcome = tokio::spawn(work).map(|ended| match ended {
        Ok(outcome) => Some(outcome),
        Err(error) => error.is_panic().then_some(Err(panicked)),
    });
    outcome.boxed().shared()
}

/// The time for which the other servers are waited for after most of them have answered. After a silence of this length
/// one more server is asked.
pub(crate) const STRAGGLER_WAIT: Duration = Duration::from_millis(100);

/// Asks `at_once` servers in parallel. Asks one more after each failure, and after each silence until most have
/// answered. Most is more than half of those that are asked first. Returns the answers `after_any` after the first one,
/// [`STRAGGLER_WAIT`] after most have answered, or at the limit. Returns one of the errors too, and rather that of a
/// server that is unavailable: it may know more than those that reject the question.
pub(super) async fn ask_most<T, A>(
    mut servers: impl Iterator<Item = A>,
    at_once: usize,
    after_any: Duration,
    limit: Duration,
) -> (Vec<T>, Option<StoreError>)
where
    A: Future<Output = Result<T, StoreError>>,
{
    let mut asked: FuturesUnordered<_> = servers.by_ref().take(at_once).collect();
    let mut missing = asked.len() / 2 + 1;
    let mut until = after(Instant::now(), limit);
    let (mut answers, mut error) = (Vec::new(), None);
    loop {
        let now = Instant::now();
        // Until most have answered, each silence makes one more server be asked. After that only stragglers are waited
        // for.
        let silence = (missing > 0).then(|| after(now, STRAGGLER_WAIT));
        match timeout_at(silence.map_or(until, |it| it.min(until)), asked.next()).await {
            Ok(Some(Ok(answer))) => {
                answers.push(answer);
                missing = missing.saturating_sub(1);
                let rest = if missing > 0 {
                    after_any
                } else {
                    STRAGGLER_WAIT
                };
                // The first answer, and then the one that makes it most, limit the time for the others.
                until = until.min(after(Instant::now(), rest));
                continue;
            }
            Ok(Some(Err(failed))) => {
                if error.as_ref().is_none_or(StoreError::is_denied) {
                    error = Some(failed);
                }
            }
            // All that were asked have answered or failed.
            Ok(None) => return (answers, error),
            Err(Elapsed) if until <= Instant::now() => return (answers, error),
            // A silence: one more is asked.
            Err(Elapsed) => {}
        }
        // Another server replaces an unavailable one.
        asked.extend(servers.next());
    }
}

#[cfg(test)]
mod shared_attempt_tests {
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
    async fn an_attempt_that_panics_is_an_error() {
        let work = || async { panic!("on purpose") };
        let outcome = SharedAttempt::default()
            .outcome(&"here".into(), LONG, work)
            .await;
        assert!(outcome.is_err_and(|error| error.is_denied()));
    }

    #[test]
    fn an_attempt_that_ends_with_its_runtime_is_repeated() {
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
    async fn a_stalled_attempt_is_abandoned_although_callers_wait_briefly() {
        let (attempts, begun) = (SharedAttempt::default(), Arc::default());
        let ask = || ask(&attempts, &begun, true);
        for _ in 0..4 {
            assert!(timeout(LONG / 5, ask()).await.is_err());
        }
        assert!(timeout(2 * LONG / 5, ask()).await.is_ok());
        assert_eq!(begun.load(SeqCst), 2);
    }
}

#[cfg(test)]
mod ask_most_tests {
    use super::*;
    use crate::base::error::FailureClass;
    use crate::base::sync::Mutex;
    use crate::base::timer::sleep;

    const LIMIT: Duration = Duration::from_secs(5);

    /// Asks servers that answer, or fail, after this number of milliseconds each. Returns which of them have done so,
    /// and how long it took.
    async fn ask(servers: &[(u64, bool)], at_once: usize) -> (Vec<usize>, Duration) {
        let begun = Instant::now();
        let answered = Mutex::new(Vec::new());
        let asked = (0..)
            .zip(servers)
            .map(async |(number, &(millis, answers))| {
                sleep(Duration::from_millis(millis)).await;
                answered.lock().push(number);
                answers
                    .then_some(())
                    .ok_or_else(|| error(FailureClass::NotExecuted))
            });
        ask_most(asked, at_once, Duration::from_secs(1), LIMIT).await;
        let answered = answered.lock().clone();
        (answered, begun.elapsed())
    }

    fn error(class: FailureClass) -> StoreError {
        StoreError::new("connect", &"here".into(), class, "on purpose")
    }

    #[tokio::test]
    async fn an_unavailable_server_outweighs_a_rejection_in_the_error() {
        let (down, rejected) = (FailureClass::NotExecuted, FailureClass::AccessDenied);
        for classes in [[down, rejected], [rejected, down], [rejected; 2]] {
            let asked = classes.into_iter().map(async |it| Err::<(), _>(error(it)));
            let (_, error) = ask_most(asked, 2, LIMIT, LIMIT).await;
            let is_refused = error.is_some_and(|error| error.is_denied());
            assert_eq!(is_refused, !classes.contains(&down));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_majority_the_other_servers_get_a_short_time() {
        let servers = [(30, true), (20, true), (119, true), (140, true), (10, true)];
        let (answered, took) = ask(&servers, 5).await;
        assert_eq!(
            (answered, took),
            (vec![4, 1, 0, 2], Duration::from_millis(130))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_single_reply_is_used_only_after_a_timeout() {
        let away = (60_000, true);
        let (answered, took) = ask(&[away, (10, true), away], 3).await;
        assert_eq!((answered, took), (vec![1], Duration::from_millis(1_010)));
        let (answered, took) = ask(&[away; 3], 3).await;
        assert_eq!((answered, took), (vec![], Duration::from_secs(5)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_fails_or_is_silent_is_replaced_by_another() {
        let (away, fails, answers) = ((60_000, true), (10, false), (10, true));
        let (answered, took) = ask(&[fails, away, fails, answers, answers], 2).await;
        // The third is asked after the first one's failure, the fourth after the third one's failure, and the last
        // after a silence.
        assert_eq!(
            (answered, took),
            (vec![0, 2, 3, 4], Duration::from_millis(240))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn failures_of_all_servers_end_the_attempt() {
        let (answered, took) = ask(&[(10, false); 7], 3).await;
        assert_eq!((answered.len(), took), (7, Duration::from_millis(30)));
    }
}

//! One question to several servers in parallel, of which most must answer.

use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::Instant;

use crate::base::error::StoreError;
use crate::base::timer::{Elapsed, after, timeout_at};

/// The time for which the other servers are waited for after most of them have answered. After a silence of this length
/// one more server is asked.
pub(crate) const GRACE: Duration = Duration::from_millis(100);

/// Asks `at_once` servers in parallel. Asks one more after each failure, and after each silence until most have
/// answered. Most is more than half of those that are asked first. Returns the answers `after_any` after the first one,
/// [`GRACE`] after most have answered, or at the limit. Returns one of the errors too, and rather that of a server that
/// is unavailable: it may know more than those that reject the question.
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
        let silence = (missing > 0).then(|| after(now, GRACE));
        match timeout_at(silence.map_or(until, |it| it.min(until)), asked.next()).await {
            Ok(Some(Ok(answer))) => {
                answers.push(answer);
                missing = missing.saturating_sub(1);
                let rest = if missing > 0 { after_any } else { GRACE };
                until = until.min(after(Instant::now(), rest));
                continue;
            }
            Ok(Some(Err(failed))) => {
                if error.as_ref().is_none_or(StoreError::is_denied) {
                    error = Some(failed);
                }
            }
            Ok(None) => return (answers, error),
            Err(Elapsed) if until <= Instant::now() => return (answers, error),
            Err(Elapsed) => {}
        }
        // Another server replaces an unavailable one.
        asked.extend(servers.next());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::FailureClass;
    use crate::base::sync::Mutex;
    use crate::base::timer::sleep;

    const LIMIT: Duration = Duration::from_secs(5);

    /// Asks servers that answer, or fail, after this number of milliseconds each. Returns which of them have done so,
    /// and how long it took.
    async fn ask(servers: &[(u64, bool)], at_once: usize) -> (Vec<usize>, Duration) {
        let begun = Instant::now();
        let heard = Mutex::new(Vec::new());
        let asked = (0..)
            .zip(servers)
            .map(async |(number, &(millis, answers))| {
                sleep(Duration::from_millis(millis)).await;
                heard.lock().push(number);
                answers
                    .then_some(())
                    .ok_or_else(|| error(FailureClass::NotExecuted))
            });
        ask_most(asked, at_once, Duration::from_secs(1), LIMIT).await;
        let heard = heard.lock().clone();
        (heard, begun.elapsed())
    }

    fn error(class: FailureClass) -> StoreError {
        StoreError::new("connect", &"here".into(), class, "on purpose")
    }

    #[tokio::test]
    async fn the_error_of_an_unavailable_server_counts_more_than_a_rejection() {
        let (down, rejected) = (FailureClass::NotExecuted, FailureClass::AccessDenied);
        for classes in [[down, rejected], [rejected, down], [rejected; 2]] {
            let asked = classes.into_iter().map(async |it| Err::<(), _>(error(it)));
            let (_, error) = ask_most(asked, 2, LIMIT, LIMIT).await;
            let is_refused = error.is_some_and(|error| error.is_denied());
            assert_eq!(is_refused, !classes.contains(&down));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_others_have_a_while_once_most_have_answered() {
        let servers = [(30, true), (20, true), (119, true), (140, true), (10, true)];
        let (heard, took) = ask(&servers, 5).await;
        assert_eq!(
            (heard, took),
            (vec![4, 1, 0, 2], Duration::from_millis(130))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_answers_alone_is_believed_later() {
        let away = (60_000, true);
        let (heard, took) = ask(&[away, (10, true), away], 3).await;
        assert_eq!((heard, took), (vec![1], Duration::from_millis(1_010)));
        let (heard, took) = ask(&[away; 3], 3).await;
        assert_eq!((heard, took), (vec![], Duration::from_secs(5)));
    }

    #[tokio::test(start_paused = true)]
    async fn another_one_is_asked_instead_of_one_that_fails_or_is_silent() {
        let (away, fails, answers) = ((60_000, true), (10, false), (10, true));
        let (heard, took) = ask(&[fails, away, fails, answers, answers], 2).await;
        // The third is asked after the first one's failure, the fourth after the third one's failure, and the last
        // after a silence.
        assert_eq!(
            (heard, took),
            (vec![0, 2, 3, 4], Duration::from_millis(240))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn all_that_fail_are_all_there_are() {
        let (heard, took) = ask(&[(10, false); 7], 3).await;
        assert_eq!((heard.len(), took), (7, Duration::from_millis(30)));
    }
}

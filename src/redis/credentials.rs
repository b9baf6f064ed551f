//! Credentials that change while the program runs, for example tokens that are valid for an hour.
//!
//! A connection logs in with the newest credentials, and again with later ones, while requests are in flight on it. The
//! driver does that. This file does the rest. A provider that fails does not affect an open connection. A connection
//! that is opened in the meantime uses the credentials that were given last.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::unfold;
use futures_util::{Stream, StreamExt};
use redis::{BasicAuth, ErrorKind, RedisResult, StreamingCredentialsProvider};
use tokio::sync::watch;

use crate::base::events::{self, WarnLimiter};
use crate::base::sync::Mutex;
use crate::base::timer::{Backoff, Elapsed, sleep, timeout};

/// The time for which a new connection waits for a provider while other credentials are known.
const PROVIDER_TIMEOUT: Duration = Duration::from_secs(1);

/// The longest pause, without the jitter, between a failure of a provider and the next question to it.
const MAX_PROVIDER_PAUSE: Duration = Duration::from_secs(1);

type Given = Pin<Box<dyn Stream<Item = RedisResult<BasicAuth>> + Send>>;

/// The credentials of the connections of one `Locks`.
#[derive(Clone)]
pub(crate) struct Credentials(Arc<Inner>);

struct Inner {
    provider: Box<dyn StreamingCredentialsProvider>,
    /// The credentials that were given last.
    latest: Mutex<Option<BasicAuth>>,
    warnings: WarnLimiter,
}

impl Credentials {
    pub(crate) fn new(provider: impl StreamingCredentialsProvider + 'static) -> Self {
        Self(Arc::new(Inner {
            provider: Box::new(provider),
            latest: Mutex::default(),
            warnings: WarnLimiter::default(),
        }))
    }

    /// The newest credentials.
    pub(crate) async fn newest(&self) -> RedisResult<BasicAuth> {
        let first = self.subscribe().next().await;
        first.unwrap_or_else(|| {
            let nothing = "the provider returned no credentials";
            Err((ErrorKind::AuthenticationFailed, nothing).into())
        })
    }

    /// The next credentials that the provider gives. If the first result of a stream is a failure, or does not arrive,
    /// it returns the credentials that were given last.
    async fn next(&self, given: &mut Given, is_first: bool) -> Option<RedisResult<BasicAuth>> {
        let Inner {
            latest, warnings, ..
        } = &*self.0;
        // A connection that is being opened takes the last known credentials before it fails, or waits for long. One
        // that is open keeps its own until there are new ones.
        let known = latest.lock().clone().filter(|_| is_first).map(Ok);
        // Without known credentials only the connect timeout ends the wait of a new connection.
        let patience = known.as_ref().map_or(Duration::MAX, |_| PROVIDER_TIMEOUT);
        let mut backoff = Backoff::doubling(MAX_PROVIDER_PAUSE);
        loop {
            let failed = match timeout(patience, given.next()).await {
                Ok(Some(Ok(credentials))) => {
                    *latest.lock() = Some(credentials.clone());
                    return Some(Ok(credentials));
                }
                Ok(Some(Err(error))) => {
                    events::credentials_failed(&error, warnings);
                    Some(Err(error))
                }
                Ok(None) => None,
                Err(Elapsed) => {
                    let silent = format!("no credentials within {PROVIDER_TIMEOUT:?}");
                    events::credentials_failed(&silent, warnings);
                    None
                }
            };
            // The first result is needed now. Later ones are waited for, until the provider ends.
            if is_first || failed.is_none() {
                return known.or(failed);
            }
            // A provider may fail again immediately.
            sleep(backoff.next_pause()).await;
        }
    }
}

impl StreamingCredentialsProvider for Credentials {
    fn subscribe(&self) -> Given {
        let begin = (self.clone(), self.0.provider.subscribe(), true);
        Box::pin(unfold(begin, async |(all, mut given, is_first)| {
            let next = all.next(&mut given, is_first).await?;
            Some((next, (all, given, false)))
        }))
    }
}

/// Returns a provider of the credentials in a [`watch`] channel, for
/// [`LocksBuilder::credentials`](crate::LocksBuilder::credentials).
///
/// Existing and later connections use each value from the moment at which it is sent. If the sender is dropped, the
/// last value stays in use.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), reentry::LockError> {
/// use reentry::credentials::{BasicAuth, watched};
/// use tokio::sync::watch;
///
/// let auth = |token: &str| BasicAuth::new("app".to_owned(), token.to_owned());
/// let (newest, receiver) = watch::channel(auth("the first token"));
/// let builder = reentry::Locks::builder("rediss://cache.example.com");
/// # let builder = reentry::Locks::builder("redis://localhost");
/// let locks = builder.credentials(watched(receiver)).build_lazy()?;
/// // A task of the program does this each time that it gets a new token:
/// newest.send_replace(auth("the next token"));
/// # drop(locks);
/// # Ok(())
/// # }
/// ```
pub fn watched(
    receiver: watch::Receiver<BasicAuth>,
) -> impl StreamingCredentialsProvider + 'static {
    Watched(receiver)
}

struct Watched(watch::Receiver<BasicAuth>);

impl StreamingCredentialsProvider for Watched {
    fn subscribe(&self) -> Given {
        let mut receiver = self.0.clone();
        // The present value is the first one.
        receiver.mark_changed();
        Box::pin(unfold(receiver, async |mut receiver| {
            receiver.changed().await.ok()?;
            let credentials = receiver.borrow_and_update().clone();
            Some((Ok(credentials), receiver))
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    use futures_util::stream;
    use redis::RedisError;

    use super::*;

    fn auth(password: &str) -> BasicAuth {
        BasicAuth::new("app".to_owned(), password.to_owned())
    }

    fn failure() -> RedisError {
        (ErrorKind::AuthenticationFailed, "no token").into()
    }

    /// A provider that gives the same results to each subscriber.
    struct Script(Vec<Option<&'static str>>);

    impl StreamingCredentialsProvider for Script {
        fn subscribe(&self) -> Given {
            let given = self.0.clone().into_iter();
            let given = given.map(|word| word.map(auth).ok_or_else(failure));
            Box::pin(stream::iter(given))
        }
    }

    async fn passwords(credentials: &Credentials) -> Vec<Option<String>> {
        let given = credentials.subscribe();
        let password = |it: RedisResult<BasicAuth>| it.ok().map(|it| it.password().to_owned());
        given.map(password).collect().await
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_changes_nothing_where_there_are_credentials() {
        let script = vec![Some("one"), None, None, Some("two"), None];
        let credentials = Credentials::new(Script(script));
        let given = [Some("one".to_owned()), Some("two".to_owned())];
        assert_eq!(passwords(&credentials).await, given);
    }

    #[tokio::test]
    async fn a_connection_that_is_made_during_a_failure_uses_the_last_credentials() {
        let credentials = Credentials::new(Script(vec![None]));
        assert_eq!(passwords(&credentials).await, [None], "there are none yet");
        *credentials.0.latest.lock() = Some(auth("one"));
        assert_eq!(passwords(&credentials).await, [Some("one".to_owned())]);
        let ended = Credentials::new(Script(Vec::new()));
        assert_eq!(passwords(&ended).await, []);
        *ended.0.latest.lock() = Some(auth("one"));
        assert_eq!(passwords(&ended).await, [Some("one".to_owned())]);
    }

    /// A provider that has failed this often after its first credentials, each time immediately.
    #[derive(Clone, Default)]
    struct Failing(Arc<AtomicUsize>);

    impl StreamingCredentialsProvider for Failing {
        fn subscribe(&self) -> Given {
            let failures = Arc::clone(&self.0);
            let failing = stream::repeat_with(move || {
                failures.fetch_add(1, Relaxed);
                Err(failure())
            });
            Box::pin(stream::iter([Ok(auth("one"))]).chain(failing))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_keeps_failing_is_asked_less_and_less_often() {
        let failing = Failing::default();
        let mut given = Credentials::new(failing.clone()).subscribe();
        given.next().await.unwrap().unwrap();
        let minute = Duration::from_secs(60);
        assert!(
            timeout(minute, given.next()).await.is_err(),
            "it only fails"
        );
        let failures = failing.0.load(Relaxed);
        assert!(
            (30..80).contains(&failures),
            "{failures} failures in a minute"
        );
    }

    /// A provider that gives nothing.
    struct Silent;

    impl StreamingCredentialsProvider for Silent {
        fn subscribe(&self) -> Given {
            Box::pin(stream::pending())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_is_silent_delays_a_connection_by_a_second() {
        let silent = Credentials::new(Silent);
        *silent.0.latest.lock() = Some(auth("one"));
        let begun = tokio::time::Instant::now();
        let first = silent.subscribe().next().await.and_then(Result::ok);
        assert_eq!(
            first.map(|it| it.password().to_owned()).as_deref(),
            Some("one")
        );
        assert_eq!(begun.elapsed(), PROVIDER_TIMEOUT);
    }
}

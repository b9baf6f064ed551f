//! What became of a request: its reply, or the reason why there is none. And how fast a connection responds.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use futures_util::FutureExt;
use redis::{RedisError, Value};
use tokio::task::yield_now;
use tokio::time::Instant;

use crate::base::sync::Mutex;
use crate::base::timer::{Elapsed, timeout_at};
use crate::store::redis::wire::failure;

/// The reason why a request was not answered, or was rejected.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) cause: Cause,
    /// Whether the next request should get another connection.
    pub(crate) is_done: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Cause {
    Driver(RedisError),
    /// There was no response within this time.
    Silence(Duration),
    /// There was no time left to send it.
    Late,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Driver(error) => error.fmt(f),
            Self::Silence(limit) => write!(f, "no response within {limit:?}"),
            Self::Late => f.write_str("there was no time left to send the request"),
        }
    }
}

/// Waits for the response to a request until its limit. A response that has arrived by then counts, even if the process
/// was too busy to read it, or was stopped.
pub(super) async fn answered<T>(
    limit: Instant,
    mut sending: Pin<&mut impl Future<Output = T>>,
) -> Result<T, Elapsed> {
    match timeout_at(limit, sending.as_mut()).await {
        Err(Elapsed) => {
            // The runtime looks at the socket, and runs the driver, before it comes back to this task.
            yield_now().await;
            sending.now_or_never().ok_or(Elapsed)
        }
        answered => answered,
    }
}

/// The outcome of a request that was sent at `sent`, with this limit. A response is noted.
pub(super) fn outcome(
    pace: &AnswerPace,
    answered: Result<Result<Value, RedisError>, Elapsed>,
    sent: Instant,
    limit: Duration,
) -> Result<Value, Fault> {
    let fault = match answered {
        Ok(Ok(reply)) => {
            pace.heard(sent);
            return Ok(reply);
        }
        Ok(Err(error)) => Fault {
            is_done: is_done(&error),
            cause: Cause::Driver(error),
        },
        // Responses arrive in order: while others keep arriving, this one is on its way.
        Err(Elapsed) => Fault {
            is_done: pace.is_silent_since(sent) || pace.is_late(sent),
            cause: Cause::Silence(limit),
        },
    };
    if !fault.is_done && matches!(fault.cause, Cause::Driver(_)) {
        pace.heard(sent);
    }
    Err(fault)
}

/// Returns whether the connection must be given up: it has ended, or its server executes no requests.
fn is_done(error: &RedisError) -> bool {
    failure::refuses_all(error)
        || error.is_unrecoverable_error()
        || error.is_io_error()
        || error.is_timeout()
        || failure::refuses_to_write(error)
}

/// The time of the last response over a connection, and how long responses take.
#[derive(Debug)]
pub(crate) struct AnswerPace(Mutex<Heard>);

#[derive(Debug)]
struct Heard {
    last: Instant,
    /// The longest time of a recent response. It decreases with each response that takes less.
    longest: Duration,
}

impl AnswerPace {
    /// The pace of a connection that took this long to open.
    pub(crate) fn new(took: Duration) -> Self {
        Self(Mutex::new(Heard {
            last: Instant::now(),
            longest: took,
        }))
    }

    /// Notes the response to a request that was sent at `sent`.
    pub(crate) fn heard(&self, sent: Instant) {
        let now = Instant::now();
        let mut heard = self.0.lock();
        heard.last = now;
        heard.longest = (heard.longest - heard.longest / 8).max(now - sent);
    }

    /// Returns whether no response has arrived since `sent`.
    pub(crate) fn is_silent_since(&self, sent: Instant) -> bool {
        self.0.lock().last <= sent
    }

    /// Returns whether a response should have arrived since `sent`, when a request was sent that is not answered.
    /// Earlier responses show how long one takes.
    pub(crate) fn is_late(&self, sent: Instant) -> bool {
        let heard = self.0.lock();
        heard.last.max(sent).elapsed() > 2 * heard.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_late_by_the_pace_of_its_answers() {
        let pass = async |millis| tokio::time::advance(Duration::from_millis(millis)).await;
        let pace = AnswerPace::new(Duration::from_millis(30));
        let first = Instant::now();
        pass(20).await;
        let second = Instant::now();
        pass(20).await;
        // Only the time that it took to connect is known yet.
        assert!(!pace.is_late(first) && !pace.is_late(second));
        pace.heard(first);
        // The response that arrived is not that of the second request.
        assert!(!pace.is_late(second) && !pace.is_silent_since(second));
        pass(79).await;
        assert!(!pace.is_late(second));
        pass(2).await;
        assert!(pace.is_late(second));
    }
}

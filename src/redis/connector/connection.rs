//! One connection to one server, and the outcome of a request on it.

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::Either;
use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value};
use tokio::task::coop::has_budget_remaining;
use tokio::task::yield_now;
use tokio::time::Instant;

use crate::base::background::AbortOnDrop;
use crate::base::error::{Effect, StoreError};
use crate::base::sync::Mutex;
use crate::base::timer::{Elapsed, after, timeout_at};
use crate::base::written::Written;
use crate::redis::confirmer::Confirmer;
use crate::redis::failure::{self, RUNTIME_ENDED, aborted};
use crate::redis::script::{Call, Way};
use crate::redis::source::{Opened, Source};
use crate::redis::writes::Writes;

/// A connection for commands, which all requests share.
pub(crate) struct Connection {
    pub(crate) driver: MultiplexedConnection,
    /// The name of its server in messages, without the password.
    pub(crate) endpoint: Arc<str>,
    /// Opens further connections to its server.
    pub(crate) server: Arc<dyn Source>,
    pub(crate) confirmer: Arc<Confirmer>,
    /// The number of the attempt that made it.
    pub(crate) number: u64,
    /// The instant at which it was opened.
    pub(crate) since: Instant,
    pub(crate) pace: AnswerPace,
    /// What its driver has written. `None` if other code has opened it: then its timers may be polled by its own runtime
    /// alone.
    pub(crate) writes: Option<Arc<Writes>>,
    /// The scripts that the server has executed.
    pub(crate) known: Mutex<Vec<&'static str>>,
    /// Tasks that end with it. One has its driver, and gives it up when it has ended, or leads to the wrong server. One
    /// describes this process periodically.
    pub(crate) _tasks: [Option<AbortOnDrop>; 2],
}

/// A connection whose server has not shown yet that it executes requests. In a cluster it is kept while the server
/// rejects them: it still says who has which slots, and is not connected to again and again while the cluster is down.
pub(super) struct Unproven {
    pub(super) opened: Opened,
    pub(super) pace: AnswerPace,
}

impl Connection {
    /// Sends a call, and waits for its response until the limit.
    pub(crate) async fn ask(&self, call: &Call, way: Way, limit: Duration) -> Result<Value, Fault> {
        if limit.is_zero() {
            return Err(Fault {
                cause: Cause::Late,
                is_done: false,
            });
        }
        let sent = Instant::now();
        let sending = pin!(self.send(call, way));
        let answered = pin!(answered(after(sent, limit), sending));
        let answer = match (call.written(), &self.writes) {
            (Some(written), Some(writes)) => {
                let knows = self.known.lock().contains(&call.verb());
                let answer = match knows {
                    true => noting_writes(answered, writes, written).await,
                    false => answered.await,
                };
                if matches!(answer, Ok(Ok(_))) && !knows {
                    self.known.lock().push(call.verb());
                }
                answer
            }
            _ => answered.await,
        };
        let fault = match answer {
            Ok(Ok(reply)) => {
                self.pace.heard(sent);
                return Ok(reply);
            }
            Ok(Err(error)) => Fault {
                is_done: is_done(&error),
                cause: Cause::Driver(error),
            },
            // Responses arrive in order: while others keep arriving, this one is on its way.
            Err(Elapsed) => Fault {
                is_done: self.pace.is_silent_since(sent) || self.pace.is_late(sent),
                cause: Cause::Silence(limit),
            },
        };
        if !fault.is_done && matches!(fault.cause, Cause::Driver(_)) {
            self.pace.heard(sent);
        }
        Err(fault)
    }

    /// Sends a call. Any runtime may poll the future, even after another one that polled it has ended.
    fn send(&self, call: &Call, way: Way) -> impl Future<Output = Result<Value, RedisError>> {
        let mut driver = self.driver.clone();
        if self.writes.is_some() {
            return Either::Left(async move { call.send(&mut driver, way).await });
        }
        let call = call.clone();
        let sending = tokio::spawn(async move { call.send(&mut driver, way).await });
        Either::Right(async {
            sending
                .await
                .unwrap_or_else(|_ended| Err(aborted(RUNTIME_ENDED)))
        })
    }

    pub(crate) fn error(
        &self,
        verb: &'static str,
        effect: Effect,
        cause: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> StoreError {
        StoreError::new(verb, &self.endpoint, effect, cause)
    }

    /// The error for the caller of a request.
    pub(crate) fn failed(&self, verb: &'static str, cause: Cause) -> StoreError {
        match cause {
            Cause::Driver(error) => failure::failed(verb, &self.endpoint, error),
            Cause::Late => self.error(verb, Effect::None, cause.to_string()),
            Cause::Silence(_) => self.error(verb, Effect::Unknown, cause.to_string()),
        }
    }
}

/// The reason why a request was not answered, or was rejected.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) cause: Cause,
    /// Whether the next request should get another connection.
    pub(crate) is_done: bool,
}

#[derive(Debug)]
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
async fn answered<T>(
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

/// Waits for the response to a request, and notes when the request was written.
async fn noting_writes<T>(
    mut answered: Pin<&mut impl Future<Output = T>>,
    writes: &Writes,
    written: &Written,
) -> T {
    let mut is_handed_over = false;
    let mut noting = pin!(writes.until_written(writes.polls()));
    poll_fn(|cx| {
        if let Poll::Ready(answer) = answered.as_mut().poll(cx) {
            return Poll::Ready(answer);
        }
        // The first poll hands the request to the driver, unless the budget of the task was used up.
        is_handed_over |= has_budget_remaining();
        if !is_handed_over {
            cx.waker().wake_by_ref();
        } else if !written.is_set() && noting.as_mut().poll(cx).is_ready() {
            written.set();
        }
        Poll::Pending
    })
    .await
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

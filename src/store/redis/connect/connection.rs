//! One connection to one server, and the outcome of a request on it.

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures_util::future::Either;
use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value};
use tokio::time::Instant;

use super::batches::Batches;
use crate::base::background::AbortOnDrop;
use crate::base::error::{Effect, StoreError};
use crate::base::timer::Elapsed;
use crate::store::redis::confirmer::Confirmer;
use crate::store::redis::link::source::{Opened, Source};
use crate::store::redis::wire::call::{Call, Way};
use crate::store::redis::wire::failure::{self, GIVEN_UP, RUNTIME_ENDED, aborted};
use crate::store::redis::wire::in_flight::AnswerPace;
use crate::store::redis::wire::question::{Question, Short};
use crate::store::redis::wire::traffic::Traffic;

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
    pub(crate) traffic: Arc<Traffic>,
    /// The collector of short requests, with the task that sends them; `None` on a connection of other code.
    pub(crate) batches: Option<(Arc<Batches>, AbortOnDrop)>,
    /// Tasks that end with it. One gives it up when it leads to the wrong server. One describes this process
    /// periodically.
    pub(crate) _tasks: [Option<AbortOnDrop>; 2],
}

/// A connection whose server has not shown yet that it executes requests. In a cluster it is kept while the server rejects
/// them: it still says who has which slots, and is not connected to again and again while the cluster is down.
pub(super) struct Unproven {
    pub(super) opened: Opened,
    pub(super) pace: AnswerPace,
    pub(super) traffic: Arc<OnceLock<Weak<Traffic>>>,
    pub(super) introducing: AbortOnDrop,
    /// The number of the attempt that made it.
    pub(super) number: u64,
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

impl Connection {
    /// Reads the reply to a question.
    pub(crate) fn read<Q: Question>(
        &self,
        question: &Q,
        reply: Value,
    ) -> Result<Q::Reply, StoreError> {
        let read = question.read(reply);
        read.map_err(|cause| self.error(question.verb(), Effect::Unknown, cause))
    }

    /// Sends a call, and waits for its response until the limit.
    pub(crate) async fn ask(&self, call: &Call, way: Way, limit: Duration) -> Result<Value, Fault> {
        let sent = Instant::now();
        self.answer(pin!(self.send(call, way)), sent, limit).await
    }

    /// Sends a short request with the others that are in flight. `sent` is the present instant. Returns `None` if the
    /// request has changed nothing, and must be sent alone.
    pub(crate) async fn ask_together(
        &self,
        batches: &Batches,
        request: Short,
        sent: Instant,
        limit: Duration,
    ) -> Result<Option<Value>, Fault> {
        let collected = batches.collect(request);
        match self.answer(pin!(collected), sent, limit).await {
            Ok(Value::Int(0)) => Ok(None),
            // The server has rejected all of them, maybe because of one.
            Err(Fault {
                cause: Cause::Driver(error),
                is_done: false,
            }) if failure::effect(&error) != Effect::Unknown => Ok(None),
            answered => answered.map(Some),
        }
    }

    /// Waits for the response to a request that is sent when this is first polled, at `sent`.
    async fn answer(
        &self,
        mut answer: Pin<&mut impl Future<Output = Result<Value, RedisError>>>,
        sent: Instant,
        limit: Duration,
    ) -> Result<Value, Fault> {
        if limit.is_zero() {
            return Err(Fault {
                cause: Cause::Late,
                is_done: false,
            });
        }
        let mut request = self.traffic.request(sent, limit);
        match poll_fn(|cx| request.poll(answer.as_mut(), cx)).await {
            Ok(Ok(reply)) => {
                request.answered();
                Ok(reply)
            }
            Ok(Err(error)) => {
                let is_done = is_done(&error);
                if !is_done {
                    request.answered();
                }
                let cause = Cause::Driver(error);
                Err(Fault { cause, is_done })
            }
            Err(Elapsed) if self.traffic.is_given_up() => Err(Fault {
                cause: Cause::Driver(aborted(GIVEN_UP)),
                is_done: true,
            }),
            Err(Elapsed) => Err(Fault {
                is_done: request.meets_silence(),
                cause: Cause::Silence(limit),
            }),
        }
    }

    /// Sends a call. Any runtime may poll the future, even after another one that polled it has ended. The future has
    /// no timers, or leaves them to a task.
    fn send(&self, call: &Call, way: Way) -> impl Future<Output = Result<Value, RedisError>> {
        let mut driver = self.driver.clone();
        if self.traffic.is_checked() {
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

/// Returns whether the connection must be given up: it has ended, or its server executes no requests.
fn is_done(error: &RedisError) -> bool {
    failure::refuses_all(error)
        || error.is_unrecoverable_error()
        || error.is_io_error()
        || error.is_timeout()
        || failure::refuses_to_write(error)
}

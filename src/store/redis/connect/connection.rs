//! One connection to one server, and the outcome of a request on it.

use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use futures_util::future::Either;
use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value};
use tokio::time::Instant;

use super::batches::Batches;
use super::outcome::{AnswerPace, Cause, Fault, answered, outcome};
use crate::base::background::AbortOnDrop;
use crate::base::error::{Effect, StoreError};
use crate::base::timer::after;
use crate::store::redis::confirmer::Confirmer;
use crate::store::redis::link::source::{Opened, Source};
use crate::store::redis::wire::call::{Call, Way};
use crate::store::redis::wire::failure::{self, RUNTIME_ENDED, aborted};
use crate::store::redis::wire::question::{Question, Short};

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
    pub(crate) pace: Arc<AnswerPace>,
    /// The number of requests in flight, here and on other connections to the server.
    pub(crate) in_flight: Arc<AtomicUsize>,
    /// The collector of short requests, with the task that sends them; `None` on a connection of other code.
    pub(crate) batches: Option<(Arc<Batches>, AbortOnDrop)>,
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
        if limit.is_zero() {
            return Err(Fault {
                cause: Cause::Late,
                is_done: false,
            });
        }
        let _counted = Counted::new(&self.in_flight);
        let sent = Instant::now();
        let sending = pin!(self.send(call, way));
        let answered = answered(after(sent, limit), sending).await;
        outcome(&self.pace, answered, sent, limit)
    }

    /// Sends a short request with the others that are in flight. Returns `None` if the request has changed nothing, and
    /// must be sent alone.
    pub(crate) async fn ask_together(
        &self,
        batches: &Batches,
        request: Short,
    ) -> Result<Option<Value>, Fault> {
        let _counted = Counted::new(&self.in_flight);
        match batches.collect(request).await {
            Ok(Value::Int(0)) => Ok(None),
            // The server has rejected all of them, maybe because of one.
            Err(Fault {
                cause: Cause::Driver(error),
                is_done: false,
            }) if failure::effect(&error) != Effect::Unknown => Ok(None),
            answered => answered.map(Some),
        }
    }

    /// Sends a call. Any runtime may poll the future, even after another one that polled it has ended.
    fn send(&self, call: &Call, way: Way) -> impl Future<Output = Result<Value, RedisError>> {
        let mut driver = self.driver.clone();
        if self.batches.is_some() {
            return Either::Left(async move { call.send(&mut driver, way).await });
        }
        // Other code has made its timers, which only its runtime may poll.
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

/// Counts a request while it is in flight.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Relaxed);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

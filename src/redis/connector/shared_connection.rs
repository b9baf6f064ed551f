//! One connection to one server, and the pace of its responses.

use std::future::poll_fn;
use std::io;
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

use crate::base::background::{AbortOnDrop, WriteSignal};
use crate::base::sync::Mutex;
use crate::base::timer::{Elapsed, timeout_at};
use crate::redis::confirmer::Confirmer;
use crate::redis::failure::RUNTIME_ENDED;
use crate::redis::script::{Call, SendMode};
use crate::redis::source::Source;
use crate::redis::writes::Writes;

/// A connection for commands, which all requests share.
pub(crate) struct SharedConnection {
    pub(crate) driver: MultiplexedConnection,
    /// Opens further connections to its server.
    pub(crate) server: Arc<dyn Source>,
    pub(crate) confirmer: Arc<Confirmer>,
    /// The number of the attempt that made it.
    pub(crate) number: u64,
    /// The instant at which it was opened.
    pub(crate) since: Instant,
    pub(crate) pace: ResponsePace,
    /// What its driver has written. `None` if other code has opened it: then its timers may be polled by its own runtime
    /// alone.
    pub(crate) writes: Option<Arc<Writes>>,
    /// The scripts that the server has executed.
    pub(crate) executed: Mutex<Vec<&'static str>>,
    /// Tasks that end with it. One has its driver, and gives it up when it has ended, or leads to the wrong server. One
    /// describes this process periodically.
    pub(crate) _tasks: [Option<AbortOnDrop>; 2],
}

impl SharedConnection {
    /// Sends a call, and waits for its response until the limit.
    pub(crate) async fn send(
        &self,
        call: &Call,
        mode: SendMode,
        limit: Instant,
    ) -> Result<Result<Value, RedisError>, Elapsed> {
        let sending = pin!(self.send_unlimited(call, mode));
        let response = pin!(await_response(limit, sending));
        let (Some(written), Some(writes)) = (call.written(), &self.writes) else {
            return response.await;
        };
        // Two ways: only a call that is certainly sent in one piece is written when the driver has written it once.
        // A script that the server may not know may have to be sent in full.
        if self.executed.lock().contains(&call.verb()) {
            return note_write(response, writes, written).await;
        }
        let response = response.await;
        // From now on the server knows the script.
        if matches!(response, Ok(Ok(_))) {
            // Two first calls may note it twice, which changes nothing.
            self.executed.lock().push(call.verb());
        }
        response
    }

    /// Sends a call. Any runtime may poll the future, even after another one that polled it has ended.
    fn send_unlimited(
        &self,
        call: &Call,
        mode: SendMode,
    ) -> impl Future<Output = Result<Value, RedisError>> {
        let mut driver = self.driver.clone();
        if self.writes.is_some() {
            return Either::Left(async move { call.send(&mut driver, mode).await });
        }
        // This future may be polled by another runtime later, but the timers of the connection may not. So a task of
        // the present runtime polls them.
        let call = call.clone();
        let sending = tokio::spawn(async move { call.send(&mut driver, mode).await });
        Either::Right(async {
            let ended = |_| io::Error::new(io::ErrorKind::ConnectionAborted, RUNTIME_ENDED);
            sending.await.map_err(ended)?
        })
    }
}

/// Waits for the response to a request until its limit. A response that has arrived by then counts, even if the process
/// was too busy to read it, or was stopped.
async fn await_response<T>(
    limit: Instant,
    mut sending: Pin<&mut impl Future<Output = T>>,
) -> Result<T, Elapsed> {
    match timeout_at(limit, sending.as_mut()).await {
        Err(Elapsed) => {
            // The runtime looks at the socket, and runs the driver, before it comes back to this task.
            yield_now().await;
            sending.now_or_never().ok_or(Elapsed)
        }
        response => response,
    }
}

/// Waits for the response to a request, and notes when the request was written.
async fn note_write<T>(
    mut response: Pin<&mut impl Future<Output = T>>,
    writes: &Writes,
    written: &WriteSignal,
) -> T {
    let mut is_handed_over = false;
    // The number of polls is read before the request is handed over: a poll that has begun by then may have missed it.
    let mut write = pin!(writes.until_written(writes.polls()));
    poll_fn(|cx| {
        if let Poll::Ready(response) = response.as_mut().poll(cx) {
            return Poll::Ready(response);
        }
        // The first poll hands the request to the driver, unless the budget of the task was used up.
        is_handed_over |= has_budget_remaining();
        if !is_handed_over {
            // Nothing else wakes this task to hand the request over with a new budget.
            cx.waker().wake_by_ref();
        } else if !written.is_set() && write.as_mut().poll(cx).is_ready() {
            written.set();
        }
        Poll::Pending
    })
    .await
}

/// The time of the last response over a connection, and how long responses take.
#[derive(Debug)]
pub(crate) struct ResponsePace(Mutex<LastResponse>);

#[derive(Debug)]
struct LastResponse {
    at: Instant,
    /// The longest time of a recent response. It decreases with each response that takes less.
    longest: Duration,
}

impl ResponsePace {
    /// The pace of a connection that took this long to open.
    pub(crate) fn new(took: Duration) -> Self {
        Self(Mutex::new(LastResponse {
            at: Instant::now(),
            longest: took,
        }))
    }

    /// Notes the response to a request that was sent at `sent`.
    pub(crate) fn note_response(&self, sent: Instant) {
        let now = Instant::now();
        let mut last = self.0.lock();
        last.at = now;
        // It decreases slowly, so that one quick response does not make the next one count as late.
        last.longest = (last.longest - last.longest / 8).max(now - sent);
    }

    pub(crate) fn is_silent_since(&self, sent: Instant) -> bool {
        self.0.lock().at <= sent
    }

    /// Returns whether a response should have arrived since `sent`, when a request was sent that is not answered.
    /// Earlier responses show how long one takes.
    pub(crate) fn is_late(&self, sent: Instant) -> bool {
        let last = self.0.lock();
        // Responses arrive in order. So the time counts from the last one, which shows that the server was at work.
        last.at.max(sent).elapsed() > 2 * last.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_late_by_the_pace_of_its_answers() {
        let pass = async |millis| tokio::time::advance(Duration::from_millis(millis)).await;
        let pace = ResponsePace::new(Duration::from_millis(30));
        let first = Instant::now();
        pass(20).await;
        let second = Instant::now();
        pass(20).await;
        // Only the time that it took to connect is known yet.
        assert!(!pace.is_late(first) && !pace.is_late(second));
        pace.note_response(first);
        // The response that arrived is not that of the second request.
        assert!(!pace.is_late(second) && !pace.is_silent_since(second));
        pass(79).await;
        assert!(!pace.is_late(second));
        pass(2).await;
        assert!(pace.is_late(second));
    }
}

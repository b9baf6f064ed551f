//! The traffic of one connection: how fast it responds, and how long each request may wait.
//!
//! A request that is answered in time arms no timer. Each connection has one task, its *check*. The check sleeps until
//! the limit of the oldest request in flight, and wakes the requests that have reached their limits. If no request is
//! in flight at that time, it sleeps until the next one is sent.
//!
//! The check runs on the runtime that opened the connection. If that runtime ends, the connection ends too, and its
//! requests fail immediately. A stalled runtime must not delay a request that another runtime polls. So such a request
//! has a timer of its own, on the runtime that polls it.

use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::sync::Notify;
use tokio::task::coop::unconstrained;
use tokio::time::Instant;

use super::in_flight::{AnswerPace, InFlight};
use crate::base::sync::Mutex;
use crate::base::timer::{Elapsed, Sleep, after, sleep_until, timeout_at};

/// The requests on one connection.
#[derive(Debug)]
pub(crate) struct Traffic {
    state: Mutex<TrafficState>,
    /// The number of requests in flight, here and on other connections to the server.
    in_flight: Arc<AtomicUsize>,
    /// The runtime of the check; `None` without a check.
    home: Option<Id>,
    /// Wakes the check when there is a limit before the one that it waits for.
    sooner: Arc<Notify>,
    /// Whether the connection was given up.
    is_given_up: AtomicBool,
}

#[derive(Debug)]
struct TrafficState {
    pace: AnswerPace,
    in_flight: InFlight,
}

impl Traffic {
    /// The traffic of a connection that may have been opened on another runtime: each request has a timer.
    pub(crate) fn unchecked(pace: AnswerPace, in_flight: Arc<AtomicUsize>) -> Arc<Self> {
        Arc::new(Self::new(pace, in_flight, None))
    }

    /// The traffic of a connection that was opened on this runtime.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime.
    pub(crate) fn checked(pace: AnswerPace, in_flight: Arc<AtomicUsize>) -> Arc<Self> {
        let home = Handle::current().id();
        let traffic = Arc::new(Self::new(pace, in_flight, Some(home)));
        let sooner = Arc::clone(&traffic.sooner);
        drop(tokio::spawn(check(Arc::downgrade(&traffic), sooner)));
        traffic
    }

    /// Returns whether a request ends at its limit on any runtime that continues to poll it.
    pub(crate) fn is_checked(&self) -> bool {
        self.home.is_some()
    }

    fn new(pace: AnswerPace, in_flight: Arc<AtomicUsize>, home: Option<Id>) -> Self {
        let state = TrafficState {
            pace,
            in_flight: InFlight::default(),
        };
        Self {
            state: Mutex::new(state),
            in_flight,
            home,
            sooner: Arc::default(),
            is_given_up: AtomicBool::new(false),
        }
    }

    /// A request with this limit. `sent` is the present instant.
    pub(crate) fn request(&self, sent: Instant, limit: Duration) -> TimedRequest<'_> {
        self.in_flight.fetch_add(1, Relaxed);
        TimedRequest {
            traffic: self,
            sent,
            limit: after(sent, limit),
            number: None,
            timer: None,
        }
    }

    /// Gives the connection up, because it now leads to the wrong server. Its requests end immediately.
    pub(crate) fn give_up(&self) {
        self.is_given_up.store(true, Relaxed);
        let waiting = self.state.lock().in_flight.take_all();
        waiting.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.is_given_up.load(Relaxed)
    }

    /// Returns whether a response should have arrived since `sent`.
    pub(crate) fn is_late(&self, sent: Instant) -> bool {
        self.state.lock().pace.is_late(sent)
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        // The check finds that the connection has gone.
        self.sooner.notify_one();
    }
}

/// Wakes each request that has reached its limit.
async fn check(traffic: Weak<Traffic>, sooner: Arc<Notify>) {
    while let Some(traffic) = traffic.upgrade() {
        let found = traffic.state.lock().in_flight.check(Instant::now());
        drop(traffic);
        found.late.into_iter().for_each(Waker::wake);
        match found.next {
            // After either of them, the requests are checked.
            Some(limit) => drop(timeout_at(limit, sooner.notified()).await),
            None => sooner.notified().await,
        }
    }
}

/// A request, from when it is sent until it is answered, is late, or is dropped.
#[derive(Debug)]
pub(crate) struct TimedRequest<'a> {
    traffic: &'a Traffic,
    sent: Instant,
    limit: Instant,
    /// Its number, after the check has been informed of it.
    number: Option<u64>,
    /// The timer on a runtime other than that of the check. It is kept when the request moves to the runtime of the
    /// check, because that runtime may be stalled later.
    timer: Option<Sleep>,
}

impl TimedRequest<'_> {
    /// Polls for the response, but no longer than until the limit, or until the connection is given up.
    pub(crate) fn poll<F: Future>(
        &mut self,
        answer: Pin<&mut F>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<F::Output, Elapsed>> {
        if self.traffic.is_given_up() {
            return Poll::Ready(Err(Elapsed));
        }
        if let Poll::Ready(answer) = answer.poll(cx) {
            return Poll::Ready(Ok(answer));
        }
        if self.traffic.home == Some(Handle::current().id()) {
            self.poll_check(cx).map(Err)
        } else {
            let limit = self.limit;
            let timer = self.timer.get_or_insert_with(|| sleep_until(limit));
            // A task that has used up its budget must still notice its limit.
            let mut timer = unconstrained(timer);
            Pin::new(&mut timer).poll(cx).map(|()| Err(Elapsed))
        }
    }

    fn poll_check(&mut self, cx: &Context<'_>) -> Poll<Elapsed> {
        let mut state = self.traffic.state.lock();
        // From here on, giving the connection up wakes this task.
        if self.traffic.is_given_up() {
            return Poll::Ready(Elapsed);
        }
        let Some(number) = self.number else {
            self.number = Some(state.in_flight.add(self.limit, cx.waker()));
            let needs_check = state.in_flight.needs_check();
            drop(state);
            if needs_check {
                self.traffic.sooner.notify_one();
            }
            return Poll::Pending;
        };
        let before = state.in_flight.set_waker(number, cx.waker());
        drop(state);
        drop(before);
        // This comes after the waker is set: a check that finds the limit reached from now on wakes this task.
        if self.limit <= Instant::now() {
            Poll::Ready(Elapsed)
        } else {
            Poll::Pending
        }
    }

    /// Notes the response.
    pub(crate) fn answered(mut self) {
        let mut state = self.traffic.state.lock();
        state.pace.heard(self.sent);
        let number = self.number.take();
        let waker = number.and_then(|number| state.in_flight.remove(number));
        drop(state);
        drop(waker);
    }

    /// Returns whether the connection has been silent since the request was sent, or for longer than its responses
    /// take. Responses arrive in order: while others keep arriving, the response to this request is on its way.
    pub(crate) fn meets_silence(&self) -> bool {
        let pace = &self.traffic.state.lock().pace;
        pace.is_silent_since(self.sent) || pace.is_late(self.sent)
    }
}

impl Drop for TimedRequest<'_> {
    fn drop(&mut self) {
        self.traffic.in_flight.fetch_sub(1, Relaxed);
        if let Some(number) = self.number {
            let waker = self.traffic.state.lock().in_flight.remove(number);
            // The mutex has been released.
            drop(waker);
        }
    }
}

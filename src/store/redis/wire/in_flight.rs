//! The requests in flight on one connection, each with its limit, and how fast the connection responds.
//!
//! There is no clock, no mutex, no task and no timer here: see `traffic`. Wakers that are no longer needed are
//! returned, because dropping one may drop a task, and with it a request of this connection.

use std::collections::VecDeque;
use std::mem;
use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;

/// The requests in flight, and when the check is next due.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    /// The requests in the order of their limits. Responses arrive in the order of the requests, so the one that is
    /// answered is the first, or close to it.
    requests: VecDeque<Pending>,
    /// The number of requests so far.
    count: u64,
    /// The limit for which the check waits. `None` while it waits for a request.
    check: Option<Instant>,
}

#[derive(Debug)]
struct Pending {
    number: u64,
    limit: Instant,
    waker: Waker,
}

/// The result of a check.
#[derive(Debug)]
pub(crate) struct Found {
    /// The wakers of the requests that have reached their limits. These requests are not checked again.
    pub(crate) late: Vec<Waker>,
    /// The time of the next check, which is the limit of the oldest request. `None` until the next request.
    pub(crate) next: Option<Instant>,
}

impl InFlight {
    /// Adds a request, and returns its number.
    pub(crate) fn add(&mut self, limit: Instant, waker: &Waker) -> u64 {
        self.count += 1;
        let before = |request: &Pending| request.limit <= limit;
        let at = self.requests.iter().rposition(before);
        let request = Pending {
            number: self.count,
            limit,
            waker: waker.clone(),
        };
        self.requests.insert(at.map_or(0, |at| at + 1), request);
        self.count
    }

    /// Replaces the waker of a request. Returns the previous waker, if that wakes another task.
    pub(crate) fn set_waker(&mut self, number: u64, waker: &Waker) -> Option<Waker> {
        let mut requests = self.requests.iter_mut();
        let request = requests.find(|request| request.number == number)?;
        let is_new = !request.waker.will_wake(waker);
        is_new.then(|| mem::replace(&mut request.waker, waker.clone()))
    }

    /// Removes a request that is answered, or that no task waits for any more.
    pub(crate) fn remove(&mut self, number: u64) -> Option<Waker> {
        let mut requests = self.requests.iter();
        let at = requests.position(|request| request.number == number)?;
        self.requests.remove(at).map(|request| request.waker)
    }

    /// Removes all requests, because none will be answered.
    pub(crate) fn take_all(&mut self) -> Vec<Waker> {
        let requests = self.requests.drain(..);
        requests.map(|request| request.waker).collect()
    }

    /// Returns whether there is a limit before the one that the check waits for. Returns true only once for it.
    pub(crate) fn needs_check(&mut self) -> bool {
        let Some(oldest) = self.requests.front().map(|request| request.limit) else {
            return false;
        };
        let needs = self.check.is_none_or(|check| oldest < check);
        if needs {
            self.check = Some(oldest);
        }
        needs
    }

    /// Removes the requests that have reached their limits at `now`.
    pub(crate) fn check(&mut self, now: Instant) -> Found {
        let over = |request: &&Pending| request.limit <= now;
        let late = self.requests.iter().take_while(over).count();
        let late = self.requests.drain(..late).map(|request| request.waker);
        let late = late.collect();
        self.check = self.requests.front().map(|request| request.limit);
        Found {
            late,
            next: self.check,
        }
    }
}

/// The time of the last response over a connection, and how long responses take.
#[derive(Debug)]
pub(crate) struct AnswerPace {
    last: Instant,
    /// The longest time of a recent response. It decreases with each response that takes less.
    longest: Duration,
}

impl AnswerPace {
    /// The pace of a connection that took this long to open.
    pub(crate) fn new(took: Duration) -> Self {
        Self {
            last: Instant::now(),
            longest: took,
        }
    }

    /// Notes the response to a request that was sent at `sent`.
    pub(crate) fn heard(&mut self, sent: Instant) {
        self.last = Instant::now();
        self.longest = (self.longest - self.longest / 8).max(self.last - sent);
    }

    /// Returns whether no response has arrived since `sent`.
    pub(crate) fn is_silent_since(&self, sent: Instant) -> bool {
        self.last <= sent
    }

    /// Returns whether a response should have arrived since `sent`, when a request was sent that is not answered.
    /// Earlier responses show how long one takes.
    pub(crate) fn is_late(&self, sent: Instant) -> bool {
        self.last.max(sent).elapsed() > 2 * self.longest
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_late_by_the_pace_of_its_answers() {
        let pass = async |millis| tokio::time::advance(Duration::from_millis(millis)).await;
        let mut pace = AnswerPace::new(Duration::from_millis(30));
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

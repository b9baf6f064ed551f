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
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    use std::time::Duration;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Requests whose limits are this number of milliseconds after the start.
    struct Table {
        start: Instant,
        requests: InFlight,
    }

    impl Table {
        fn new() -> Self {
            Self {
                start: Instant::now(),
                requests: InFlight::default(),
            }
        }

        fn at(&self, millis: u64) -> Instant {
            self.start + Duration::from_millis(millis)
        }

        fn add(&mut self, millis: u64) -> u64 {
            self.requests.add(self.at(millis), Waker::noop())
        }

        /// The number of late requests, and the time of the next check.
        fn check(&mut self, millis: u64) -> (usize, Option<Instant>) {
            let found = self.requests.check(self.at(millis));
            (found.late.len(), found.next)
        }
    }

    #[test]
    fn only_a_limit_before_the_one_waited_for_needs_a_check() {
        let mut table = Table::new();
        assert!(!table.requests.needs_check());
        let first = table.add(10);
        assert!(table.requests.needs_check() && !table.requests.needs_check());
        table.add(20);
        assert!(!table.requests.needs_check());
        assert!(table.requests.remove(first).is_some());
        // The response changes no time: the check finds out when it is due.
        assert!(!table.requests.needs_check());
        table.add(5);
        assert!(table.requests.needs_check());
        assert_eq!(table.check(5), (1, Some(table.at(20))));
        assert!(!table.requests.needs_check());
    }

    #[test]
    fn a_younger_answer_does_not_put_off_the_limit_of_the_oldest() {
        let mut table = Table::new();
        table.add(10);
        let younger = table.add(20);
        assert!(table.requests.remove(younger).is_some());
        assert_eq!(table.check(9), (0, Some(table.at(10))));
        assert_eq!(table.check(10), (1, None));
        assert_eq!(table.check(30), (0, None));
    }

    #[test]
    fn an_answer_of_the_oldest_leaves_the_limit_of_the_next() {
        let mut table = Table::new();
        let oldest = table.add(10);
        table.add(20);
        assert!(table.requests.remove(oldest).is_some());
        assert_eq!(table.check(10), (0, Some(table.at(20))));
        assert_eq!(table.check(25), (1, None));
        // A late request may still be answered.
        assert!(table.requests.remove(2).is_none());
    }

    #[test]
    fn limits_are_in_order_whatever_the_order_of_the_requests() {
        let mut table = Table::new();
        for millis in [30, 10, 40, 10, 20] {
            table.add(millis);
        }
        assert_eq!(table.check(10), (2, Some(table.at(20))));
        assert_eq!(table.check(39), (2, Some(table.at(40))));
    }

    #[test]
    fn the_task_that_waits_now_is_the_one_that_is_told() {
        let mut table = Table::new();
        let number = table.add(10);
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        assert!(table.requests.set_waker(number, &waker).is_some());
        assert!(table.requests.set_waker(number, &waker).is_none());
        let found = table.requests.check(table.at(10));
        found.late.into_iter().for_each(Waker::wake);
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    }

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

//! The circuit breaker: it decides when a server that fails is tried again, and by how many requests.
//!
//! ```text
//! Flowing ──failure──▶ Paused ──time──▶ Tried ──answer──▶ Flowing
//!                        ▲                 │
//!                        └─────failure─────┘
//! ```
//! A connection alone proves nothing: a proxy accepts it, and so do a replica and a cluster that is down. So after a
//! failure there is a pause. Then one request is sent, and the others wait for its outcome and share its error. The
//! pauses grow with each failure, however many requests arrive. They begin again with the shortest when requests have
//! flowed for a while.

use std::time::Duration;

use tokio::time::Instant;

use crate::base::backoff::Backoff;
use crate::base::error::StoreError;
use crate::base::timer::after;

/// The longest pause, without the jitter.
const LONGEST: Duration = Duration::from_millis(300);

/// The time for which requests must have flowed before a failure. After that time the pauses begin with the shortest
/// again, and a lost connection is replaced without any.
const SETTLED: Duration = Duration::from_secs(1);

/// The state that says whether requests are sent.
#[derive(Debug)]
pub(crate) struct Breaker {
    stage: Flow,
    /// A number that changes with each failure and each trial, so that late news of an earlier one does not count.
    round: u64,
    pauses: Backoff,
    failures: u64,
    /// The error of the latest failure.
    error: Option<StoreError>,
    /// Whether the server rejected writes then. It may still answer reads.
    is_replica: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// All requests have been sent since this instant; `None` if no connection was ever lost.
    Flowing(Option<Instant>),
    /// No request is sent until this instant.
    Paused(Instant),
    /// One request is sent alone. If it has no outcome at this instant, another one is sent.
    Tried(Instant),
}

/// The step that a request must take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The request is sent. A connection is opened if there is none.
    Go(Pass),
    /// The request connects if there is no connection, and begins a trial.
    Try(Pass),
    /// The request waits until this instant, or until there is news.
    Wait(Instant),
}

/// The round in which a request was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pass(u64);

/// The outcome of a request.
#[derive(Debug)]
pub(crate) enum News {
    /// The server has responded. A replica answers requests that only read.
    Answered { only_reads: bool },
    /// The connection was lost. It is replaced immediately, or after a short pause if the previous one was lost just
    /// before.
    Lost(StoreError),
    /// No connection could be opened, or the server rejects every request.
    Failed(StoreError),
    /// The server rejects writes.
    ReadOnly(StoreError),
    /// The request was dropped before it had an outcome. If it was sent alone, the next one tries.
    Dropped,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            stage: Flow::Flowing(None),
            round: 0,
            pauses: Backoff::doubling(LONGEST),
            failures: 0,
            error: None,
            is_replica: false,
        }
    }
}

impl Breaker {
    /// The pass of a request while all requests are sent.
    pub(crate) fn flowing(&self) -> Option<Pass> {
        matches!(self.stage, Flow::Flowing(_)).then_some(Pass(self.round))
    }

    /// The step that a request must take now.
    pub(crate) fn step(&self, now: Instant) -> Step {
        match self.stage {
            Flow::Flowing(_) => Step::Go(Pass(self.round)),
            Flow::Paused(until) | Flow::Tried(until) if now < until => Step::Wait(until),
            Flow::Paused(_) | Flow::Tried(_) => Step::Try(Pass(self.round)),
        }
    }

    /// Lets a request be sent alone if it is the first one to try, with this limit.
    pub(crate) fn begin_trial(
        &mut self,
        pass: Pass,
        now: Instant,
        limit: Duration,
    ) -> Option<Pass> {
        let is_first = self.is_present(pass) && self.step(now) == Step::Try(pass);
        is_first.then(|| {
            self.round += 1;
            self.stage = Flow::Tried(after(now, limit));
            Pass(self.round)
        })
    }

    /// Processes the outcome of a request with this pass. Returns whether that changes what other requests must do.
    pub(crate) fn hear(&mut self, pass: Pass, news: News, now: Instant) -> bool {
        if !self.is_present(pass) {
            return false;
        }
        match (news, self.stage) {
            (News::Answered { only_reads: true }, Flow::Tried(_)) if self.is_replica => {
                self.stage = Flow::Paused(now);
            }
            (News::Answered { .. }, Flow::Tried(_)) => self.stage = Flow::Flowing(Some(now)),
            (News::Dropped, Flow::Tried(_)) => self.stage = Flow::Paused(now),
            (News::Answered { .. } | News::Dropped, _) => return false,
            (News::Lost(_), Flow::Flowing(_)) if self.is_settled(now) => {
                self.pauses.reset();
                self.round += 1;
                self.stage = Flow::Flowing(Some(now));
            }
            (News::Lost(error), stage) => {
                if matches!(stage, Flow::Flowing(_)) {
                    self.pauses.reset();
                }
                self.fail(error, now);
            }
            (News::Failed(error), _) => self.fail(error, now),
            (News::ReadOnly(error), _) => {
                self.fail(error, now);
                self.is_replica = true;
            }
        }
        true
    }

    fn fail(&mut self, error: StoreError, now: Instant) {
        if self.is_settled(now) {
            self.pauses.reset();
        }
        self.round += 1;
        self.failures += 1;
        self.error = Some(error);
        self.is_replica = false;
        self.stage = Flow::Paused(after(now, self.pauses.next_pause()));
    }

    /// The number of failures so far.
    pub(crate) fn failures(&self) -> u64 {
        self.failures
    }

    /// The error of the latest failure, if there were more failures than this.
    pub(crate) fn failed_since(&self, failures: u64) -> Option<&StoreError> {
        self.error.as_ref().filter(|_| self.failures > failures)
    }

    fn is_present(&self, pass: Pass) -> bool {
        self.round == pass.0
    }

    fn is_settled(&self, now: Instant) -> bool {
        match self.stage {
            Flow::Flowing(since) => since.is_none_or(|since| now >= after(since, SETTLED)),
            Flow::Paused(_) | Flow::Tried(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends where its ground gives way")]

    use super::*;
    use crate::base::error::Effect;

    const LIMIT: Duration = Duration::from_secs(3);
    const MS: Duration = Duration::from_millis(1);

    fn error() -> StoreError {
        StoreError::new("connect", &"here".into(), Effect::None, "it is closed")
    }

    fn answered(only_reads: bool) -> News {
        News::Answered { only_reads }
    }

    /// The pass of a request that is sent now, alone if necessary.
    fn pass(breaker: &mut Breaker, now: Instant) -> Pass {
        match breaker.step(now) {
            Step::Go(pass) => pass,
            Step::Try(pass) => breaker.begin_trial(pass, now, LIMIT).unwrap(),
            Step::Wait(until) => panic!("a pause of {:?}", until - now),
        }
    }

    fn pause(breaker: &Breaker, now: Instant) -> Duration {
        match breaker.step(now) {
            Step::Wait(until) => until - now,
            step => panic!("{step:?}"),
        }
    }

    /// Lets this number of requests find no server, one after the other. Returns how long that takes.
    fn fail(breaker: &mut Breaker, begun: Instant, times: u32) -> Instant {
        let mut now = begun;
        for _ in 0..times {
            let trial = pass(breaker, now);
            breaker.hear(trial, News::Failed(error()), now);
            now += pause(breaker, now);
        }
        now
    }

    #[test]
    fn attempts_are_few_whoever_asks() {
        let (mut breaker, begun) = (Breaker::default(), Instant::now());
        let (mut now, mut attempts) = (begun, 0);
        // In each millisecond, a request arrives.
        while now < begun + 10_000 * MS {
            if let Step::Go(attempt) | Step::Try(attempt) = breaker.step(now) {
                attempts += 1;
                breaker.hear(attempt, News::Failed(error()), now);
            }
            now += MS;
        }
        assert!((16..=5 + 34).contains(&attempts), "{attempts}");
    }

    #[test]
    fn one_request_tries_and_the_others_share_what_becomes_of_it() {
        let mut breaker = Breaker::default();
        let now = fail(&mut breaker, Instant::now(), 1);
        let before = breaker.failures();
        let others = breaker.step(now);
        let trial = pass(&mut breaker, now);
        assert_eq!(pause(&breaker, now), LIMIT);
        // The results of requests that connected together with it are too late.
        let Step::Try(late) = others else {
            panic!("{others:?}");
        };
        assert_eq!(breaker.begin_trial(late, now, LIMIT), None);
        assert!(breaker.failed_since(before).is_none());
        breaker.hear(trial, News::Failed(error()), now);
        assert!(breaker.failed_since(before).is_some());
        let now = now + LONGEST;
        let trial = pass(&mut breaker, now);
        breaker.hear(trial, answered(false), now);
        assert!(breaker.flowing().is_some());
    }

    #[test]
    fn a_connection_that_is_lost_once_is_replaced_without_a_pause() {
        let (mut breaker, mut now) = (Breaker::default(), Instant::now());
        for _ in 0..5 {
            let all = [(); 100].map(|()| pass(&mut breaker, now));
            for pass in all {
                breaker.hear(pass, News::Lost(error()), now);
            }
            assert!(breaker.flowing().is_some());
            now += SETTLED;
        }
    }

    #[test]
    fn a_replica_that_reads_does_not_let_those_go_that_write() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        let first = pass(&mut breaker, now);
        breaker.hear(first, News::ReadOnly(error()), now);
        let now = now + LONGEST;
        // The requests that read are sent one after the other.
        for _ in 0..3 {
            let read = pass(&mut breaker, now);
            assert!(breaker.flowing().is_none());
            breaker.hear(read, answered(true), now);
        }
        let write = pass(&mut breaker, now);
        breaker.hear(write, answered(false), now);
        assert!(breaker.flowing().is_some());
        // After a failure to connect, a response to a read is enough.
        let now = fail(&mut breaker, now, 1);
        let read = pass(&mut breaker, now);
        breaker.hear(read, answered(true), now);
        assert!(breaker.flowing().is_some());
    }

    #[test]
    fn a_trial_that_is_dropped_or_stands_still_makes_room_for_the_next_one() {
        let mut breaker = Breaker::default();
        let now = fail(&mut breaker, Instant::now(), 5);
        let dropped = pass(&mut breaker, now);
        breaker.hear(dropped, News::Dropped, now);
        let stands_still = pass(&mut breaker, now);
        let now = now + LIMIT;
        let third = pass(&mut breaker, now);
        // The outcomes of the others no longer count.
        breaker.hear(stands_still, answered(false), now);
        breaker.hear(stands_still, News::Failed(error()), now);
        breaker.hear(stands_still, News::Dropped, now);
        assert_eq!(pause(&breaker, now), LIMIT);
        breaker.hear(third, answered(false), now);
        assert!(breaker.flowing().is_some());
    }
}

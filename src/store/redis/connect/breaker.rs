//! When a server that fails is tried again, and by how many requests.
//!
//! ```text
//! Flowing ──failure──▶ Paused ──time──▶ Tried ──answer──▶ Flowing
//!                        ▲                 │
//!                        └─────failure─────┘
//! ```
//! A connection alone proves nothing: a proxy accepts it, and so do a replica and a cluster that is down. So after a
//! failure there is a pause, then one request goes out, and the others wait for what becomes of it and share its error.
//! The pauses grow with each failure, whoever asks, and begin anew when requests have flowed for a while.

use std::time::Duration;

use tokio::time::Instant;

use crate::base::{backoff::Pauses, error::StoreError, timer::after};

/// The longest pause, jitter aside.
const LONGEST: Duration = Duration::from_millis(250);

/// How long requests must have flowed before a failure for the pauses to begin anew, and for a lost connection to be
/// replaced without a pause.
const SETTLED: Duration = Duration::from_secs(1);

/// Whether requests go out.
#[derive(Debug)]
pub(super) struct Breaker {
    stage: Stage,
    /// Changes with each failure and each trial, so that late news of an earlier one counts no more.
    round: u64,
    pauses: Pauses,
    failures: u64,
    /// The error of the latest failure.
    error: Option<StoreError>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Since then; `None` if a connection was never lost.
    Flowing(Option<Instant>),
    /// Until then.
    Paused(Instant),
    /// One request is out. Unless it comes to something until then, another one tries.
    Tried(Instant),
}

/// What a request is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Go(Pass),
    /// Until then, or until there is news.
    Wait(Instant),
}

/// What a request has when it goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pass {
    round: u64,
    pub(super) is_trial: bool,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            stage: Stage::Flowing(None),
            round: 0,
            pauses: Pauses::new(LONGEST),
            failures: 0,
            error: None,
        }
    }
}

impl Breaker {
    /// What a request has while all is well.
    pub(super) fn flowing(&self) -> Option<Pass> {
        let pass = Pass {
            round: self.round,
            is_trial: false,
        };
        matches!(self.stage, Stage::Flowing(_)).then_some(pass)
    }

    /// What a request is to do now. One that tries has so much time.
    pub(super) fn step(&mut self, now: Instant, limit: Duration) -> Step {
        if let Some(pass) = self.flowing() {
            return Step::Go(pass);
        }
        if let Stage::Paused(until) | Stage::Tried(until) = self.stage
            && now < until
        {
            return Step::Wait(until);
        }
        self.round += 1;
        self.stage = Stage::Tried(after(now, limit));
        Step::Go(Pass {
            round: self.round,
            is_trial: true,
        })
    }

    /// The server has answered.
    pub(super) fn answered(&mut self, pass: Pass, now: Instant) {
        if pass.is_trial && self.is_present(pass) {
            self.stage = Stage::Flowing(Some(now));
        }
    }

    /// The connection was lost under a request. It is replaced at once, unless that has just been done.
    pub(super) fn lost(&mut self, pass: Pass, error: StoreError, now: Instant) {
        if !self.is_present(pass) {
            return;
        }
        if self.is_settled(now) {
            self.round += 1;
            self.pauses.begin_anew();
            self.stage = Stage::Flowing(Some(now));
        } else {
            self.failed(pass, error, now);
        }
    }

    /// There is no connection to be had, or the server refuses whatever comes.
    pub(super) fn failed(&mut self, pass: Pass, error: StoreError, now: Instant) {
        if !self.is_present(pass) {
            return;
        }
        if self.is_settled(now) {
            self.pauses.begin_anew();
        }
        self.round += 1;
        self.failures += 1;
        self.error = Some(error);
        self.stage = Stage::Paused(after(now, self.pauses.next()));
    }

    /// A trial was dropped before it had come to something: the next request tries.
    pub(super) fn dropped(&mut self, pass: Pass, now: Instant) {
        if self.is_present(pass) && matches!(self.stage, Stage::Tried(_)) {
            self.stage = Stage::Paused(now);
        }
    }

    /// How many failures there have been.
    pub(super) fn failures(&self) -> u64 {
        self.failures
    }

    /// The error of the latest failure, if there were more than so many.
    pub(super) fn failed_since(&self, failures: u64) -> Option<&StoreError> {
        self.error.as_ref().filter(|_| self.failures > failures)
    }

    fn is_present(&self, pass: Pass) -> bool {
        self.round == pass.round
    }

    fn is_settled(&self, now: Instant) -> bool {
        match self.stage {
            Stage::Flowing(since) => since.is_none_or(|since| now >= after(since, SETTLED)),
            Stage::Paused(_) | Stage::Tried(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::Effect;

    const LIMIT: Duration = Duration::from_secs(3);
    const MS: Duration = Duration::from_millis(1);

    fn error() -> StoreError {
        StoreError::new("connect", &"here".into(), Effect::None, "it is closed")
    }

    fn pass(breaker: &mut Breaker, now: Instant) -> Pass {
        match breaker.step(now, LIMIT) {
            Step::Go(pass) => pass,
            Step::Wait(until) => panic!("a pause of {:?}", until - now),
        }
    }

    fn pause(breaker: &mut Breaker, now: Instant) -> Duration {
        match breaker.step(now, LIMIT) {
            Step::Go(pass) => panic!("{pass:?}"),
            Step::Wait(until) => until - now,
        }
    }

    /// So many requests find no server, one after the other. Returns how long that takes.
    fn fail(breaker: &mut Breaker, begun: Instant, times: u32) -> Instant {
        let mut now = begun;
        for _ in 0..times {
            let trial = pass(breaker, now);
            breaker.failed(trial, error(), now);
            now += pause(breaker, now);
        }
        now
    }

    #[test]
    fn attempts_are_few_whoever_asks() {
        let (mut breaker, begun) = (Breaker::default(), Instant::now());
        let mut attempts = 0_u32;
        let mut now = begun;
        let mut last = pass(&mut breaker, now);
        // Each millisecond some request comes.
        while now < begun + 10_000 * MS {
            if attempts == 0
                || matches!(breaker.step(now, LIMIT), Step::Go(pass) if { last = pass; true })
            {
                attempts += 1;
                breaker.failed(last, error(), now);
            }
            now += MS;
        }
        assert!((20..=5 + 40).contains(&attempts), "{attempts}");
    }

    #[test]
    fn pauses_grow_from_failure_to_failure_and_no_further_than_to_half_a_second() {
        let (mut breaker, mut now) = (Breaker::default(), Instant::now());
        for step in 0..10_u32 {
            let trial = pass(&mut breaker, now);
            breaker.failed(trial, error(), now);
            let least = (10 * MS * 2_u32.pow(step)).min(LONGEST);
            let pause = pause(&mut breaker, now);
            assert!((least..=2 * least).contains(&pause), "{step}: {pause:?}");
            now += pause;
        }
    }

    #[test]
    fn one_request_tries_and_the_others_share_what_becomes_of_it() {
        let mut breaker = Breaker::default();
        let now = fail(&mut breaker, Instant::now(), 1);
        let before = breaker.failures();
        let trial = pass(&mut breaker, now);
        assert!(trial.is_trial);
        assert_eq!(pause(&mut breaker, now), LIMIT);
        assert!(breaker.failed_since(before).is_none());
        breaker.failed(trial, error(), now);
        assert!(breaker.failed_since(before).is_some());
        let now = now + LONGEST;
        let trial = pass(&mut breaker, now);
        breaker.answered(trial, now);
        assert!(breaker.flowing().is_some_and(|pass| !pass.is_trial));
    }

    #[test]
    fn many_that_fail_at_once_are_one_failure() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        let all = [(); 100].map(|()| pass(&mut breaker, now));
        for pass in all {
            breaker.failed(pass, error(), now);
        }
        assert_eq!(breaker.failures(), 1);
        assert!(pause(&mut breaker, now) <= 20 * MS);
    }

    #[test]
    fn a_connection_that_is_lost_once_is_replaced_without_a_pause() {
        let (mut breaker, mut now) = (Breaker::default(), Instant::now());
        for _ in 0..5 {
            let all = [(); 100].map(|()| pass(&mut breaker, now));
            for pass in all {
                breaker.lost(pass, error(), now);
            }
            assert!(breaker.flowing().is_some());
            now += SETTLED;
        }
    }

    #[test]
    fn one_that_is_lost_again_and_again_is_replaced_after_growing_pauses() {
        let (mut breaker, mut now) = (Breaker::default(), Instant::now());
        let first = pass(&mut breaker, now);
        breaker.lost(first, error(), now);
        for step in 0..5_u32 {
            let next = pass(&mut breaker, now);
            breaker.answered(next, now);
            let next = pass(&mut breaker, now);
            breaker.lost(next, error(), now);
            let least = 10 * MS * 2_u32.pow(step);
            let pause = pause(&mut breaker, now);
            assert!(
                (least.min(LONGEST)..=2 * least).contains(&pause),
                "{step}: {pause:?}"
            );
            now += pause;
        }
    }

    #[test]
    fn a_server_that_has_answered_for_a_while_is_tried_again_soon() {
        let mut breaker = Breaker::default();
        let now = fail(&mut breaker, Instant::now(), 10);
        let trial = pass(&mut breaker, now);
        breaker.answered(trial, now);
        let now = now + SETTLED;
        let next = pass(&mut breaker, now);
        breaker.failed(next, error(), now);
        assert!(pause(&mut breaker, now) <= 20 * MS);
    }

    #[test]
    fn a_trial_that_is_dropped_or_stands_still_makes_room_for_the_next_one() {
        let mut breaker = Breaker::default();
        let now = fail(&mut breaker, Instant::now(), 5);
        let dropped = pass(&mut breaker, now);
        breaker.dropped(dropped, now);
        let stands_still = pass(&mut breaker, now);
        let now = now + LIMIT;
        let third = pass(&mut breaker, now);
        // What comes of the others says nothing any more.
        breaker.answered(stands_still, now);
        breaker.failed(stands_still, error(), now);
        breaker.dropped(stands_still, now);
        assert_eq!(pause(&mut breaker, now), LIMIT);
        breaker.answered(third, now);
        assert!(breaker.flowing().is_some());
    }
}

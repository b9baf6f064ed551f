//! How soon a subscription is made anew.

use std::time::Duration;

use crate::base::backoff::Backoff;

/// A subscription that has stood for so long is made anew at once. It is the shortest pause too, so
/// that no two attempts of one task are closer together.
const SETTLED: Duration = Duration::from_millis(10);

/// The longest pause while the server accepts subscriptions, jitter aside.
const LONGEST_IF_ACCEPTED: Duration = Duration::from_millis(50);

/// The longest pause while it does not, jitter aside.
const LONGEST: Duration = Duration::from_secs(1);

/// The pauses between the attempts of one inbox.
pub(super) struct Pace {
    after_deaths: Backoff,
    after_failures: Backoff,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self {
            after_deaths: Backoff::doubling(LONGEST_IF_ACCEPTED),
            after_failures: Backoff::doubling(LONGEST),
        }
    }

    /// The pause after a subscription that stood for so long; `None` if it is made anew at once.
    pub(super) fn died(&mut self, stood: Duration) -> Option<Duration> {
        self.after_failures.reset();
        if stood < SETTLED {
            return Some(self.after_deaths.next_pause());
        }
        self.after_deaths.reset();
        None
    }

    /// The pause after a subscription that could not be made.
    pub(super) fn failed(&mut self) -> Option<Duration> {
        Some(self.after_failures.next_pause())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Whether a pause is the `step`-th of a series that grows to `longest`, with its jitter.
    fn is_step(pause: Option<Duration>, step: u32, longest: Duration) -> bool {
        let least = (10 * MS * 2_u32.pow(step)).min(longest);
        pause.is_some_and(|pause| (least..=2 * least).contains(&pause))
    }

    #[test]
    fn a_subscription_that_has_stood_is_made_anew_at_once() {
        let mut pace = Pace::new();
        for stood in [10 * MS, 37 * MS, 300 * MS, 3_600_000 * MS] {
            assert_eq!(pace.died(stood), None, "{stood:?}");
        }
    }

    #[test]
    fn one_that_dies_at_once_again_and_again_is_made_anew_within_a_tenth_of_a_second() {
        let mut pace = Pace::new();
        for _ in 0..2 {
            for step in 0..10 {
                let pause = pace.died(9 * MS);
                assert!(is_step(pause, step, 50 * MS), "{step}: {pause:?}");
            }
            assert_eq!(pace.died(10 * MS), None);
        }
    }

    #[test]
    fn a_server_that_is_down_is_left_alone_for_longer_and_longer() {
        let mut pace = Pace::new();
        for _ in 0..2 {
            for step in 0..10 {
                let pause = pace.failed();
                assert!(is_step(pause, step, 1_000 * MS), "{step}: {pause:?}");
            }
            // It has accepted one.
            pace.died(Duration::ZERO);
        }
    }
}

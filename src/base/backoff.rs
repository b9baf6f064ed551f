//! The increasing pauses between attempts.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};

/// The first pause of each series, without jitter.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// The number of attempts after which every series has reached its longest pause.
const MAX_GROWING_ATTEMPTS: usize = 64;

/// A series of pauses from 10 ms to a longest pause. Jitter at most doubles each pause.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(crate) struct Backoff {
    longest: Duration,
    growth: Growth,
    made: usize,
}

#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
enum Growth {
    Doubling,
    Slow,
}

impl Backoff {
    /// Pauses of which each is twice as long as the one before.
    pub(crate) const fn doubling(longest: Duration) -> Self {
        Self::growing(longest, Growth::Doubling)
    }

    /// Pauses of which each is one and a half times as long as the one before.
    pub(crate) const fn slow(longest: Duration) -> Self {
        Self::growing(longest, Growth::Slow)
    }

    const fn growing(longest: Duration, growth: Growth) -> Self {
        Self {
            longest,
            growth,
            made: 0,
        }
    }

    pub(crate) fn next_pause(&mut self) -> Duration {
        let factor = match self.growth {
            Growth::Doubling => 2.0,
            Growth::Slow => 1.5,
        };
        // The series is built anew each time, because this value is a part of the state of a wait machine: it is copied
        // and compared, which the iterator of the library cannot be.
        let series = ExponentialBuilder::new()
            .with_min_delay(FIRST_PAUSE)
            .with_max_delay(self.longest)
            .with_factor(factor)
            .with_jitter()
            .without_max_times();
        let pause = series.build().nth(self.made);
        // The pause no longer grows after that, and counting to it would only take longer.
        self.made = (self.made + 1).min(MAX_GROWING_ATTEMPTS);
        pause.unwrap_or(self.longest)
    }

    /// Restarts the series.
    pub(crate) fn reset(&mut self) {
        self.made = 0;
    }
}

/// The pauses between attempts of a request that must succeed.
impl Default for Backoff {
    fn default() -> Self {
        Self::doubling(Duration::from_millis(500))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn pauses_grow_to_the_longest_and_start_again_after_a_reset() {
        let slow = Backoff::slow(50 * MS);
        let doubling = Backoff::doubling(100 * MS);
        for (mut backoff, expected) in [
            (slow, [10_000, 15_000, 22_500, 33_750, 50_000, 50_000]),
            (doubling, [10_000, 20_000, 40_000, 80_000, 100_000, 100_000]),
        ] {
            for _ in 0..2 {
                for least in expected.map(Duration::from_micros) {
                    let pause = backoff.next_pause();
                    assert!((least..=2 * least).contains(&pause), "{least:?}: {pause:?}");
                }
                backoff.reset();
            }
        }
    }

    #[test]
    fn pauses_of_callers_that_fail_together_are_spread() {
        let pauses: Vec<_> = (0..10).map(|_| Backoff::default().next_pause()).collect();
        assert!(pauses.iter().any(|pause| *pause != pauses[0]), "{pauses:?}");
    }
}

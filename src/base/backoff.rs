//! The increasing pauses between attempts.

use std::time::Duration;

/// The first pause of each series, without jitter.
const SHORTEST: Duration = Duration::from_millis(10);

/// A series of pauses from 10 ms to a longest pause. Jitter at most doubles each pause.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
pub(crate) struct Backoff {
    /// The next pause, and the longest one, without jitter.
    next: Duration,
    longest: Duration,
    /// How much longer each pause is than the one before, in halves of it.
    growth: u32,
}

impl Backoff {
    /// Pauses of which each is twice as long as the one before.
    pub(crate) const fn doubling(longest: Duration) -> Self {
        Self {
            next: SHORTEST,
            longest,
            growth: 2,
        }
    }

    /// Pauses of which each is one and a half times as long as the one before.
    pub(crate) const fn slow(longest: Duration) -> Self {
        Self {
            next: SHORTEST,
            longest,
            growth: 1,
        }
    }

    pub(crate) fn next_pause(&mut self) -> Duration {
        let pause = self.next.min(self.longest);
        self.next = (pause + pause * self.growth / 2).min(self.longest);
        pause + pause.mul_f64(fastrand::f64())
    }

    /// Restarts the series.
    pub(crate) fn reset(&mut self) {
        self.next = SHORTEST;
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
    fn pauses_grow_up_to_the_longest_and_begin_anew() {
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
    fn those_that_begin_together_do_not_stay_together() {
        let pauses: Vec<_> = (0..10).map(|_| Backoff::default().next_pause()).collect();
        assert!(pauses.iter().any(|pause| *pause != pauses[0]), "{pauses:?}");
    }
}

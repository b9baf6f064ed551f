//! The spreading of renewals that became due together. It is a value without a clock.

use std::time::Duration;

use tokio::time::Instant;

/// The number of windows into which the time between two renewals is divided.
const WINDOWS: u32 = 16;

/// The number of requests in one window that is never too high.
const FEW: u32 = 8;

/// The number of requests that have recently renewed something, separately for each power of two of the TTL.
///
/// After a lost connection all holds are verified immediately, and would be due together from then on. So the requests
/// beyond twice the share of a window are followed by an earlier renewal. Each is at another instant of the next
/// period. No renewal is delayed.
#[derive(Debug, Default)]
pub(super) struct Pace {
    of: Vec<OfTtl>,
    /// The number of requests that were spread.
    spread: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct OfTtl {
    period_ends: Option<Instant>,
    window_ends: Option<Instant>,
    in_window: u32,
    in_period: u32,
    in_period_before: u32,
}

impl Pace {
    /// Notes a request that renews something now. Returns after what time the next one follows, if that is earlier than
    /// usual.
    pub(super) fn begin(&mut self, ttl: Duration, now: Instant) -> Option<Duration> {
        let millis = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        let at = usize::try_from(millis.max(1).ilog2()).unwrap_or_default();
        if self.of.len() <= at {
            self.of.resize(at + 1, OfTtl::default());
        }
        let pause = ttl / 3;
        let of = &mut self.of[at];
        of.pass(now, pause);
        of.in_window += 1;
        of.in_period += 1;
        if of.in_window <= FEW.max(of.in_period_before / 8) {
            return None;
        }
        self.spread = self.spread.wrapping_add(1);
        // The fractional parts of the multiples of the golden ratio are evenly distributed, however many there are.
        let share = (f64::from(self.spread) * 0.618_033_988_749_895).fract();
        Some(pause / WINDOWS + (pause - pause / WINDOWS).mul_f64(share))
    }
}

impl OfTtl {
    fn pass(&mut self, now: Instant, pause: Duration) {
        if self.period_ends.is_none_or(|end| end <= now) {
            let is_next = self.period_ends.is_some_and(|end| now < end + pause);
            self.in_period_before = if is_next { self.in_period } else { 0 };
            self.in_period = 0;
            self.period_ends = Some(now + pause);
        }
        if self.window_ends.is_none_or(|end| end <= now) {
            self.in_window = 0;
            self.window_ends = Some(now + pause / WINDOWS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    #[test]
    fn what_comes_evenly_is_left_alone() {
        let (mut pace, began) = (Pace::default(), Instant::now());
        for at in 0..1_000 {
            let early = pace.begin(TTL, began + at * TTL / 300);
            // Nothing is known about the first period.
            assert!(early.is_none() || at <= 100, "{at}");
        }
    }

    #[test]
    fn a_burst_is_spread_evenly_and_never_later() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        let mut early: Vec<_> = (0..1_008).filter_map(|_| pace.begin(TTL, now)).collect();
        early.sort();
        assert_eq!(early.len(), 1_000);
        assert!(early[0] >= TTL / 48 && early[999] <= TTL / 3);
        let widest = early.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(widest <= Some(3 * TTL / 3_000), "{widest:?}");
    }

    #[test]
    fn other_ttls_have_windows_of_their_own() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        for power in 0..20 {
            let ttl = Duration::from_millis(4) * 2_u32.pow(power);
            assert!((0..8).all(|_| pace.begin(ttl, now).is_none()));
        }
        assert_eq!(pace.begin(Duration::ZERO, now), None);
    }
}

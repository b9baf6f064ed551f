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

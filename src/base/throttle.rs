//! Fewer warnings while a failure goes on.

use std::time::Duration;

use tokio::time::Instant;

use crate::base::mutex::Mutex;

/// The longest time between two failures that belong together.
const TROUBLE: Duration = Duration::from_secs(10);

/// The shortest time between two warnings.
const SHORTEST: Duration = Duration::from_secs(1);

/// The longest time between two warnings.
const LONGEST: Duration = Duration::from_secs(60);

/// Admits a warning at once, and further ones while the failure goes on after pauses that double, from a second to a minute.
#[derive(Debug, Default)]
pub(crate) struct Throttle(Mutex<Failures>);

#[derive(Debug, Default)]
struct Failures {
    trouble: Option<Trouble>,
    /// The number of failures since the latest warning.
    left_out: u64,
}

#[derive(Clone, Copy, Debug)]
struct Trouble {
    began: Instant,
    latest: Instant,
    warned_next: Instant,
}

impl Throttle {
    /// Admits a warning of a failure at `now`, or returns `None`. An admitted warning names the number of failures that were
    /// left out before it.
    pub(crate) fn admit(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        let present = state.trouble.filter(|it| now < it.latest + TROUBLE);
        let began = present.map_or(now, |it| it.began);
        let is_warned = present.is_none_or(|it| it.warned_next <= now);
        let warned_next = match present {
            Some(it) if !is_warned => it.warned_next,
            _ => now + (now - began).clamp(SHORTEST, LONGEST),
        };
        state.trouble = Some(Trouble {
            began,
            latest: now,
            warned_next,
        });
        if is_warned {
            return Some(std::mem::take(&mut state.left_out));
        }
        state.left_out += 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_that_goes_on_is_warned_less_and_less_often() {
        let (throttle, begin) = (Throttle::default(), Instant::now());
        let millis = (0..1_000_u64).map(|at| 200 * at);
        let at = |at: u64| begin + Duration::from_millis(at);
        let said = millis.filter_map(|millis| Some((millis, throttle.admit(at(millis))?)));
        let (said, left_out): (Vec<_>, Vec<_>) = said.unzip();
        assert_eq!(
            said,
            [
                0, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 124_000, 184_000
            ]
        );
        assert_eq!(left_out, [0, 4, 4, 9, 19, 39, 79, 159, 299, 299]);
    }

    #[test]
    fn a_failure_after_a_while_is_warned_at_once() {
        let (throttle, begin) = (Throttle::default(), Instant::now());
        assert_eq!(throttle.admit(begin), Some(0));
        assert_eq!(throttle.admit(begin + SHORTEST / 2), None);
        assert_eq!(throttle.admit(begin + SHORTEST / 2 + TROUBLE), Some(1));
    }
}

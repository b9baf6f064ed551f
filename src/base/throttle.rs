//! What would be said again and again while something fails.

use std::time::Duration;

use tokio::time::Instant;

use crate::base::mutex::Mutex;

/// Failures further apart than this are not one trouble.
const TROUBLE: Duration = Duration::from_secs(10);

/// The shortest time between two warnings, and the longest.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// Lets a failure be said at once, and one that goes on each time after twice as long, from once a second to once a
/// minute.
#[derive(Debug, Default)]
pub(crate) struct Throttle(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    trouble: Option<Trouble>,
    /// How many failures were left out since one was said.
    left_out: u64,
}

#[derive(Clone, Copy, Debug)]
struct Trouble {
    began: Instant,
    latest: Instant,
    said_next: Instant,
}

impl Throttle {
    /// Whether a failure at this instant is said, and then how many were left out before it.
    pub(crate) fn admits(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        let present = state.trouble.filter(|it| now < it.latest + TROUBLE);
        let began = present.map_or(now, |it| it.began);
        let is_said = present.is_none_or(|it| it.said_next <= now);
        let said_next = match present {
            Some(it) if !is_said => it.said_next,
            _ => now + (now - began).clamp(SHORTEST, LONGEST),
        };
        state.trouble = Some(Trouble {
            began,
            latest: now,
            said_next,
        });
        if is_said {
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
    fn a_failure_that_goes_on_is_said_less_and_less_often() {
        let (throttle, begin) = (Throttle::default(), Instant::now());
        let millis = (0..1_000_u64).map(|at| 200 * at);
        let at = |at: u64| begin + Duration::from_millis(at);
        let said = millis.filter_map(|millis| Some((millis, throttle.admits(at(millis))?)));
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
    fn a_failure_after_a_while_is_said_at_once() {
        let (throttle, begin) = (Throttle::default(), Instant::now());
        assert_eq!(throttle.admits(begin), Some(0));
        assert_eq!(throttle.admits(begin + SHORTEST / 2), None);
        assert_eq!(throttle.admits(begin + SHORTEST / 2 + TROUBLE), Some(1));
    }
}

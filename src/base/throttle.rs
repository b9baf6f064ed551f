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
pub(crate) struct Throttle(Mutex<Option<Trouble>>);

#[derive(Clone, Copy, Debug)]
struct Trouble {
    began: Instant,
    latest: Instant,
    said_next: Instant,
}

impl Throttle {
    /// Whether a failure at this instant is to be said.
    pub(crate) fn admits(&self, now: Instant) -> bool {
        let mut trouble = self.0.lock();
        let present = trouble.filter(|it| now < it.latest + TROUBLE);
        let began = present.map_or(now, |it| it.began);
        let is_said = present.is_none_or(|it| it.said_next <= now);
        let said_next = match present {
            Some(it) if !is_said => it.said_next,
            _ => now + (now - began).clamp(SHORTEST, LONGEST),
        };
        *trouble = Some(Trouble {
            began,
            latest: now,
            said_next,
        });
        is_said
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_that_goes_on_is_said_less_and_less_often() {
        let (throttle, begin) = (Throttle::default(), Instant::now());
        let millis = (0..1_000_u64).map(|at| 200 * at);
        let said = millis.filter(|&at| throttle.admits(begin + Duration::from_millis(at)));
        assert_eq!(
            said.collect::<Vec<_>>(),
            [
                0, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 124_000, 184_000
            ]
        );
    }

    #[test]
    fn a_failure_after_a_while_is_said_at_once() {
        let (throttle, begin) = (Throttle::default(), Instant::now());
        assert!(throttle.admits(begin));
        assert!(!throttle.admits(begin + SHORTEST / 2));
        assert!(throttle.admits(begin + SHORTEST / 2 + TROUBLE));
    }
}

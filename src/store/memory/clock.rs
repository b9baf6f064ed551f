//! The clock of the in-memory store.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::base::time::StoreTime;

/// The maximum sum of all steps of the clock in either direction: ten years.
const ROOM: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The wall clock, which advances with the tokio clock: it stops when the tokio clock stops.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
    start_micros: u64,
    /// The offset of the clock from the tokio clock. It begins at [`ROOM`], so that the clock can be set back.
    ahead: Duration,
    /// The instant at which the clock was last read for a token, and that token.
    last: (u64, u64),
}

impl Clock {
    pub(super) fn new() -> Self {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            start: Instant::now(),
            start_micros: micros(since_epoch.saturating_sub(ROOM)),
            ahead: ROOM,
            last: (0, 0),
        }
    }

    pub(super) fn now(&self) -> Instant {
        Instant::now() + self.ahead
    }

    /// The time of the clock at an instant.
    pub(crate) fn at(&self, now: Instant) -> StoreTime {
        let passed = micros(now.saturating_duration_since(self.start));
        let micros = self.start_micros.saturating_add(passed);
        StoreTime { micros }
    }

    /// The time, as a token. Two tokens are at least one microsecond apart, as on a server, even while the tokio clock
    /// is paused.
    pub(super) fn token(&mut self, now: StoreTime) -> u64 {
        let (read, given) = self.last;
        let token = if (read..=given).contains(&now.micros) {
            given.saturating_add(1)
        } else {
            now.micros
        };
        self.last = (now.micros, token);
        token
    }
}

/// Faults that can happen to the clock of a real server.
#[cfg(any(test, feature = "test-util"))]
impl Clock {
    pub(super) fn step_forward(&mut self, by: Duration) {
        self.ahead = self.ahead.saturating_add(by).min(2 * ROOM);
    }

    pub(super) fn step_back(&mut self, by: Duration) {
        self.ahead = self.ahead.saturating_sub(by);
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

//! The pauses between two attempts at what must get through.

use std::{fmt, time::Duration};

use backon::{BackoffBuilder, ExponentialBuilder};

/// The pauses between two attempts at a request that must get through.
pub(crate) fn pauses() -> impl Iterator<Item = Duration> {
    growing_pauses(Duration::from_millis(500), 2.0)
}

/// Pauses that grow by `factor` from 10 ms to `longest`. The jitter adds up to as much again to each.
pub(crate) fn growing_pauses(
    longest: Duration,
    factor: f32,
) -> impl Iterator<Item = Duration> + Send {
    ExponentialBuilder::new()
        .with_min_delay(Duration::from_millis(10))
        .with_max_delay(longest)
        .with_factor(factor)
        .with_jitter()
        .without_max_times()
        .build()
}

/// Pauses that double, until they begin anew.
pub(crate) struct Pauses {
    longest: Duration,
    pauses: Box<dyn Iterator<Item = Duration> + Send>,
}

impl Pauses {
    pub(crate) fn new(longest: Duration) -> Self {
        Self {
            longest,
            pauses: Box::new(growing_pauses(longest, 2.0)),
        }
    }

    pub(crate) fn next(&mut self) -> Duration {
        self.pauses.next().unwrap_or(self.longest)
    }

    pub(crate) fn begin_anew(&mut self) {
        *self = Self::new(self.longest);
    }
}

impl fmt::Debug for Pauses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pauses")
            .field("longest", &self.longest)
            .finish_non_exhaustive()
    }
}

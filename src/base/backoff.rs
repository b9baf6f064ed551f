//! The pauses between two attempts at what must get through.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};

/// The pauses between two attempts at a request that must get through.
pub(crate) fn pauses() -> impl Iterator<Item = Duration> {
    growing_pauses(Duration::from_millis(500), 2.0)
}

/// Pauses that grow by `factor` from 10 ms to `longest`. The jitter adds up to as much again to each.
pub(crate) fn growing_pauses(longest: Duration, factor: f32) -> impl Iterator<Item = Duration> {
    ExponentialBuilder::new()
        .with_min_delay(Duration::from_millis(10))
        .with_max_delay(longest)
        .with_factor(factor)
        .with_jitter()
        .without_max_times()
        .build()
}

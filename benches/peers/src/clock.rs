//! A clock that two processes share.

use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC in µs.
pub(crate) fn now() -> f64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

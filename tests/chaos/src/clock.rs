//! A clock that all processes of one machine share.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC in ns.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    // Neither part is ever negative on this clock.
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) const SECOND: u64 = 1_000_000_000;

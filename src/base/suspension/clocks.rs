//! The clocks by whose difference a suspension shows.

#[cfg(test)]
use std::cell::Cell;
use std::time::Duration;

#[cfg(all(target_os = "linux", not(test)))]
use nix::time::{ClockId, clock_gettime};

/// How long the machine has been suspended since it was started.
#[cfg(all(target_os = "linux", not(test)))]
#[inline]
pub(super) fn asleep() -> Duration {
    let read = |clock| clock_gettime(clock).map_or(Duration::ZERO, Duration::from);
    let since_boot = read(ClockId::CLOCK_BOOTTIME);
    since_boot.saturating_sub(read(ClockId::CLOCK_MONOTONIC))
}

/// Nothing is known.
#[cfg(not(any(target_os = "linux", test)))]
pub(super) fn asleep() -> Duration {
    Duration::ZERO
}

#[cfg(test)]
thread_local! {
    static ASLEEP: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// How long the test on this thread has suspended its machine.
#[cfg(test)]
pub(super) fn asleep() -> Duration {
    ASLEEP.get()
}

/// Suspends the machine of the test on this thread for so long.
#[cfg(test)]
pub(crate) fn suspend(by: Duration) {
    ASLEEP.set(ASLEEP.get() + by);
}

//! The clocks whose difference shows a suspension.

#[cfg(test)]
use std::cell::Cell;
#[cfg(test)]
use std::time::Duration;

#[cfg(all(target_os = "linux", not(test)))]
use nix::sys::time::TimeValLike;
#[cfg(all(target_os = "linux", not(test)))]
use nix::time::{ClockId, clock_gettime};

/// How long the machine has been suspended since it was started, in ns.
#[cfg(all(target_os = "linux", not(test)))]
#[inline]
pub(super) fn asleep() -> i64 {
    let read = |clock| clock_gettime(clock).map_or(0, |time| time.num_nanoseconds());
    let since_boot = read(ClockId::CLOCK_BOOTTIME);
    since_boot - read(ClockId::CLOCK_MONOTONIC)
}

/// Always 0, because this system has no such clock.
#[cfg(not(any(target_os = "linux", test)))]
pub(super) fn asleep() -> i64 {
    0
}

#[cfg(test)]
thread_local! {
    static ASLEEP: Cell<i64> = const { Cell::new(0) };
}

/// How long the test on this thread has suspended its machine.
#[cfg(test)]
pub(super) fn asleep() -> i64 {
    ASLEEP.get()
}

/// Suspends the machine of the test on this thread for the time `by`.
#[cfg(test)]
pub(crate) fn suspend(by: Duration) {
    let nanos = i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
    ASLEEP.set(ASLEEP.get().saturating_add(nanos));
}

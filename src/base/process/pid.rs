//! The id of this process in the operating system.

#[cfg(test)]
use std::cell::Cell;
use std::process;

/// The id of this process. It is read anew each time, because a fork changes it.
#[cfg(not(test))]
pub(super) fn pid() -> u32 {
    process::id()
}

#[cfg(test)]
thread_local! {
    static IN_FORK: Cell<bool> = const { Cell::new(false) };
}

/// The id of the process that the test on this thread is in.
#[cfg(test)]
pub(super) fn pid() -> u32 {
    process::id() + u32::from(IN_FORK.get())
}

/// Calls `work` as if it ran in a fork of this process, which has a copy of everything in memory.
#[cfg(test)]
pub(crate) fn in_a_fork<T>(work: impl FnOnce() -> T) -> T {
    IN_FORK.set(true);
    let done = work();
    IN_FORK.set(false);
    done
}

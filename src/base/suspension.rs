//! Whether the machine was suspended. During a suspension the clock of tokio stands still, and with it every deadline,
//! but the clock of the server does not.
//!
//! In addition to CLOCK_MONOTONIC, the clock of [`Instant`](std::time::Instant), Linux has CLOCK_BOOTTIME, which
//! includes suspensions. The difference of the two clocks grows with each suspension. On other systems, this module
//! detects nothing.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::sync::Mutex;
#[cfg(test)]
pub(crate) use clocks::suspend;

mod clocks;

/// The least difference that counts, in ns. A shorter one may come from the time between the two readings.
const LEAST: i64 = 100_000_000;

/// A component that must be informed of suspensions.
pub(crate) trait Suspended: Send + Sync {
    /// The machine was suspended for `by`, some time before `now`.
    fn suspended(&self, by: Duration, now: Instant);
}

/// The suspensions that were detected, and the components that are informed of the next ones.
struct Suspensions {
    /// How long the machine was suspended in total, in ns.
    noticed: AtomicI64,
    told: Mutex<Vec<Weak<dyn Suspended>>>,
}

impl Suspensions {
    fn new() -> Self {
        // A pause between two readings makes their difference smaller.
        let known = (0..8).map(|_| clocks::asleep()).max();
        Self {
            noticed: AtomicI64::new(known.unwrap_or_default()),
            told: Mutex::new(Vec::new()),
        }
    }

    #[inline]
    fn look(&self) {
        let asleep = clocks::asleep();
        if asleep.saturating_sub(self.noticed.load(Relaxed)) >= LEAST {
            self.report(asleep);
        }
    }

    /// Reports a suspension once, even if several checks detect it.
    #[cold]
    fn report(&self, asleep: i64) {
        let by = asleep.saturating_sub(self.noticed.fetch_max(asleep, Relaxed));
        if by >= LEAST {
            // The mutex is not held while they are informed. A loss runs foreign code, which may create another
            // `Locks`.
            let told = self.told.lock().clone();
            let by = Duration::from_nanos(by.unsigned_abs());
            let now = Instant::now();
            for it in told.iter().filter_map(Weak::upgrade) {
                it.suspended(by, now);
            }
        }
    }
}

/// Informs `it` of every suspension from now on.
pub(crate) fn tell(it: &Arc<impl Suspended + 'static>) {
    let it: Weak<dyn Suspended> = Arc::downgrade(it) as _;
    this(|suspensions| {
        let mut told = suspensions.told.lock();
        told.retain(|it| it.strong_count() > 0);
        told.push(it);
    });
}

/// Checks whether the machine was suspended since the last check. When it returns, all components have been informed,
/// unless a check on another thread is in progress.
#[inline]
pub(crate) fn look() {
    this(Suspensions::look);
}

#[cfg(not(test))]
fn this<T>(work: impl FnOnce(&Suspensions) -> T) -> T {
    static THIS: LazyLock<Suspensions> = LazyLock::new(Suspensions::new);
    work(&THIS)
}

/// Each test has its own thread, and so its own suspensions.
#[cfg(test)]
fn this<T>(work: impl FnOnce(&Suspensions) -> T) -> T {
    thread_local! {
        static THIS: LazyLock<Suspensions> = LazyLock::new(Suspensions::new);
    }
    THIS.with(|this| work(this))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    /// A component that creates another component when it is informed.
    #[derive(Default)]
    struct Maker {
        told: AtomicU32,
    }

    impl Suspended for Maker {
        fn suspended(&self, _by: Duration, _now: Instant) {
            self.told.fetch_add(1, Relaxed);
            tell(&Arc::new(Self::default()));
        }
    }

    #[test]
    fn what_is_told_may_make_something_that_has_to_know() {
        let maker = Arc::new(Maker::default());
        tell(&maker);
        suspend(Duration::from_secs(1));
        look();
        look();
        assert_eq!(maker.told.load(Relaxed), 1);
    }
}

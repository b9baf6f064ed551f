//! Whether the machine was suspended. Then the clock of tokio, and with it every deadline, has stood still, and the clock of the
//! server has not.
//!
//! Linux has a clock that includes that time, CLOCK_BOOTTIME, beside the one of [`Instant`](std::time::Instant), CLOCK_MONOTONIC. Their
//! difference grows by it. On other systems nothing is noticed here.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::sync::Mutex;
#[cfg(test)]
pub(crate) use clocks::suspend;

mod clocks;

/// A shorter difference, in ns, may be that of the two readings.
const LEAST: i64 = 100_000_000;

/// What has to know of suspensions.
pub(crate) trait Suspended: Send + Sync {
    /// The machine was suspended for so long, some time before `now`.
    fn suspended(&self, by: Duration, now: Instant);
}

/// The suspensions that were noticed, and what must learn of the next ones.
struct Suspensions {
    /// How long the machine was suspended altogether, in ns.
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

    /// Of several looks that notice a suspension, one reports it.
    #[cold]
    fn report(&self, asleep: i64) {
        let by = asleep.saturating_sub(self.noticed.fetch_max(asleep, Relaxed));
        if by >= LEAST {
            // They are told without the mutex: a loss runs foreign code, which may make a further `Locks`.
            let told = self.told.lock().clone();
            let by = Duration::from_nanos(by.unsigned_abs());
            let now = Instant::now();
            for it in told.iter().filter_map(Weak::upgrade) {
                it.suspended(by, now);
            }
        }
    }
}

/// Tells `it` of every suspension from now on.
pub(crate) fn tell(it: &Arc<impl Suspended + 'static>) {
    let it: Weak<dyn Suspended> = Arc::downgrade(it) as _;
    this(|suspensions| {
        let mut told = suspensions.told.lock();
        told.retain(|it| it.strong_count() > 0);
        told.push(it);
    });
}

/// Looks whether the machine was suspended since the last look. When it returns, all have been told,
/// unless a look on another thread is under way.
#[inline]
pub(crate) fn look() {
    this(Suspensions::look);
}

#[cfg(not(test))]
fn this<T>(work: impl FnOnce(&Suspensions) -> T) -> T {
    static THIS: LazyLock<Suspensions> = LazyLock::new(Suspensions::new);
    work(&THIS)
}

/// Each test, which has a thread, has suspensions of its own.
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

    /// Makes something else that has to know when it is told.
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

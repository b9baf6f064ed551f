//! Whether the machine was suspended. Then the clock of tokio, and with it every deadline, has stood still, and the clock of the
//! server has not.
//!
//! Linux has a clock that includes that time, CLOCK_BOOTTIME, beside the one of [`Instant`](std::time::Instant), CLOCK_MONOTONIC. Their
//! difference grows by it. On other systems nothing is noticed here.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::sync::Mutex;
#[cfg(test)]
pub(crate) use clocks::suspend;

mod clocks;

/// A shorter difference may be that of the two readings.
const LEAST: Duration = Duration::from_millis(100);

/// What has to know of suspensions.
pub(crate) trait Suspended: Send + Sync {
    /// The machine was suspended for so long, some time before `now`.
    fn suspended(&self, by: Duration, now: Instant);
}

/// The suspensions that were noticed, and what must learn of the next ones.
struct Suspensions {
    /// How long the machine was suspended altogether, in ms.
    noticed: AtomicU64,
    told: Mutex<Vec<Weak<dyn Suspended>>>,
}

impl Suspensions {
    fn new() -> Self {
        // A pause between two readings makes their difference smaller.
        let known = (0..8).map(|_| clocks::asleep()).max();
        Self {
            noticed: AtomicU64::new(millis(known.unwrap_or_default())),
            told: Mutex::new(Vec::new()),
        }
    }

    fn look(&self) {
        let asleep = millis(clocks::asleep());
        if asleep.saturating_sub(self.noticed.load(Relaxed)) >= millis(LEAST) {
            self.tell(asleep);
        }
    }

    /// Of several looks that notice a suspension, one reports it.
    #[cold]
    fn tell(&self, asleep: u64) {
        let mut told = self.told.lock();
        let by = asleep.saturating_sub(self.noticed.fetch_max(asleep, Relaxed));
        told.retain(|it| it.strong_count() > 0);
        let told = told.clone();
        let (by, now) = (Duration::from_millis(by), Instant::now());
        if by >= LEAST {
            for it in told.iter().filter_map(Weak::upgrade) {
                it.suspended(by, now);
            }
        }
    }
}

/// Tells `it` of every suspension from now on.
pub(crate) fn tell(it: &Arc<impl Suspended + 'static>) {
    let it: Weak<dyn Suspended> = Arc::downgrade(it) as _;
    this(|suspensions| suspensions.told.lock().push(it));
}

/// Looks whether the machine was suspended since the last look. When it returns, all have been told,
/// unless a look on another thread is under way.
#[inline]
pub(crate) fn look() {
    this(Suspensions::look);
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
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

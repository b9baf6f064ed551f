//! The times of a lease, both in the store, on the clock of the server, and here, on a monotonic clock. The deadline is
//! the instant until which the lock is certain to be held (P5).
//!
//! A lease counts from the instant *before* the request was sent that acquired or renewed it, less a margin for clocks
//! that run at different rates. So it expires here before it expires in the store, however long the request and its
//! response were on their way. See Gray and Cheriton, [*Leases*](https://doi.org/10.1145/74850.74870), 1989.

use std::time::Duration;

use tokio::time::Instant;

use super::timer::after;

/// A time on the clock of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StoreTime {
    pub(crate) micros: u64,
}

impl StoreTime {
    /// The time since an earlier time. `None` if the other time is later, which happens only if the clock was set back.
    pub(crate) fn since(self, earlier: Self) -> Option<Duration> {
        self.micros
            .checked_sub(earlier.micros)
            .map(Duration::from_micros)
    }

    /// The time that is `span` later.
    pub(crate) fn after(self, span: Duration) -> Self {
        let span = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let micros = self.micros.saturating_add(span);
        Self { micros }
    }
}

/// A renewal is due after this part of the TTL, so that two more fit into the lease if it fails.
pub(crate) const RENEWALS_PER_TTL: u32 = 3;

/// A lease that is shorter than its TTL, after a hand-off, is renewed after this part of it. A short section ends before
/// that.
pub(crate) const RENEWALS_PER_SHORT_LEASE: u32 = 4;

// Otherwise a full lease would be taken for a short one, and its renewals would never meet those of others.
const _: () = assert!(RENEWALS_PER_TTL < RENEWALS_PER_SHORT_LEASE);

/// The minimum margin. The margin of a longer lease is 1 % of it.
const MIN_MARGIN: Duration = Duration::from_millis(5);

/// How much longer a lease lasts in the store than here, at least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Grace {
    millis: u32,
}

impl Grace {
    /// No more than the margin for the clocks.
    pub(crate) const NONE: Self = Self { millis: 0 };

    /// A grace in whole milliseconds, rounded up.
    pub(crate) fn new(grace: Duration) -> Self {
        let millis = grace.as_nanos().div_ceil(1_000_000);
        let millis = u32::try_from(millis).unwrap_or(u32::MAX);
        Self { millis }
    }

    pub(crate) fn duration(self) -> Duration {
        Duration::from_millis(self.millis.into())
    }
}

/// The deadline of a lease that was requested at `sent`.
#[inline]
pub(crate) fn deadline(sent: Instant, lease: Duration, grace: Grace) -> Instant {
    let mut margin = MIN_MARGIN.max(lease / 100);
    // Not in addition: the margin for the clocks is a part of the grace.
    if grace > Grace::NONE {
        margin = margin.max(grace.duration());
    }
    after(sent, lease.saturating_sub(margin))
}

/// The times of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseTimes {
    /// The length that renewals request.
    pub(crate) ttl: Duration,
    /// The time at which the request was sent that last confirmed the lease.
    pub(crate) confirmed: Instant,
    pub(crate) renewal_due: Instant,
    pub(crate) deadline: Instant,
}

impl LeaseTimes {
    /// A lease of this length that counts from `sent`.
    #[inline]
    pub(crate) fn new(sent: Instant, length: Duration, ttl: Duration, grace: Grace) -> Self {
        // A lock that has moved here has a short lease. The grace is no part of what can be used of it.
        let pause = if length < ttl {
            length.saturating_sub(grace.duration()) / RENEWALS_PER_SHORT_LEASE
        } else {
            ttl / RENEWALS_PER_TTL
        };
        Self {
            ttl,
            confirmed: sent,
            renewal_due: after(sent, pause),
            deadline: deadline(sent, length, grace),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const NONE: Grace = Grace::NONE;

    #[tokio::test(start_paused = true)]
    async fn the_deadline_lies_before_the_end_of_the_lease() {
        let sent = Instant::now();
        assert_eq!(
            deadline(sent, 10 * SECOND, NONE),
            sent + Duration::from_millis(9900)
        );
        assert_eq!(
            deadline(sent, SECOND / 10, NONE),
            sent + Duration::from_millis(95)
        );
        assert_eq!(deadline(sent, Duration::ZERO, NONE), sent);
    }

    #[tokio::test(start_paused = true)]
    async fn a_grace_is_the_margin_if_it_is_longer() {
        let sent = Instant::now();
        assert_eq!(
            deadline(sent, 30 * SECOND, Grace::new(4 * SECOND)),
            sent + 26 * SECOND
        );
        let drift = Grace::new(Duration::from_micros(900));
        assert_eq!(deadline(sent, SECOND, drift), deadline(sent, SECOND, NONE));
        // A short lease after a hand-off is renewed before its deadline.
        let times = LeaseTimes::new(sent, 6 * SECOND, 30 * SECOND, Grace::new(4 * SECOND));
        assert_eq!(times.renewal_due, sent + SECOND / 2);
        assert_eq!(times.deadline, sent + 2 * SECOND);
    }
}

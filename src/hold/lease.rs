//! How long a hold may rely on its lock: a deadline on the local clock.

use std::{sync::MutexGuard, time::Duration};

use tokio::{select, sync::Notify, time::Instant};

use crate::{
    base::{error::LostReason, events, id::HoldId, key::LockKey, mutex::Mutex, timer::sleep_until},
    queue::Leased,
};

/// The lease of one hold. Once lost it stays lost, whatever answers arrive later.
#[derive(Debug)]
pub(crate) struct Lease {
    key: LockKey,
    hold: HoldId,
    state: Mutex<State>,
    lost: Notify,
}

#[derive(Debug)]
struct State {
    ttl: Duration,
    /// The longest TTL that a re-entry may ask for.
    max_ttl: Duration,
    /// When the request was sent that last confirmed the lease.
    confirmed: Instant,
    renewal_due: Instant,
    deadline: Instant,
    /// The end of `max_hold`.
    end: Option<Instant>,
    lost: Option<LostReason>,
    /// Whether the hold has ended; what was not lost by then never is.
    ended: bool,
}

impl Lease {
    pub(crate) fn new(
        key: LockKey,
        hold: HoldId,
        leased: Leased,
        max_hold: Option<Duration>,
    ) -> Self {
        let Leased {
            ttl,
            confirmed,
            length,
            renewal_due,
            deadline,
        } = leased;
        // An end too far to represent is none.
        let end = max_hold.and_then(|max_hold| confirmed.checked_add(max_hold));
        // A hold that the first lease covers ends with it, margin and all: it is never renewed.
        let is_covered = max_hold.is_some_and(|max_hold| max_hold <= length);
        let state = State {
            ttl,
            max_ttl: max_hold.unwrap_or(Duration::MAX),
            confirmed,
            renewal_due,
            deadline,
            end: end.map(|end| if is_covered { end.min(deadline) } else { end }),
            lost: None,
            ended: false,
        };
        Self {
            key,
            hold,
            state: Mutex::new(state),
            lost: Notify::new(),
        }
    }

    pub(crate) fn key(&self) -> &LockKey {
        &self.key
    }

    pub(crate) fn hold(&self) -> HoldId {
        self.hold
    }

    /// The length to renew to.
    pub(crate) fn ttl(&self) -> Duration {
        self.state.lock().ttl
    }

    /// Renewals ask for at least `ttl` from now on. Returns whether that is longer than before.
    pub(crate) fn raise_ttl(&self, ttl: Duration) -> bool {
        let mut state = self.state.lock();
        // The lock must not outlive `max_hold` by more than the hold itself could.
        let ttl = ttl.min(state.max_ttl);
        let longer = ttl > state.ttl;
        state.ttl = state.ttl.max(ttl);
        longer
    }

    /// The hold is over: the lease may run out from now on without being lost.
    pub(crate) fn end(&self) {
        self.lost_by(Instant::now());
        self.state.lock().ended = true;
    }

    /// The release of the hold found that the lock had been lost before.
    pub(crate) fn found_lost(&self, reason: LostReason) {
        let state = self.state.lock();
        self.mark(state, reason);
    }

    /// Every loss passes through here: the first reason stands, and is reported once.
    fn mark(&self, mut state: MutexGuard<'_, State>, reason: LostReason) {
        let first = state.lost.is_none();
        state.lost.get_or_insert(reason);
        drop(state);
        if first {
            events::lost(&self.key, self.hold, reason);
        }
        self.lost.notify_waiters();
    }

    /// When the lease ends unless it is renewed.
    pub(crate) fn deadline(&self) -> Instant {
        let state = self.state.lock();
        state
            .end
            .map_or(state.deadline, |end| end.min(state.deadline))
    }

    /// When the next renewal is due: a third of the TTL that was last confirmed after it was, whatever TTL the
    /// next one asks for. `None` where the lease already reaches to the end of `max_hold`.
    pub(crate) fn renewal_due(&self) -> Option<Instant> {
        let state = self.state.lock();
        let enough = state.end.is_some_and(|end| end <= state.deadline);
        (!enough).then_some(state.renewal_due)
    }

    /// What the next turn of the hold is given.
    pub(crate) fn leased(&self) -> Leased {
        let state = self.state.lock();
        Leased {
            ttl: state.ttl,
            confirmed: state.confirmed,
            length: state.ttl,
            renewal_due: state.renewal_due,
            deadline: state.deadline,
        }
    }

    /// Whether another call graph may go on with it: it has no end of its own, and is not lost.
    pub(crate) fn is_open(&self) -> bool {
        let state = self.state.lock();
        state.end.is_none() && state.lost.is_none()
    }

    /// The store confirmed that the lease lasts `ttl` from a request that was sent at `sent`.
    ///
    /// A confirmation that comes after the deadline is too late: the lock counted as lost by then.
    pub(crate) fn confirm(&self, sent: Instant, ttl: Duration) {
        if self.lost_by(Instant::now()).is_none() {
            let mut state = self.state.lock();
            let confirmed = Leased::new(sent, ttl, ttl);
            state.confirmed = state.confirmed.max(sent);
            state.renewal_due = state.renewal_due.max(confirmed.renewal_due);
            state.deadline = state.deadline.max(confirmed.deadline);
        }
    }

    /// Marks the lock as lost; the first reason stands.
    pub(crate) fn lose(&self, reason: LostReason) {
        let state = self.state.lock();
        if !state.ended {
            self.mark(state, reason);
        }
    }

    /// How the lock was lost at the instant `now`, if it was.
    pub(crate) fn lost_by(&self, now: Instant) -> Option<LostReason> {
        let state = self.state.lock();
        if state.lost.is_some() || state.ended {
            return state.lost;
        }
        let reason = match state.end {
            Some(end) if now >= end => LostReason::MaxHold,
            _ if now >= state.deadline => LostReason::Unconfirmed,
            _ => return None,
        };
        self.mark(state, reason);
        Some(reason)
    }

    /// Resolves when the lock is lost, and never otherwise. It sees the deadline pass by itself, since
    /// the watchdog may live in a runtime that stands still.
    pub(crate) async fn until_lost(&self) -> LostReason {
        loop {
            let notified = self.lost.notified();
            tokio::pin!(notified);
            // Registered before the check, so that a loss between the two still wakes us.
            notified.as_mut().enable();
            if let Some(reason) = self.lost_by(Instant::now()) {
                return reason;
            }
            let ended = self.state.lock().ended;
            select! {
                biased;
                () = notified => {}
                () = sleep_until(self.deadline()), if !ended => {}
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends where its ground gives way")]
mod tests {
    use super::*;
    use crate::base::id::Owner;

    const SECOND: Duration = Duration::from_secs(1);

    fn of(sent: Instant, lease: Duration, ttl: Duration, max_hold: Option<Duration>) -> Lease {
        let key = LockKey::new("", "order:42").unwrap();
        let leased = Leased::new(sent, lease, ttl);
        Lease::new(key, Owner::new().next_hold(), leased, max_hold)
    }

    #[tokio::test(start_paused = true)]
    async fn a_confirmation_after_the_deadline_does_not_bring_the_lock_back() {
        let lease = of(Instant::now(), SECOND, SECOND, None);
        let sent = Instant::now() + SECOND / 2;
        tokio::time::advance(SECOND).await;
        lease.confirm(sent, 10 * SECOND);
        assert_eq!(lease.lost_by(Instant::now()), Some(LostReason::Unconfirmed));
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_is_noticed_without_a_watchdog() {
        let lease = of(Instant::now(), SECOND, SECOND, None);
        let deadline = lease.deadline();
        assert_eq!(lease.until_lost().await, LostReason::Unconfirmed);
        assert!(Instant::now() < deadline + SECOND / 100);
    }

    #[tokio::test(start_paused = true)]
    async fn a_confirmation_never_shortens_the_lease() {
        let sent = Instant::now();
        let lease = of(sent, 10 * SECOND, 10 * SECOND, None);
        let before = lease.deadline();
        lease.confirm(sent, SECOND);
        assert_eq!(lease.deadline(), before);
    }

    #[tokio::test(start_paused = true)]
    async fn a_re_entry_lengthens_the_lease_to_max_hold_at_most() {
        let lease = of(Instant::now(), SECOND, SECOND, Some(3 * SECOND));
        assert!(lease.raise_ttl(10 * SECOND));
        assert_eq!(lease.ttl(), 3 * SECOND);
        assert!(!lease.raise_ttl(10 * SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_that_passed_unseen_counts_at_the_end() {
        let lease = of(Instant::now(), SECOND, SECOND, None);
        tokio::time::advance(SECOND).await;
        lease.end();
        assert_eq!(lease.lost_by(Instant::now()), Some(LostReason::Unconfirmed));
    }

    #[tokio::test(start_paused = true)]
    async fn max_hold_ends_the_lease_and_the_renewals() {
        let lease = of(Instant::now(), SECOND, SECOND, Some(SECOND / 2));
        assert_eq!(lease.renewal_due(), None);
        tokio::time::advance(SECOND / 2).await;
        assert_eq!(lease.until_lost().await, LostReason::MaxHold);
    }
}

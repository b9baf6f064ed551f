//! How a program ends: it acquires no more locks, and releases all locks that it holds.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use crate::api::locks::Locks;
use crate::base::events;
use crate::base::sanitize::Sanitized;
use crate::base::timer::timeout;
use crate::hold::core::Core;

/// The time until the first event `closing`, which lists what keeps a `Locks` open. Each further event follows after
/// twice the time.
const FIRST_REPORT_AFTER: Duration = Duration::from_secs(5);

/// The interval at which guards are checked for lost locks.
const GUARD_CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl Locks {
    /// Ends a program in order: no more locks are acquired, bodies finish, and all releases are answered.
    ///
    /// From now on, acquisitions of all clones fail with [`LockError::Closed`](crate::LockError::Closed), those that
    /// wait included. Bodies can re-enter the locks that they hold. [Leaders](crate::LockRequest::lead) end
    /// immediately. Without this call, background work ends with the runtime: a lock whose guard is dropped in the last
    /// line of `main` is held until its lease expires.
    ///
    /// At `limit`, bodies that still run are dropped as if their locks were lost, with
    /// [`LostReason::Closed`](crate::LostReason::Closed), and the locks are released. The call takes the response
    /// timeout longer at most. Then the report lists what stays held until its lease expires: the lock of a guard that
    /// is kept, or of a body with [`OnLost::KeepRunning`](crate::OnLost::KeepRunning), and one whose release Redis
    /// rejected or did not answer. A lock that is only held for its [`min_hold`](crate::LockRequest::min_hold) is
    /// awaited too, left to its lease at the limit, and not in the report.
    ///
    /// Call it as soon as a service must shut down, and await requests or jobs after that, so that those that wait for
    /// a lock do not delay the end: see [services](crate::guide::services#shutting-down). Inside a body it waits for
    /// itself, until the limit. After 5 s, and then each time it has waited twice as long, the event `closing` names
    /// what it waits for.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the `Locks` closed. Background work continues.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let body = tokio::spawn(locks.with_lock("order:42", std::future::pending::<()>()));
    /// # tokio::task::yield_now().await;
    /// let report = locks.close(Duration::from_millis(10)).await;
    /// assert!(report.is_clean(), "{report}");
    /// let ended = body.await.expect("it does not panic");
    /// assert!(ended.unwrap_err().is_closed());
    /// assert!(locks.lock("order:42").await.unwrap_err().is_closed());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn close(&self, limit: Duration) -> CloseReport {
        let core = &self.engine.core;
        // Waiters and leaders end now. Bodies end by themselves until the limit, and then as after a loss.
        core.queues.close();
        if timeout(limit, await_idle(core)).await.is_err() {
            // The limit is over: whatever still holds a lock loses it.
            core.holds().iter().for_each(|hold| hold.close());
            // The report lists what is not done by then.
            let _ = timeout(core.response_timeout, await_idle(core)).await;
        }
        // Before the connections are closed, because that ends what is still in flight.
        let report = CloseReport::new(core);
        core.store.close();
        events::closed(report.still_held.len(), report.in_flight);
        report
    }
}

/// Resolves when nothing is left except guards whose locks are lost. Periodically emits an event that lists what it is
/// waiting for.
async fn await_idle(core: &Core) {
    let in_flight = &core.queues.in_flight;
    let (begun, mut reported_after) = (Instant::now(), FIRST_REPORT_AFTER);
    loop {
        // Counted first, so that a hold that ends in the meantime still counts while its release is in progress.
        let count = in_flight.count();
        let holds = core.holds();
        // A guard cannot be ended. Once its lock is lost, no other caller waits for it.
        let lost = holds.iter().filter(|hold| hold.is_left_to_guards());
        if count <= lost.count() {
            return;
        }
        let waited = begun.elapsed();
        if waited >= reported_after {
            // Twice as late each time, so that a long wait writes few reports.
            reported_after *= 2;
            let left = CloseReport::new(core);
            events::closing(waited, &left.still_held, left.in_flight);
        }
        // A loss wakes no waiter here, so the guards are checked at an interval.
        let _ = timeout(GUARD_CHECK_INTERVAL, in_flight.wait_until_idle()).await;
    }
}

/// A report of what was left when a [`Locks`] was closed.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let locks = reentry::Locks::in_memory();
/// let report = locks.close(std::time::Duration::from_secs(1)).await;
/// println!("{report}"); // nothing is left
/// # assert_eq!(report.to_string(), "nothing is left");
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseReport {
    still_held: Vec<String>,
    in_flight: usize,
    abandoned: Vec<String>,
}

impl CloseReport {
    fn new(core: &Core) -> Self {
        let count = core.queues.in_flight.count();
        let holds = core.holds();
        let held = holds.iter().filter(|hold| hold.may_be_held());
        let mut still_held: Vec<_> = held.map(|hold| hold.key().name().to_owned()).collect();
        still_held.sort_unstable();
        Self {
            still_held,
            // Each hold is counted as well, and is listed by itself.
            in_flight: count.saturating_sub(holds.len()),
            abandoned: core.queues.abandoned(),
        }
    }

    /// Returns whether nothing is left.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.still_held.is_empty() && self.in_flight == 0 && self.abandoned.is_empty()
    }

    /// Returns the keys of the locks that are still held, sorted, without the prefix.
    #[must_use]
    pub fn still_held(&self) -> &[String] {
        &self.still_held
    }

    /// Returns the number of acquisitions and releases that are still in progress.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Returns the keys of the locks whose release Redis rejected, or did not answer in time, sorted, without the
    /// prefix. Each of them is held until its lease expires.
    #[must_use]
    pub fn abandoned(&self) -> &[String] {
        &self.abandoned
    }
}

impl fmt::Display for CloseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        parts.extend(listed(&self.still_held, "lock is held", "locks are held"));
        match self.in_flight {
            0 => {}
            1 => parts.push("1 acquisition or release is in flight".to_owned()),
            count => parts.push(format!("{count} acquisitions and releases are in flight")),
        }
        let (one, several) = ("release failed", "releases failed");
        parts.extend(listed(&self.abandoned, one, several));
        if parts.is_empty() {
            return f.write_str("nothing is left");
        }
        f.write_str(&parts.join(", "))
    }
}

/// Returns the number of keys and their names as text, or `None` if there are no keys.
fn listed(keys: &[String], one: &str, several: &str) -> Option<String> {
    let words = if keys.len() == 1 { one } else { several };
    let text = || format!("{} {words} ({})", keys.len(), Sanitized(keys.join(", ")));
    (!keys.is_empty()).then(text)
}

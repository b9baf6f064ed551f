//! How a program ends: no lock is taken any more, and all held locks are released.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use crate::api::engine::Engine;
use crate::api::locks::Locks;
use crate::base::error::LostReason;
use crate::base::events;
use crate::base::timer::timeout;

/// The time until the first event `closing`, which says what keeps a `Locks` open. Each further event follows after
/// twice the time.
const TOLD_AFTER: Duration = Duration::from_secs(5);

/// The interval at which guards are checked for lost locks.
const LOOKS: Duration = Duration::from_secs(1);

impl Locks {
    /// Takes no more locks, and waits until all that are held have been released.
    ///
    /// From now on acquisitions fail with [`LockError::Closed`](crate::LockError::Closed), in all clones, including
    /// acquisitions that already wait. Bodies finish: they re-enter the locks that they hold, and take no others.
    /// [Leaders](Self::leader) resign at once. Work in the background, for example the release of a guard that was
    /// dropped, is awaited. Then the connections are closed.
    ///
    /// Without this call, work in the background ends with the runtime: a lock whose guard is dropped in the last line
    /// of `main` is held until its lease expires.
    ///
    /// This call waits for as long as a body runs, a guard is kept, or the store fails. So it never ends inside a body,
    /// or while its caller keeps a guard. The event `closing` says after 5 s what it waits for, and again each time it
    /// has waited for twice as long. It does not wait for a guard whose lock is lost.
    /// [`close_within`](Self::close_within) has a time limit.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the `Locks` closed. Work in the background continues.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let guard = locks.lock("order:42").await?;
    /// drop(guard);
    /// assert!(locks.close().await.is_clean());
    /// assert!(locks.lock("order:42").await.unwrap_err().is_closed());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn close(&self) -> CloseReport {
        self.engine().close(None).await
    }

    /// Closes as [`close`](Self::close) does, but drops bodies that are still running after `limit`, and releases their
    /// locks.
    ///
    /// Such a body ends as if its lock were lost, with [`LostReason::Closed`](crate::LostReason::Closed). The call
    /// returns at the latest after `limit` and, for what is released then, the response timeout. The report shows what
    /// is left then and is held until its lease expires: a guard that is kept, a body with
    /// [`OnLost::KeepRunning`](crate::OnLost::KeepRunning), a lock that the store did not release in time, or refused
    /// to release.
    ///
    /// A service calls this method as soon as it should end, and awaits its requests or jobs after that. So requests
    /// that wait for a lock do not delay the end of the service. In the repository, `cargo run --example axum_orders`
    /// shows it for a web service, and `cargo run --example worker` for jobs.
    ///
    /// # Cancel safety
    ///
    /// As for [`close`](Self::close).
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
    /// let report = locks.close_within(Duration::from_millis(10)).await;
    /// assert!(report.is_clean(), "{report}");
    /// let ended = body.await.expect("it does not panic");
    /// assert!(ended.unwrap_err().is_closed());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn close_within(&self, limit: Duration) -> CloseReport {
        self.engine().close(Some(limit)).await
    }
}

impl Engine {
    async fn close(&self, limit: Option<Duration>) -> CloseReport {
        let renewals = self.renewals();
        renewals.queues().close();
        match limit {
            None => self.until_over().await,
            Some(limit) => {
                if timeout(limit, self.until_over()).await.is_err() {
                    let holds = renewals.holds();
                    holds.iter().for_each(|hold| hold.lose(LostReason::Closed));
                    let limit = renewals.response_timeout();
                    // The report shows what is not done by then.
                    let _ = timeout(limit, self.until_over()).await;
                }
            }
        }
        let report = self.left();
        self.store().close();
        events::closed(report.still_held.len(), report.in_flight);
        report
    }

    /// Resolves when nothing is left except guards whose locks are lost. Emits an event from time to time that says
    /// what it waits for.
    async fn until_over(&self) {
        let activity = self.renewals().queues().activity();
        let (begun, mut told_after) = (Instant::now(), TOLD_AFTER);
        loop {
            // Counted first, so that a hold that ends in between still counts while its release is under way.
            let count = activity.count();
            let holds = self.renewals().holds();
            let lost = holds.iter().filter(|hold| hold.is_left_to_guards());
            if count <= lost.count() {
                return;
            }
            let waited = begun.elapsed();
            if waited >= told_after {
                told_after *= 2;
                let left = self.left();
                events::closing(waited, &left.still_held, left.in_flight);
            }
            // A loss wakes no waiter here, so the guards are checked at an interval.
            let _ = timeout(LOOKS, activity.until_over()).await;
        }
    }

    fn left(&self) -> CloseReport {
        let queues = self.renewals().queues();
        let count = queues.activity().count();
        let holds = self.renewals().holds();
        let held = holds.iter().filter(|hold| hold.may_be_held());
        let mut still_held: Vec<_> = held.map(|hold| hold.key().name().to_owned()).collect();
        still_held.sort_unstable();
        CloseReport {
            still_held,
            in_flight: count.saturating_sub(holds.len()),
            abandoned: queues.abandoned(),
        }
    }
}

/// The report of what was left when a [`Locks`] was closed.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let locks = reentry::Locks::in_memory();
/// let report = locks.close().await;
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
    /// Whether nothing is left.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.still_held.is_empty() && self.in_flight == 0 && self.abandoned.is_empty()
    }

    /// The keys of the locks that are still held, without the prefix, in order.
    #[must_use]
    pub fn still_held(&self) -> &[String] {
        &self.still_held
    }

    /// The number of acquisitions and releases that have not ended.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// The keys of the locks whose release the store has refused, without the prefix, in order. Each of these locks is
    /// held until its lease expires.
    #[must_use]
    pub fn abandoned(&self) -> &[String] {
        &self.abandoned
    }
}

impl fmt::Display for CloseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        parts.extend(counted(&self.still_held, "lock is held", "locks are held"));
        match self.in_flight {
            0 => {}
            1 => parts.push("1 acquisition or release is in flight".to_owned()),
            count => parts.push(format!("{count} acquisitions and releases are in flight")),
        }
        let (one, several) = ("release was refused", "releases were refused");
        parts.extend(counted(&self.abandoned, one, several));
        if parts.is_empty() {
            return f.write_str("nothing is left");
        }
        f.write_str(&parts.join(", "))
    }
}

/// The number of keys and their names as text; `None` if there are no keys.
fn counted(keys: &[String], one: &str, several: &str) -> Option<String> {
    let words = if keys.len() == 1 { one } else { several };
    let told = || format!("{} {words} ({})", keys.len(), keys.join(", "));
    (!keys.is_empty()).then(told)
}

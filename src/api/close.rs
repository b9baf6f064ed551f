//! How a program leaves: nothing new is taken, and what is held is released.

use std::{fmt, time::Duration};

use tokio::time::Instant;

use crate::{
    api::{engine::Engine, locks::Locks},
    base::{error::LostReason, events, timer::timeout},
};

/// After how long it is told for the first time what keeps a `Locks` from being closed; then each time after twice as long.
const TOLD_AFTER: Duration = Duration::from_secs(5);

/// How often the guards are looked at whose locks may be lost.
const LOOKS: Duration = Duration::from_secs(1);

impl Locks {
    /// Takes no more locks, and waits until all that are held have been released.
    ///
    /// From now on acquisitions fail with [`LockError::Closed`](crate::LockError::Closed), also those that wait; in all
    /// clones. Bodies finish: they re-enter what they hold, and take nothing else. [Leaders](Self::leader) resign at once.
    /// Work that goes on in the background, as the release of a guard that was dropped, is awaited. Then the connections
    /// are closed.
    ///
    /// Without it, what is left to do in the background ends with the runtime: a lock whose guard is dropped in the last
    /// line of `main` stands until its lease ends.
    ///
    /// It waits for as long as a body takes, a guard is kept, or the store fails; so it never ends inside of a body, or
    /// beside a guard of its caller. The event `closing` says after 5 s what it waits for, and again each time it has waited
    /// for twice as long. A guard whose lock is lost keeps nothing. [`close_within`](Self::close_within) has an end.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the `Locks` closed; whatever is in the background goes on.
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

    /// The same, but bodies that are still running after `limit` are dropped, and their locks released.
    ///
    /// They end as by a loss, with [`LostReason::Closed`](crate::LostReason::Closed). Returns after `limit`, and the
    /// response timeout for what is released then, at the latest. What is left by then, and stands until its lease
    /// ends, is in the report: a guard that is kept, a body with [`OnLost::KeepRunning`](crate::OnLost::KeepRunning), a
    /// lock that the store did not release in time, or refused to release.
    ///
    /// A service calls it as soon as it is asked to end, and awaits its requests or jobs after that: so those that wait
    /// for a lock do not delay its end. In the repository, `cargo run --example axum_orders` shows it for a web service,
    /// and `cargo run --example worker` for jobs.
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
                    // What is not done by then is told.
                    let _ = timeout(limit, self.until_over()).await;
                }
            }
        }
        let report = self.left();
        self.store().close();
        events::closed(report.held.len(), report.in_flight);
        report
    }

    /// Resolves when nothing is left but guards whose locks are lost. Tells from time to time what it waits for.
    async fn until_over(&self) {
        let activity = self.renewals().queues().activity();
        let (begun, mut told_after) = (Instant::now(), TOLD_AFTER);
        loop {
            // Counted first, so that a hold which ends in between is not left out while its release goes on.
            let count = activity.count();
            let holds = self.renewals().holds();
            let lost = holds.iter().filter(|hold| hold.is_left_to_guards());
            if count <= lost.count() {
                return;
            }
            let waited = begun.elapsed();
            if waited >= told_after {
                told_after *= 2;
                let CloseReport {
                    held, in_flight, ..
                } = self.left();
                events::closing(waited, &held, in_flight);
            }
            // No event tells of each loss.
            let _ = timeout(LOOKS, activity.until_over()).await;
        }
    }

    fn left(&self) -> CloseReport {
        let queues = self.renewals().queues();
        let count = queues.activity().count();
        let holds = self.renewals().holds();
        let held = holds.iter().filter(|hold| hold.may_be_held());
        let mut held: Vec<_> = held.map(|hold| hold.key().name().to_owned()).collect();
        held.sort_unstable();
        CloseReport {
            held,
            in_flight: count.saturating_sub(holds.len()),
            abandoned: queues.abandoned(),
        }
    }
}

/// What was left when a [`Locks`] was closed.
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
    held: Vec<String>,
    in_flight: usize,
    abandoned: Vec<String>,
}

impl CloseReport {
    /// Whether nothing is left.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.held.is_empty() && self.in_flight == 0 && self.abandoned.is_empty()
    }

    /// The keys of the locks that are still held, without the prefix, in order.
    #[must_use]
    pub fn held(&self) -> &[String] {
        &self.held
    }

    /// How many acquisitions and releases have not come to their end.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// The keys of the locks whose release the store has refused, without the prefix, in order. Each of them is held
    /// until its lease ends.
    #[must_use]
    pub fn abandoned(&self) -> &[String] {
        &self.abandoned
    }
}

impl fmt::Display for CloseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        parts.extend(counted(&self.held, "lock is held", "locks are held"));
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

/// How many keys there are, and which; `None` if there are none.
fn counted(keys: &[String], one: &str, several: &str) -> Option<String> {
    let words = if keys.len() == 1 { one } else { several };
    let told = || format!("{} {words} ({})", keys.len(), keys.join(", "));
    (!keys.is_empty()).then(told)
}

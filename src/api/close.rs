//! How a program leaves: nothing new is taken, and what is held is released.

use std::{fmt, time::Duration};

use crate::{
    api::{engine::Engine, locks::Locks},
    base::{error::LostReason, events, timer::timeout},
};

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
    /// beside a guard of its caller. [`close_within`](Self::close_within) has an end.
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
    /// lock that the store did not release in time.
    ///
    /// A service calls it as soon as it is asked to end, and awaits its requests or jobs after that: so those that wait
    /// for a lock do not delay its end. `cargo run --example axum_orders` shows it for a web service, `cargo run --example
    /// worker` for jobs.
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
        let queues = renewals.queues();
        queues.close();
        let activity = queues.activity();
        match limit {
            None => activity.until_over().await,
            Some(limit) => {
                if timeout(limit, activity.until_over()).await.is_err() {
                    let holds = renewals.holds();
                    holds.iter().for_each(|hold| hold.lose(LostReason::Closed));
                    let limit = renewals.response_timeout();
                    // What is not done by then is told.
                    let _ = timeout(limit, activity.until_over()).await;
                }
            }
        }
        let holds = renewals.holds();
        let mut held: Vec<_> = holds
            .iter()
            .map(|hold| hold.key().name().to_owned())
            .collect();
        held.sort_unstable();
        let in_flight = activity.count().saturating_sub(held.len());
        self.store().close();
        events::closed(held.len(), in_flight);
        CloseReport { held, in_flight }
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
}

impl CloseReport {
    /// Whether nothing is left.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.held.is_empty() && self.in_flight == 0
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
}

impl fmt::Display for CloseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { held, in_flight } = self;
        if self.is_clean() {
            return f.write_str("nothing is left");
        }
        write!(f, "{} locks are held", held.len())?;
        if !held.is_empty() {
            write!(f, " ({})", held.join(", "))?;
        }
        write!(f, ", {in_flight} requests are in flight")
    }
}

//! Leadership: one of all processes does a job for as long as it can, and then another one takes over.

use std::sync::Arc;
use std::time::Duration;

use tokio::select;

use crate::api::engine::Engine;
use crate::api::locks::Locks;
use crate::api::request::LockRequest;
use crate::base::error::{LockError, LostReason};
use crate::base::id::FencingToken;
use crate::base::option_types::{OnLost, Reentrancy, Replicas};
use crate::hold::held::Held;

impl Locks {
    /// Returns a campaign for the leadership `key`. Of all campaigns for this key, only one leads at a time.
    ///
    /// The leadership is a lock with this key. It shares the name space of all other locks. Nothing is sent before
    /// [`run`](Campaign::run).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let reports = locks.leader("reports").run(|term| async move {
    /// // The work continues for as long as it leads. In this example it writes one report.
    ///     format!("report under token {}", term.fencing_token())
    /// });
    /// println!("{}", reports.await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn leader(&self, key: impl AsRef<str>) -> Campaign {
        let request = self.lock(key).wait(Duration::MAX);
        Campaign {
            request: request.reentrancy(Reentrancy::Forbid),
        }
    }
}

/// A campaign for a leadership. [`Locks::leader`] returns one.
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), reentry::LockError> {
/// let locks = reentry::Locks::in_memory();
/// let campaign = locks.leader("reports").ttl(Duration::from_secs(5));
/// let leading = tokio::spawn(campaign.run(|_term| std::future::pending::<()>()));
/// tokio::time::sleep(Duration::from_secs(60)).await;
/// // The leader resigns, and the next campaign leads immediately.
/// locks.close().await;
/// assert!(leading.await.expect("it does not panic").unwrap_err().is_closed());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a campaign does nothing until it is run"]
pub struct Campaign {
    request: LockRequest,
}

impl Campaign {
    /// Sets how soon another campaign leads if the leader dies. This is the [TTL](LockRequest::ttl) of the lock
    /// (default: the TTL of the `Locks`, 30 s if not set). If a leader is closed, or returns, another campaign leads
    /// immediately.
    ///
    /// # Examples
    ///
    /// See [`Campaign`].
    pub fn ttl(self, ttl: Duration) -> Self {
        let request = self.request.ttl(ttl);
        Self { request }
    }

    /// Sets the minimum duration of a leadership (default: as long as its work). No other campaign leads before that,
    /// even if the work has returned. It also raises the [`ttl`](Self::ttl): after the death of a leader, another one
    /// leads when `min_hold` has passed since the last renewal. See [`LockRequest::min_hold`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let campaign = locks.leader("job:hourly").min_hold(Duration::from_secs(60));
    /// campaign.run(|_term| async { /* the job of this hour */ }).await?;
    /// assert!(locks.inspect("job:hourly").await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn min_hold(self, min_hold: Duration) -> Self {
        let request = self.request.min_hold(min_hold);
        Self { request }
    }

    /// Sets how many replicas must confirm a leadership before it counts (default: the setting of the `Locks`, none if
    /// not set). While they do not confirm it, the campaign continues. See
    /// [`LocksBuilder::confirm`](crate::LocksBuilder::confirm).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// use reentry::Replicas;
    ///
    /// let locks = reentry::Locks::in_memory();
    /// let campaign = locks.leader("reports").confirm(Replicas::all(), Duration::from_millis(500));
    /// campaign.run(|_term| async { /* what one process does */ }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn confirm(self, replicas: Replicas, within: Duration) -> Self {
        let request = self.request.confirm(replicas, within);
        Self { request }
    }

    /// Sets what happens to the work of a term when the leadership is lost (default: it is dropped immediately).
    ///
    /// With [`OnLost::KeepRunning`], the work must detect the loss itself, with [`Term::lost`], and react to it.
    /// Another leader may be working at the same time. The campaign continues when the work has returned.
    ///
    /// # Examples
    ///
    /// ```
    /// # use reentry::OnLost;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let campaign = locks.leader("reports").on_lost(OnLost::KeepRunning);
    /// let mut terms = 0;
    /// let told = campaign.run(|term| {
    ///     terms += 1;
    ///     let (locks, is_last) = (&locks, terms == 2);
    ///     async move {
    ///         if !is_last {
    ///             locks.force_release("reports").await.expect("a store that answers");
    ///             let reason = term.lost().await;
    ///             println!("lost: {reason}");
    ///         }
    ///     }
    /// });
    /// told.await?;
    /// assert_eq!(terms, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_lost(self, on_lost: OnLost) -> Self {
        let request = self.request.on_lost(on_lost);
        Self { request }
    }

    /// Waits until the campaign leads, and does the work of the term. If the leadership is lost meanwhile, it campaigns
    /// again. When the work returns, the campaign resigns and returns the output of the work. Work that should continue
    /// for ever must not return.
    ///
    /// While the store is unavailable, the campaign continues to wait. [`Locks::close`] makes it resign immediately.
    /// The work is then dropped at its next `.await`. It is not awaited as other bodies are, because it may have no
    /// end.
    ///
    /// The work runs under the lock, and may re-enter it by its key. Each term has a greater
    /// [token](Term::fencing_token) than the terms before it.
    ///
    /// # Errors
    ///
    /// - [`Closed`](LockError::Closed), [`InvalidKey`](LockError::InvalidKey) and [`Config`](LockError::Config).
    /// - [`Misuse`](LockError::Misuse) if the store will always reject the request, and
    ///   [`Unavailable`](LockError::Unavailable) if the store, or a proxy in front of it, rejects this process.
    /// - [`AlreadyHeld`](LockError::AlreadyHeld) and [`Deadlock`](LockError::Deadlock) inside a call that holds locks.
    /// - [`Lost`](LockError::Lost) only with the reason [`Closed`](LostReason::Closed).
    /// - Never [`Timeout`](LockError::Timeout) or [`Unconfirmed`](LockError::Unconfirmed).
    ///
    /// # Panics
    ///
    /// As for [`Locks::with_lock`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future resigns in the background, or leaves the queue.
    ///
    /// # Examples
    ///
    /// See [`Locks::leader`].
    pub async fn run<F, Work>(self, mut lead: F) -> Result<Work::Output, LockError>
    where
        F: FnMut(Term) -> Work,
        Work: Future,
    {
        let Self { request } = self;
        let engine = Arc::clone(&request.engine);
        loop {
            let guard = match request.clone().acquire().await {
                Ok(guard) => guard,
                Err(error) if goes_on(&error) => continue,
                Err(error) => return Err(error),
            };
            let term = Term {
                held: guard.held().clone(),
            };
            let led = guard.scope(until_closed(&engine, lead(term))).await;
            // With `OnLost::Abort`, the loss ends the work.
            let is_lost = !guard.aborts_on_loss() && guard.held().is_lost();
            // The result does not matter: a lost lock is lost, and a lock that is left expires with its lease.
            let _ = guard.release().await;
            match led {
                Ok(Some(_)) if is_lost => {}
                Ok(Some(output)) => return Ok(output),
                Ok(None) => {
                    let key = request.keys.concat();
                    return Err(LockError::Closed { key });
                }
                Err(LockError::Lost { reason, .. }) if reason != LostReason::Closed => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Whether a campaign continues after this error of an acquisition: the store did not respond for an `outage`, or
/// replicas are unavailable.
fn goes_on(error: &LockError) -> bool {
    match error {
        LockError::Unavailable { source, .. } => !source.is_refused(),
        LockError::Unconfirmed { source, .. } => {
            let source = source.as_ref();
            source.is_none_or(|source| !source.effect().is_rejected())
        }
        _ => false,
    }
}

/// Does the work. Returns `None` if the `Locks` is closed before the work has ended.
async fn until_closed<T>(engine: &Engine, work: impl Future<Output = T>) -> Option<T> {
    let activity = engine.renewals().queues().activity();
    select! {
        biased;
        () = activity.until_closed() => None,
        output = work => Some(output),
    }
}

/// A term: the period during which a campaign leads without interruption.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), reentry::LockError> {
/// let locks = reentry::Locks::in_memory();
/// let key = locks.leader("reports").run(|term| async move { term.held().key().to_owned() });
/// assert_eq!(key.await?, "reports");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Term {
    held: Held,
}

impl Term {
    /// Returns the token of the term, which is greater than the tokens of all earlier terms. Send it with each write,
    /// and let the resource reject smaller tokens.
    ///
    /// # Examples
    ///
    /// See [`Locks::leader`].
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.held.fencing_token()
    }

    /// Returns the lock behind the leadership.
    ///
    /// # Examples
    ///
    /// See [`Term`].
    #[must_use]
    pub fn held(&self) -> &Held {
        &self.held
    }

    /// Resolves when the leadership is lost. It never resolves after the work has returned.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    ///
    /// # Examples
    ///
    /// See [`Campaign::on_lost`].
    pub async fn lost(&self) -> LostReason {
        self.held.lost().await
    }
}

//! Leadership: one of all processes does a job for as long as it can, and then another one takes over.

use std::sync::Arc;
use std::time::Duration;

use tokio::select;

use crate::api::engine::Engine;
use crate::api::request::LockRequest;
use crate::base::error::{LockError, LostReason};
use crate::base::key::LockKey;
use crate::hold::held::Held;

impl LockRequest {
    /// Does `work` in one process at a time: the leader. The others stand by.
    ///
    /// The call waits for the lock without a limit, and runs the work under it, with the lock as a [`Held`]. If the
    /// lock is lost, the work is dropped, and the call waits for the lock again. When the work returns, its output is
    /// returned, so work that should go on for ever must not return.
    ///
    /// If a leader dies, another one leads within the [`ttl`](Self::ttl); if it returns or is closed, at once. Each
    /// time the work begins, the [token](Held::fencing_token) is greater. [`Locks::close`](crate::Locks::close) drops
    /// the work without waiting for it.
    ///
    /// With [`OnLost::KeepRunning`](crate::OnLost::KeepRunning), the work is not dropped at a loss. It must notice that
    /// itself, with [`Held::lost`], and return: another leader may already be working. [`wait`](Self::wait),
    /// [`no_wait`](Self::no_wait) and [`retry`](Self::retry) have no effect.
    ///
    /// # Errors
    ///
    /// - [`Closed`](LockError::Closed), and [`Lost`](LockError::Lost) with the reason [`Closed`](LostReason::Closed).
    /// - [`Misuse`](LockError::Misuse), also if an enclosing call holds the lock.
    /// - [`Unavailable`](LockError::Unavailable) if Redis, or a proxy in front of it, rejects this process. While Redis
    ///   is only away, the call waits.
    /// - [`Deadlock`](LockError::Deadlock) inside a call that holds other locks.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases the lock in the background, or leaves the queue.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let reports = locks.lock("reports").lead(|lock| async move {
    ///     // The work continues for as long as it leads. In this example it writes one report.
    ///     format!("report under token {}", lock.fencing_token())
    /// });
    /// println!("{}", reports.await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lead<F, Work>(self, mut work: F) -> Result<Work::Output, LockError>
    where
        F: FnMut(Held) -> Work,
        Work: Future,
    {
        let engine = Arc::clone(&self.engine);
        let mut request = self.wait(Duration::MAX);
        let keys = request.keys.clone()?;
        // A leader waits for as long as it takes, so attempts without a wait are no use to it.
        request.terms.retry = None;
        if request.terms.permits.is_none() {
            // It would re-enter the lock at once, while no other process can lead.
            engine.check_can_lead(&keys)?;
        }
        // Each turn waits for the lock, leads, and releases it. After a loss the next one begins.
        loop {
            let guard = match request.clone().acquire().await {
                Ok(guard) => guard,
                Err(error) if is_retryable(&error, &keys) => continue,
                Err(error) => return Err(error),
            };
            // `close` ends the work, because a leader would otherwise never leave.
            let leading = run_until_closed(&engine, work(guard.held().clone()));
            let led = guard.scope(leading).await;
            // With `OnLost::Abort`, the loss ends the work.
            let is_lost = !guard.aborts_on_loss() && guard.held().is_lost();
            // The result does not matter: a lost lock is lost, and a lock that is left expires with its lease.
            let _ = guard.release().await;
            match led {
                // Another leader may have begun, so what came of the work does not count.
                Ok(Some(_)) if is_lost => {}
                Ok(Some(output)) => return Ok(output),
                // The work was dropped before it had an output.
                Ok(None) => return Err(LockError::Closed),
                Err(LockError::Lost { reason, .. }) if reason != LostReason::Closed => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Whether a leader waits again after this error of an acquisition: the store did not respond for an `outage`, replicas
/// are unavailable, or one of its locks was lost while it waited for the others, or for replicas.
fn is_retryable(error: &LockError, keys: &[LockKey]) -> bool {
    match error {
        LockError::Unavailable { source } => !source.is_denied(),
        LockError::Lost { key, reason } => {
            *reason != LostReason::Closed && keys.iter().any(|its| its.name() == key)
        }
        _ => false,
    }
}

/// Does the work. Returns `None` if the `Locks` is closed before the work has ended.
async fn run_until_closed<T>(engine: &Engine, work: impl Future<Output = T>) -> Option<T> {
    let in_flight = &engine.core.queues.in_flight;
    select! {
        biased;
        () = in_flight.wait_until_closed() => None,
        output = work => Some(output),
    }
}

//! The confirmation of a hold by replicas, if it counts only with them.
//!
//! A response of the server proves nothing about its replicas. So the body waits for them after the acquisition,
//! wherever the lock came from. A renewal lengthens the lease only after they have it.

use std::error::Error;
use std::sync::Arc;

use tokio::select;
use tokio::time::Instant;

use crate::base::error::{Failure, FailureClass, LockError, LostReason, StoreError};
use crate::base::options::Confirm;
use crate::base::timer::{Backoff, after, sleep, timeout_at};
use crate::hold::hold::Hold;
use crate::hold::renew_request::{RenewRequest, renew_now};
use crate::store::{Confirmation, RenewReply, Store};

/// Waits until the replicas have a hold, which was acquired by a request in this generation of its key. If the generation
/// has changed in the meantime, the hold is renewed, so that there is a new request to wait for.
///
/// Fails if they do not have it in time, or cannot be asked, and as soon as the hold is lost. Then it may or may not be
/// in the lock.
pub(crate) async fn await_replicas(
    hold: &Arc<Hold>,
    confirm: Confirm,
    store: &Store,
    key_generation: Option<u64>,
) -> Result<(), LockError> {
    let mut failed = None;
    // The replicas cannot confirm what the server does not have any more, so a loss ends the wait.
    let confirmed = select! {
        biased;
        _reason = hold.await_loss() => false,
        confirmed = ask_replicas(hold, confirm, store, key_generation, &mut failed) => confirmed,
    };
    match (hold.check_loss(), failed) {
        _ if confirmed => Ok(()),
        // A lease that has expired is as if the replicas had taken too long.
        (Some(reason), _) if reason != LostReason::Expired => Err(hold.lost_error(reason)),
        // A mistake does not pass by itself, so the caller learns of it as such.
        (_, Some(error)) if error.mistake().is_some() => {
            Err(Failure::Store(error).on(hold.key().name()))
        }
        // A leader tries again, whatever the replicas could not be asked for.
        (_, Some(error)) => Err(unavailable(error)),
        (_, None) => {
            let within = confirm.within();
            Err(unavailable(format!(
                "too few of them had the lock within {within:?}"
            )))
        }
    }
}

fn unavailable(cause: impl Into<Box<dyn Error + Send + Sync>>) -> LockError {
    let source = unconfirmed(FailureClass::NotExecuted, cause);
    LockError::Unavailable { source }
}

/// The error of a request that too few replicas have.
fn unconfirmed(class: FailureClass, cause: impl Into<Box<dyn Error + Send + Sync>>) -> StoreError {
    StoreError::new("confirm", &Arc::from("the replicas"), class, cause)
}

/// Asks the replicas until they have a hold. Returns false if they do not have it in time, or cannot be asked. `failed`
/// receives the last error.
async fn ask_replicas(
    hold: &Arc<Hold>,
    confirm: Confirm,
    store: &Store,
    mut key_generation: Option<u64>,
    failed: &mut Option<StoreError>,
) -> bool {
    // One limit for the confirmation, however many requests it takes.
    let until = after(Instant::now(), confirm.within());
    let mut backoff = Backoff::default();
    loop {
        // Each turn asks about one request: first the acquire, and after a lost connection a renewal that takes its
        // place.
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || hold.check_loss().is_some() {
            return false;
        }
        if let Some(key_generation) = key_generation {
            let confirmed = store.confirm(hold.key(), confirm.replicas(), left, key_generation);
            match confirmed.await {
                Ok(Confirmation::Confirmed) => return true,
                // Another server may answer by now, whose replicas say nothing about the first one.
                Ok(Confirmation::Unknown) => {}
                // It is late, or there is an error, which may be final.
                outcome => {
                    *failed = outcome.err();
                    if failed
                        .as_ref()
                        .is_none_or(|it| it.failure_class().is_rejected())
                    {
                        return false;
                    }
                }
            }
            sleep(backoff.next_pause().min(left)).await;
        }
        // A request that the replicas may have. Without a response, or if the hold is gone, there is none.
        let renewed = timeout_at(until, renew_now(hold, store)).await;
        let renewed = renewed.unwrap_or(Ok(None)).unwrap_or_else(|error| {
            *failed = Some(error);
            None
        });
        // Without it, the next turn renews once more.
        key_generation = renewed.map(|request| request.key_generation);
    }
}

/// Waits until the replicas have the renewals that were answered, if these count only then.
pub(super) async fn await_renewal_on_replicas(
    request: &RenewRequest,
    answers: &[RenewReply],
    store: &Store,
) -> Result<(), StoreError> {
    let deadlines = request.renewed(answers).map(|hold| hold.deadline());
    let first = request.renewed(answers).next();
    let (Some(confirm), Some(hold), Some(deadline)) =
        (request.batch.confirm, first, deadlines.max())
    else {
        return Ok(());
    };
    // All of them are at one server, so its replicas answer for all.
    let left = deadline.saturating_duration_since(Instant::now());
    // A confirmation after the last of the deadlines lengthens nothing.
    let within = confirm.within().min(left);
    let confirmed = store.confirm(
        hold.key(),
        confirm.replicas(),
        within,
        request.key_generation,
    );
    match confirmed.await? {
        Confirmation::Confirmed => Ok(()),
        Confirmation::Late | Confirmation::Unknown => Err(unconfirmed(
            FailureClass::OutcomeUnknown,
            "too few of them have it",
        )),
    }
}

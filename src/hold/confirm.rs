//! The confirmations that a hold waits for before its body begins. If it counts only with replicas, they must have it.
//! After a lost connection, the server must still have it.
//!
//! A response of the server proves nothing about its replicas. So the body waits for them after the acquisition,
//! wherever the lock came from. A renewal lengthens the lease only after they have it.

use std::error::Error;
use std::sync::Arc;

use futures_util::future::try_join_all;
use tokio::select;
use tokio::time::Instant;

use crate::base::backoff::Backoff;
use crate::base::error::{Effect, Failure, LockError, LostReason, StoreError};
use crate::base::options::Confirm;
use crate::base::timer::{after, sleep, timeout_at};
use crate::hold::hold::Hold;
use crate::hold::renew_request::RenewRequest;
use crate::store::{Confirmation, RenewAnswer, Store};

/// Waits until the replicas have a hold. It was acquired by a request before which its connection had this epoch. If
/// the epoch has changed in the meantime, the hold is renewed, so that there is a new request to wait for.
///
/// Fails if they do not have it in time, or cannot be asked, and as soon as the hold is lost. Then it may or may not be
/// in the lock.
pub(crate) async fn taken(
    hold: &Arc<Hold>,
    store: &Arc<Store>,
    epoch: Option<u64>,
) -> Result<(), LockError> {
    let Some(confirm) = hold.confirm else {
        return Ok(());
    };
    let mut failed = None;
    let confirmed = select! {
        biased;
        _reason = hold.until_lost() => false,
        confirmed = ask_replicas(hold, confirm, store, epoch, &mut failed) => confirmed,
    };
    match (hold.lost(), failed) {
        _ if confirmed => Ok(()),
        // A lease that has expired is as if the replicas had taken too long.
        (Some(reason), _) if reason != LostReason::Expired => Err(hold.lost_error(reason)),
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
    let source = unconfirmed(Effect::None, cause);
    LockError::Unavailable { source }
}

/// The error of a request that too few replicas have.
fn unconfirmed(effect: Effect, cause: impl Into<Box<dyn Error + Send + Sync>>) -> StoreError {
    StoreError::new("confirm", &Arc::from("the replicas"), effect, cause)
}

/// Asks the replicas until they have a hold. Returns false if they do not have it in time, or cannot be asked. `failed`
/// receives the last error.
async fn ask_replicas(
    hold: &Arc<Hold>,
    confirm: Confirm,
    store: &Arc<Store>,
    mut epoch: Option<u64>,
    failed: &mut Option<StoreError>,
) -> bool {
    let until = after(Instant::now(), confirm.within());
    let mut backoff = Backoff::default();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || hold.lost().is_some() {
            return false;
        }
        if let Some(epoch) = epoch {
            let confirmed = store.confirm(hold.key(), confirm.replicas(), left, epoch);
            match confirmed.await {
                Ok(Confirmation::Confirmed) => return true,
                Ok(Confirmation::Unknown) => {}
                // It is late, or there is an error, which may be final.
                outcome => {
                    *failed = outcome.err();
                    if failed.as_ref().is_none_or(|it| it.effect().is_rejected()) {
                        return false;
                    }
                }
            }
            sleep(backoff.next_pause().min(left)).await;
        }
        epoch = renew(hold, store, until).await.unwrap_or_else(|error| {
            *failed = Some(error);
            None
        });
    }
}

/// Renews a hold, for a request that the replicas may have. Returns the epoch of its connection; `None` if there was no
/// response, or the hold is lost.
async fn renew(
    hold: &Arc<Hold>,
    store: &Arc<Store>,
    until: Instant,
) -> Result<Option<u64>, StoreError> {
    let request = RenewRequest::of(hold, store);
    let Ok(answers) = timeout_at(until, request.send(store)).await else {
        return Ok(None);
    };
    let answers = answers?;
    if answers.contains(&RenewAnswer::Gone) {
        // No call graph may continue it.
        hold.lose(LostReason::Deleted);
        return Ok(None);
    }
    Ok(request.renewed(&answers).next().map(|_| request.epoch))
}

/// Waits until the replicas have the renewals that were answered, if these count only then.
pub(super) async fn renewed(
    request: &RenewRequest,
    answers: &[RenewAnswer],
    store: &Store,
) -> Result<(), StoreError> {
    let deadlines = request.renewed(answers).map(|hold| hold.deadline());
    let first = request.renewed(answers).next();
    let (Some(confirm), Some(hold), Some(deadline)) =
        (request.common.terms.confirm, first, deadlines.max())
    else {
        return Ok(());
    };
    // All of them are at one server, so its replicas answer for all.
    let left = deadline.saturating_duration_since(Instant::now());
    let within = confirm.within().min(left);
    let confirmed = store.confirm(hold.key(), confirm.replicas(), within, request.epoch);
    match confirmed.await? {
        Confirmation::Confirmed => Ok(()),
        Confirmation::Late | Confirmation::Unknown => {
            Err(unconfirmed(Effect::Unknown, "too few of them have it"))
        }
    }
}

/// Returns whether a connection was lost since the hold was last confirmed. A hold that replicas must confirm never
/// counts as behind, because the confirmation renews it if necessary.
pub(crate) fn is_behind(hold: &Hold, store: &Store) -> bool {
    hold.confirm.is_none() && hold.generation() != store.generation()
}

/// Renews the holds that are behind, until none is, before the body of several locks begins.
///
/// A caller may have some of its locks and wait for the next one. It may get that lock from a server that does not know
/// the first ones, because they were lost with the server before it. Each hold is verified after a lost connection, but
/// its body must not begin while a new holder is inside.
///
/// Fails if one of them is gone, and with the last error of the store after the limit.
pub(crate) async fn verified(
    holds: &[Arc<Hold>],
    store: &Arc<Store>,
    limit: Option<Instant>,
) -> Result<(), LockError> {
    loop {
        let behind = holds.iter().filter(|hold| is_behind(hold, store));
        let verifying: Vec<_> = behind.map(|hold| verify(hold, store, limit)).collect();
        if verifying.is_empty() {
            return Ok(());
        }
        try_join_all(verifying).await?;
    }
}

async fn verify(
    hold: &Arc<Hold>,
    store: &Arc<Store>,
    limit: Option<Instant>,
) -> Result<(), LockError> {
    let mut backoff = Backoff::default();
    loop {
        let request = RenewRequest::of(hold, store);
        match request.send(store).await {
            Ok(answers) if answers.contains(&RenewAnswer::Gone) => {
                request.lose(&answers);
                return Err(hold.lost_error(LostReason::Deleted));
            }
            Ok(answers) => {
                request
                    .renewed(&answers)
                    .for_each(|hold| request.confirm(hold));
                return Ok(());
            }
            Err(error) if limit.is_some_and(|limit| limit <= Instant::now()) => {
                return Err(Failure::Store(error).on(hold.key().name()));
            }
            Err(_) => sleep(backoff.next_pause()).await,
        }
    }
}

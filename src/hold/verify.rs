//! Verifies the first locks of several before their body begins.
//!
//! A caller that has some of its locks and waits for the next one may win that from a server which does not know the
//! first ones: the server before it has gone with them. Each hold is verified after a lost connection, but its body
//! must not begin beside a new holder meanwhile.

use std::slice::from_ref;
use std::sync::Arc;

use futures_util::future::try_join_all;
use tokio::time::Instant;

use crate::base::backoff::Backoff;
use crate::base::error::{Failure, LockError, LostReason};
use crate::base::timer::sleep;
use crate::hold::hold::Hold;
use crate::hold::renewable::RenewRequest;
use crate::store::Store;

/// Whether a connection was lost since the hold was confirmed last. One that replicas have to confirm is asked for by
/// that.
pub(crate) fn is_behind(hold: &Hold, store: &Store) -> bool {
    hold.confirm.is_none() && hold.disconnects() != store.disconnects_of(hold.key())
}

/// Asks for those holds that are behind, until none is.
///
/// Fails if one of them is gone, and with the last error of the store after the limit.
pub(crate) async fn verified(
    holds: &[Arc<Hold>],
    store: &Arc<Store>,
    limit: Option<Instant>,
) -> Result<(), LockError> {
    loop {
        let mut behind = Vec::new();
        for hold in holds {
            if is_behind(hold, store) {
                behind.push(verify(hold, store, limit));
            }
        }
        if behind.is_empty() {
            return Ok(());
        }
        try_join_all(behind).await?;
    }
}

async fn verify(
    hold: &Arc<Hold>,
    store: &Arc<Store>,
    limit: Option<Instant>,
) -> Result<(), LockError> {
    let mut backoff = Backoff::default();
    loop {
        let request = RenewRequest::new(from_ref(hold), store);
        match request.send(store).await {
            Ok(reply) if reply.is_gone() => {
                reply.lose();
                return Err(hold.lost_error(LostReason::Gone));
            }
            Ok(reply) => {
                request.confirm(&reply);
                return Ok(());
            }
            Err(error) if limit.is_some_and(|limit| limit <= Instant::now()) => {
                return Err(Failure::Store(error).on(hold.key().name()));
            }
            Err(_) => sleep(backoff.next_pause()).await,
        }
    }
}

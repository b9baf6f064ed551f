//! The downgrade from exclusive to shared: a writer continues as a reader.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::base::background::Handover;
use crate::base::backoff::Backoff;
use crate::base::error::{Effect, Failure, LostReason};
use crate::base::events;
use crate::base::option_types::Mode;
use crate::base::timer::{sleep_until, timeout_at};
use crate::hold::hold::{Hold, HoldState};
use crate::hold::renewals::RenewalSchedule;
use crate::store::{Downgrade, Presence};

/// The reason why there is nothing to wait for.
pub(super) enum Settled {
    /// The lock is already shared.
    Shared,
    /// More than one entry is inside.
    InUse,
    Lost(LostReason),
}

/// Makes the hold share its lock. If the future is dropped, the remaining work continues in the background.
///
/// From now on the hold counts as shared, because the store may execute the request at any time. So nested calls cannot
/// enter it exclusively, and it is renewed and released as a reader.
pub(super) fn downgrade(
    hold: &Arc<Hold>,
    renewals: &Arc<RenewalSchedule>,
) -> Result<Handover<Result<(), Failure>>, Settled> {
    let now = Instant::now();
    hold.change(
        |HoldState {
             lease, depth, mode, ..
         }| match lease.lost_by(now) {
            Some(reason) => Err(Settled::Lost(reason)),
            None if depth.wanted() == 0 => Err(Settled::Lost(LostReason::Deleted)),
            None if *mode == Mode::Shared => Err(Settled::Shared),
            None if !depth.is_only(1) => Err(Settled::InUse),
            None => {
                *mode = Mode::Shared;
                Ok(())
            }
        },
    )?;
    let (runtime, hold, renewals) = (
        renewals.runtime(hold),
        Arc::clone(hold),
        Arc::clone(renewals),
    );
    let span = hold.span();
    Ok(Handover::new(runtime, span, async move {
        let shared = ask(&hold, &renewals).await;
        if let Err(Failure::Lost(reason)) = shared {
            hold.lose(reason);
            renewals.queues().lost(hold.key(), hold.id());
        }
        shared
    }))
}

/// Repeats the request until the store has responded, or the hold has ended.
async fn ask(hold: &Hold, renewals: &RenewalSchedule) -> Result<(), Failure> {
    let (key, id) = (hold.key(), hold.id());
    let mut backoff = Backoff::default();
    let mut may_be_shared = false;
    while hold.depth() > 0 {
        if let Some(reason) = hold.lost() {
            return Err(Failure::Lost(reason));
        }
        let (sent, ttl) = (Instant::now(), hold.change(|state| state.lease.ttl()));
        let asked = renewals.store().ask(Downgrade {
            key: key.clone(),
            hold: id,
            ttl,
            token: hold.token(),
        });
        let error = match timeout_at(hold.deadline(), asked).await {
            Ok(Ok(Presence::Present)) => {
                note_shared(hold, renewals, sent, ttl);
                return Ok(());
            }
            Ok(Ok(Presence::Gone)) if hold.depth() == 0 => break,
            Ok(Ok(Presence::Gone)) => return Err(Failure::Lost(LostReason::Deleted)),
            Ok(Err(error)) => error,
            Err(_lease_ended) => continue,
        };
        may_be_shared |= error.effect() == Effect::Unknown;
        if error.is_refused() {
            if !may_be_shared {
                hold.change(|state| state.mode = Mode::Exclusive);
            }
            return Err(Failure::Store(error));
        }
        events::downgrade_retried(key, id, &error);
        let pause = Instant::now() + backoff.next_pause();
        sleep_until(pause.min(hold.deadline())).await;
    }
    // It was released in the meantime.
    Ok(())
}

/// Notes that the store has made the lock shared, by a request that was sent at `sent`.
fn note_shared(hold: &Hold, renewals: &RenewalSchedule, sent: Instant, ttl: Duration) {
    // If replicas must have it, the next renewal lengthens the lease.
    if hold.confirm.is_none() {
        hold.change(|state| state.lease.confirm(sent, ttl, Instant::now()));
    }
    renewals.queues().downgraded(hold.key(), hold.id());
    events::downgraded(hold.key(), hold.id());
}

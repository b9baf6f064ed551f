//! One renewal of one hold, of those of several keys, or of readers of one key (P4).

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::{select, time::Instant};

use crate::{
    base::{
        backoff::pauses,
        confirm::Confirm,
        error::{LostReason, StoreError},
        events,
        timer::sleep_until,
    },
    hold::{
        confirm,
        hold::Hold,
        renewed::{Holds, Together},
    },
    store::Store,
};

/// How soon after an attempt without an answer the next one follows, at the least.
const LEAST_PATIENCE: Duration = Duration::from_millis(10);

/// Asks until the store has answered or a lease has ended; then the lock is lost. An error is no answer: the old
/// deadline stands.
///
/// An attempt that has no answer yet is not given up, since the store may only be far away: the next
/// one is sent beside it, and the first answer counts. A renewal that arrives late can only lengthen
/// the lease of a hold that is there.
pub(super) async fn renew(
    together: &Together,
    store: &Arc<dyn Store>,
    response_timeout: Duration,
) -> Result<(), LostReason> {
    let mut pauses = pauses();
    // How many attempts the store has answered, and not its replicas yet.
    let confirming = &AtomicUsize::new(0);
    let mut attempts = FuturesUnordered::new();
    // Since when an attempt is without an answer.
    let mut silent = None;
    // When attempts without an answer were told last.
    let mut told_at = None;
    let mut next = Instant::now();
    loop {
        // Of several keys some may have come or gone since.
        let holds = together.holds();
        if let Some(reason) = holds.lost() {
            return Err(reason);
        }
        let now = Instant::now();
        let Some(deadline) = holds.deadline() else {
            return Ok(());
        };
        let patience = patience(response_timeout, deadline, now);
        if next <= now && confirming.load(Relaxed) > 0 {
            next = now + patience;
        }
        if next <= now {
            if let Some(since) = silent {
                unanswered(&holds);
                retried(&holds, None);
                told_at = Some(now);
                for hold in holds.as_slice() {
                    store.suspect(hold.key(), since);
                }
            }
            silent = silent.or(Some(now));
            let ttl = holds.ttl();
            let seen = holds.as_slice().iter();
            let seen: Vec<_> = seen.map(|hold| store.disconnects_of(hold.key())).collect();
            let confirms: Vec<_> = confirms(&holds, store);
            let asked = holds.ask(&**store, ttl);
            attempts.push(async move {
                let answer = match asked.answer(&holds).await {
                    Ok(gone) => {
                        confirming.fetch_add(1, Relaxed);
                        let confirmed = confirm::renewed(confirms, store).await;
                        confirming.fetch_sub(1, Relaxed);
                        confirmed.map(|()| gone)
                    }
                    failed => failed,
                };
                (now, seen, ttl, answer, holds)
            });
            next = now + patience;
        }
        let (sent, seen, ttl, answer, holds) = select! {
            biased;
            Some(answered) = attempts.next() => answered,
            () = sleep_until(next.min(deadline)) => continue,
        };
        match answer {
            Ok(gone) if gone.is_empty() || matches!(holds, Holds::Readers(_)) => {
                for (hold, &seen) in holds.as_slice().iter().zip(&seen) {
                    if !gone.iter().any(|gone| Arc::ptr_eq(gone, hold)) {
                        hold.confirm(sent, ttl, seen);
                        let renewed = || events::renewed(hold.key(), hold.id(), hold.deadline());
                        hold.span().in_scope(renewed);
                    } else if hold.depth() > 0 {
                        lose(hold);
                    }
                }
                return Ok(());
            }
            // One of several that has ended is gone rightly: the others are asked for without it.
            Ok(gone) if gone.iter().all(|hold| hold.depth() == 0) => next = Instant::now(),
            Ok(gone) => {
                gone.iter().for_each(lose);
                return Err(LostReason::Gone);
            }
            Err(error) => {
                if told_at.is_none_or(|at| at <= sent) {
                    unanswered(&holds);
                }
                retried(&holds, Some(&error));
                if attempts.is_empty() {
                    let pause = pauses.next().unwrap_or_default();
                    next = Instant::now() + pause.min(patience);
                }
            }
        }
        silent = None;
    }
}

/// What replicas have to confirm, and the epoch of each connection.
fn confirms(holds: &Holds, store: &Arc<dyn Store>) -> Vec<(Arc<Hold>, Confirm, u64)> {
    let holds = holds.as_slice().iter().filter_map(|hold| {
        let confirm = hold.confirm?;
        Some((
            Arc::clone(hold),
            confirm,
            store.connection_epoch(hold.key()),
        ))
    });
    holds.collect()
}

fn unanswered(holds: &Holds) {
    for hold in holds.as_slice() {
        events::renewal_unanswered(hold.key());
    }
}

fn retried(holds: &Holds, error: Option<&StoreError>) {
    for hold in holds.as_slice() {
        let retried = || events::renewal_retried(hold.key(), hold.id(), error);
        hold.span().in_scope(retried);
    }
}

/// The store does not know the hold any more.
fn lose(hold: &Arc<Hold>) {
    events::renewal_refused(hold.key());
    hold.lose(LostReason::Gone);
}

/// How long to wait for an answer before the next attempt. Two more fit into what is left.
pub(super) fn patience(response_timeout: Duration, deadline: Instant, now: Instant) -> Duration {
    let patience = response_timeout.min(deadline.saturating_duration_since(now) / 3);
    patience.max(LEAST_PATIENCE)
}

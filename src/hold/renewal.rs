//! One renewal of one hold, of those of several keys, or of readers of one key (P4).

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::{
    select,
    sync::watch::{self, error::RecvError},
    time::Instant,
};

use crate::{
    base::{
        backoff::Backoff,
        confirm::Confirm,
        error::{Effect, LostReason, StoreError},
        events,
        mutex::Mutex,
        throttle::Throttle,
        timer::sleep_until,
    },
    hold::{
        confirm,
        hold::Hold,
        renewable::{Holds, Together},
    },
    store::Store,
};

/// How soon after an attempt without an answer the next one follows, at the least.
const LEAST_PATIENCE: Duration = Duration::from_millis(10);

/// Why a hold was not renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unrenewed {
    /// The lock is lost.
    Lost,
    /// The store failed. It is to be asked again at this instant.
    Until(Instant),
}

/// Asks until the store has answered or a lease has ended; then the lock is lost. An error is no answer: the old
/// deadline stands.
///
/// An attempt that was sent and has no answer yet is not given up, since the store may only be far away: the next
/// one is sent beside it, and the first answer counts. A renewal that arrives late can only lengthen
/// the lease of a hold that is there.
///
/// It keeps its place through the pauses while the server executes nothing, so that all those of a server that is away
/// ask it no more often than these. After any other failure the place goes to the next hold: what fails may be this lock.
pub(super) async fn renew(
    together: &Together,
    store: &Arc<Store>,
    response_timeout: Duration,
    warnings: &Throttle,
    place: impl Send,
) -> Result<(), Unrenewed> {
    let mut backoff = Backoff::default();
    let mut connections = store.connections();
    // Once the store has answered, its replicas need no place.
    let place = &Mutex::new(Some(place));
    // How many attempts the store has answered, and not its replicas yet.
    let confirming = &AtomicUsize::new(0);
    let mut attempts = FuturesUnordered::new();
    // Since when an attempt is without an answer.
    let mut silent = None;
    // Whether the latest attempt waits for a connection.
    let mut is_unsent = false;
    // When attempts without an answer were told last.
    let mut told_at = None;
    let mut next = Instant::now();
    loop {
        // Of several keys some may have come or gone since.
        let holds = together.holds();
        if holds.lost().is_some() {
            return Err(Unrenewed::Lost);
        }
        let now = Instant::now();
        let Some(deadline) = holds.deadline() else {
            return Ok(());
        };
        let patience = patience(response_timeout, deadline, now);
        if next <= now && !attempts.is_empty() && (is_unsent || confirming.load(Relaxed) > 0) {
            is_unsent &= !holds.is_connected(store);
            next = now + patience;
        }
        if next <= now {
            if let Some(since) = silent {
                unanswered(&holds);
                retried(&holds, None, warnings);
                told_at = Some(now);
                for hold in holds.as_slice() {
                    store.suspect(hold.key(), since);
                }
            }
            silent = silent.or(Some(now));
            is_unsent = !holds.is_connected(store);
            let ttl = holds.ttl();
            let seen = holds.seen(store);
            let confirms: Vec<_> = confirms(&holds, store);
            let asked = holds.ask(store, ttl);
            attempts.push(async move {
                let answer = match asked.answer(&holds).await {
                    Ok(gone) => {
                        let left = place.lock().take();
                        drop(left);
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
            // A server is there again.
            Ok(()) = changed(&mut connections), if attempts.is_empty() => {
                next = Instant::now();
                continue;
            }
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
                return Err(Unrenewed::Lost);
            }
            Err(error) => {
                if told_at.is_none_or(|at| at <= sent) {
                    unanswered(&holds);
                }
                retried(&holds, Some(&error), warnings);
                if attempts.is_empty() {
                    let now = Instant::now();
                    if error.effect() != Effect::None {
                        let is_cut = holds.seen(store) != seen;
                        let again = if is_cut { now } else { sent + patience / 2 };
                        return Err(Unrenewed::Until(again.max(now + LEAST_PATIENCE)));
                    }
                    let pause = backoff.next_pause();
                    next = now + pause.min(patience);
                }
            }
        }
        silent = None;
    }
}

/// Resolves when a connection was made.
async fn changed(connections: &mut Option<watch::Receiver<u64>>) -> Result<(), RecvError> {
    match connections {
        Some(connections) => connections.changed().await,
        None => pending().await,
    }
}

/// What replicas have to confirm, and the epoch of each connection.
fn confirms(holds: &Holds, store: &Arc<Store>) -> Vec<(Arc<Hold>, Confirm, u64)> {
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

fn retried(holds: &Holds, error: Option<&StoreError>, warnings: &Throttle) {
    for hold in holds.as_slice() {
        let retried = || events::renewal_retried(hold.key(), hold.id(), error, warnings);
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

//! One renewal of one hold (P4).

use std::{sync::Arc, time::Duration};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::{select, time::Instant};

use crate::{
    base::{
        backoff::pauses, error::LostReason, events, key::LockKey, mode::Mode, timer::sleep_until,
    },
    hold::hold::Hold,
    store::{Answer, Keeping, Presence, Renewal, Store},
};

/// How soon after an attempt without an answer the next one follows, at the least.
const LEAST_PATIENCE: Duration = Duration::from_millis(10);

/// Asks until the store has answered or the lease has ended. An error is no answer: the old
/// deadline stands.
///
/// An attempt that has no answer yet is not given up, since the store may only be far away: the next
/// one is sent beside it, and the first answer counts. A renewal that arrives late can only lengthen
/// the lease of a hold that is there.
pub(super) async fn renew(
    hold: &Hold,
    store: &Arc<dyn Store>,
    response_timeout: Duration,
    disconnects: impl Fn() -> u64,
) -> Result<(), LostReason> {
    let (key, id) = (hold.key(), hold.id());
    let mut pauses = pauses();
    let mut attempts = FuturesUnordered::new();
    // Since when an attempt is without an answer.
    let mut silent = None;
    let mut next = Instant::now();
    loop {
        if let Some(reason) = hold.lost() {
            return Err(reason);
        }
        let now = Instant::now();
        let deadline = hold.deadline();
        // How long to wait for an answer before the next attempt. Two more fit into what is left.
        let patience = response_timeout.min((deadline - now) / 3);
        let patience = patience.max(LEAST_PATIENCE);
        if next <= now {
            if let Some(since) = silent {
                events::renewal_retried(key, id, None);
                store.suspect(since);
            }
            silent = silent.or(Some(now));
            let (ttl, mode) = hold.change(|state| (state.lease.ttl(), state.mode));
            let seen = disconnects();
            let request = ask(store, key, Renewal { hold: id, ttl }, mode);
            attempts.push(async move { (now, seen, ttl, request.await) });
            next = now + patience;
        }
        let (sent, seen, ttl, answer) = select! {
            biased;
            Some(answered) = attempts.next() => answered,
            () = sleep_until(next.min(deadline)) => continue,
        };
        match answer {
            Ok(Presence::Present) => {
                confirm(hold, ttl, sent, seen);
                events::renewed(key, id);
                return Ok(());
            }
            Ok(Presence::Gone) => return Err(LostReason::Gone),
            Err(error) => events::renewal_retried(key, id, Some(&error)),
        }
        silent = None;
        if attempts.is_empty() {
            let pause = pauses.next().unwrap_or_default();
            next = Instant::now() + pause.min(patience);
        }
    }
}

/// A reader keeps its own lease.
fn ask(store: &Arc<dyn Store>, key: &LockKey, renewal: Renewal, mode: Mode) -> Answer<Presence> {
    let Renewal { hold, ttl } = renewal;
    match mode {
        Mode::Exclusive => store.renew(key, renewal),
        Mode::Shared => {
            let holds = vec![hold];
            let kept = store.keep(key, Keeping { holds, ttl });
            Box::pin(async move {
                let gone = kept.await?;
                Ok(if gone.is_empty() {
                    Presence::Present
                } else {
                    Presence::Gone
                })
            })
        }
    }
}

/// The renewal that was sent after so many disconnects is confirmed.
fn confirm(hold: &Hold, ttl: Duration, sent: Instant, disconnects: u64) {
    hold.change(|state| {
        state.lease.confirm(sent, ttl, Instant::now());
        state.lease.verify(disconnects);
    });
}

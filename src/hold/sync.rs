//! The updates of the store to the wanted depth of a hold.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;

use crate::base::backoff::Backoff;
use crate::base::error::{Failure, LostReason, StoreError};
use crate::base::events;
use crate::base::timer::{Elapsed, after, sleep_until, timeout_at};
use crate::hold::depth::{ChangeInFlight, NextChange};
use crate::hold::hold::Hold;
use crate::queue::LocalQueues;
use crate::store::{Presence, SetDepth, Store};

/// Waits until the store has every change that was made before this call, for at most `patience`. Returns whether it
/// has.
///
/// It does not wait for the changes that other callers make in the meantime. Otherwise nested calls that continually
/// enter and leave would keep each other from entering.
pub(super) async fn sync(
    hold: &Hold,
    store: &Arc<Store>,
    patience: Duration,
) -> Result<bool, Failure> {
    let wish = hold.change(|state| state.depth.wishes());
    sync_to(hold, store, wish, patience).await
}

async fn sync_to(
    hold: &Hold,
    store: &Arc<Store>,
    wish: u64,
    patience: Duration,
) -> Result<bool, Failure> {
    let (mut backoff, mut limit) = (Backoff::default(), None);
    while let Some(flight) = flight(hold, store, wish) {
        if let Some(reason) = hold.lost() {
            return Err(Failure::Lost(reason));
        }
        let now = Instant::now();
        let limit = *limit.get_or_insert_with(|| after(now, patience));
        if limit <= now {
            hold.change(|state| state.depth.is_away = true);
            return Ok(false);
        }
        let limit = limit.min(hold.deadline());
        let is_answered = store.answers_by(hold.key(), now, limit);
        let limited = timeout_at(limit, flight.answer.clone());
        match limited.sparing(is_answered, |_| true).await {
            Ok(Ok(Presence::Present)) => confirm(hold, &flight),
            // Work that had left its task was the last to leave, and its release has overtaken this change.
            Ok(Ok(Presence::Gone)) if hold.depth() == 0 && hold.lost().is_none() => break,
            Ok(Ok(Presence::Gone)) => {
                hold.lose(LostReason::Gone);
                return Err(Failure::Lost(LostReason::Gone));
            }
            Ok(Err(error)) => {
                land_failed(hold, &flight, error)?;
                let pause = Instant::now() + backoff.next_pause();
                sleep_until(pause.min(limit)).await;
            }
            Err(Elapsed) => {}
        }
    }
    Ok(true)
}

fn flight(hold: &Hold, store: &Arc<Store>, wish: u64) -> Option<ChangeInFlight> {
    hold.change(|state| {
        let ttl = state.lease.ttl();
        match state.depth.next(wish, hold.id(), state.mode, ttl) {
            NextChange::Nothing => None,
            NextChange::InFlight(flight) => Some(flight),
            NextChange::Change(change) => {
                let sent = Instant::now();
                let key = hold.key().clone();
                let answer = store.ask(SetDepth { key, change }).shared();
                Some(state.depth.fly(change, sent, answer))
            }
        }
    })
}

fn confirm(hold: &Hold, flight: &ChangeInFlight) {
    let change = flight.change;
    // If replicas must have it, the next renewal lengthens the lease.
    if change.lengthen && hold.confirm.is_none() {
        hold.change(|state| state.lease.confirm(flight.sent, change.ttl, Instant::now()));
    }
    land(hold, flight, Some(change.target));
}

/// Notes that the change has failed. Returns an error if it is useless to repeat it.
fn land_failed(hold: &Hold, flight: &ChangeInFlight, error: StoreError) -> Result<(), Failure> {
    let is_first_to_know = land(hold, flight, None);
    if error.effect().is_rejected() {
        hold.change(|state| state.depth.is_away = false);
        events::depth_rejected(hold.key(), hold.id(), &error);
        return Err(Failure::Store(error));
    }
    if is_first_to_know {
        events::depth_retried(hold.key(), hold.id(), &error);
    }
    Ok(())
}

fn land(hold: &Hold, flight: &ChangeInFlight, stored: Option<u32>) -> bool {
    hold.change(|state| {
        let ttl = state.lease.ttl();
        state.depth.land(flight, stored, ttl)
    })
}

/// The task that updates the store to the wanted depth if no caller waits for that. A hold has at most one of them, and
/// it ends when there is nothing left to do.
pub(super) struct Follower {
    hold: Arc<Hold>,
    queues: Arc<LocalQueues>,
    has_ended: bool,
}

impl Follower {
    /// `None` if the hold already has one.
    pub(super) fn of(hold: &Arc<Hold>, queues: &Arc<LocalQueues>) -> Option<Self> {
        let begins = hold.change(|state| state.depth.begin_to_follow());
        begins.then(|| Self {
            hold: Arc::clone(hold),
            queues: Arc::clone(queues),
            has_ended: false,
        })
    }

    pub(super) async fn run(mut self) {
        while !self.has_ended {
            let wish = self.hold.change(|state| state.depth.wishes());
            let synced = sync_to(&self.hold, self.queues.store(), wish, Duration::MAX).await;
            if let Err(Failure::Lost(reason)) = synced {
                self.hold.lose(reason);
                self.queues.lost(self.hold.key(), self.hold.id());
            }
            self.has_ended = self.hold.change(|state| state.depth.stop_to_follow(wish));
        }
    }
}

/// The task may end with its runtime.
impl Drop for Follower {
    fn drop(&mut self) {
        if !self.has_ended {
            self.hold.change(|state| state.depth.forget_follower());
        }
    }
}

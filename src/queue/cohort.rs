//! Handing a lock on in memory: the next call graph goes on with the hold, its lease and its renewals,
//! and takes the next one of the tokens that came with it.

use std::{any::Any, fmt, sync::Arc, time::Duration};

use tokio::{runtime, time::Instant};

use super::{Entering, Grant, Queue};
use crate::{
    base::{events, id::HoldId, key::LockKey, options::HandOff},
    store::Tokens,
};

/// One turn of a cohort: a hold as one of the call graphs has it that share it, one after the other.
pub(crate) trait Turn: Any + fmt::Debug + Send + Sync {
    fn key(&self) -> &LockKey;

    fn hold(&self) -> HoldId;

    /// The TTL that its renewals ask for.
    fn ttl(&self) -> Duration;

    /// Where its renewals live: they die with that runtime, and stand still with it.
    fn runtime(&self) -> runtime::Id;

    /// Whether some acquire of the hold was never answered.
    fn unanswered(&self) -> bool;

    /// Whether its lease goes on without an end of its own.
    fn is_open(&self) -> bool;

    /// Whether its lease is renewed.
    fn is_renewed(&self) -> bool;

    /// The next turn. The present one is over.
    fn next(&self) -> Arc<dyn Turn>;

    /// Ends a turn that its call graph has not come for. Returns until when the lease lasts for certain,
    /// and its TTL.
    fn give_up(&self) -> (Instant, Duration);
}

impl Queue {
    /// Hands a lock on at the end of a turn, with the tokens that are left. False if the lock has to be
    /// released.
    ///
    /// The next one must want what is there: the same TTL, and no end of its own. And nothing in the
    /// store may be meant for it, since it enters under the id of another hold.
    pub(crate) fn hand_on(self: &Arc<Self>, turn: &impl Turn, tokens: Tokens) -> bool {
        if self.queueing.handoff == HandOff::InStore
            || tokens.count == 0
            || !turn.is_renewed()
            || !turn.is_open()
        {
            return false;
        }
        let next = self.with_line(turn.key(), |line| {
            let handoffs = line.handoffs() + 1;
            let waiter = Arc::clone(line.first()?);
            let claim = waiter.claim();
            let fits = claim.tokens > 1
                && claim.ttl == turn.ttl()
                && waiter.runtime().id() == turn.runtime();
            if !fits || handoffs > self.queueing.local_handoffs || !waiter.inherits() {
                return None;
            }
            line.remove(&waiter)?;
            line.hold(turn.hold(), Entering::HandedOver(handoffs), None);
            Some(waiter)
        });
        let Some(waiter) = next.flatten() else {
            return false;
        };
        events::handed_on(turn.key(), turn.hold());
        let grant = Grant {
            queue: Arc::clone(self),
            key: turn.key().clone(),
            hold: turn.hold(),
            tokens,
            sent: Instant::now(),
            lease: turn.ttl(),
            ttl: turn.ttl(),
            unanswered: turn.unanswered(),
            runtime: waiter.runtime().clone(),
            turn: Some(turn.next()),
            entered: false,
        };
        waiter.bring(self, grant);
        true
    }
}

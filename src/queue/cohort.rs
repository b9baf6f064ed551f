//! A lock as it was won: from the store, or from another call graph that goes on with its hold.

use std::{any::Any, fmt, sync::Arc, time::Duration};

use tokio::{runtime, time::Instant};

use super::{
    step::{Grant, Release},
    tokens::TokenSeries,
};
use crate::base::{deadline::deadline, id::HoldId, key::LockKey};

/// One turn of a cohort: a hold as one of the call graphs has it that share it, one after the other.
pub(crate) trait Turn: Any + fmt::Debug + Send + Sync {
    fn key(&self) -> &LockKey;

    fn hold(&self) -> HoldId;

    /// The TTL that its renewals ask for.
    fn ttl(&self) -> Duration;

    /// Where its renewals live: they end with that runtime.
    fn runtime(&self) -> runtime::Id;

    /// Whether its lease goes on without an end of its own.
    fn is_open(&self) -> bool;

    /// Whether its lease is renewed.
    fn is_renewed(&self) -> bool;

    /// Its call graph has come for it: it is renewed again.
    fn claim(&self);

    /// The next turn. The present one is over.
    fn next(&self) -> Arc<dyn Turn>;

    /// Ends a turn that its call graph has not come for.
    fn give_up(&self) -> Release;

    /// The same lock as if it had been won now.
    fn grant(&self, tokens: TokenSeries) -> Grant {
        Grant {
            hold: self.hold(),
            tokens,
            sent: Instant::now(),
            lease: self.ttl(),
            ttl: self.ttl(),
            unanswered: false,
        }
    }
}

/// A lock that was won and not yet entered.
#[derive(Clone, Debug)]
pub(crate) enum Granted {
    /// From the store.
    Lock(Grant),
    /// From the call graph that had the turn before, in memory, with the token that follows.
    Turn {
        turn: Arc<dyn Turn>,
        tokens: TokenSeries,
    },
}

impl Granted {
    pub(crate) fn hold(&self) -> HoldId {
        match self {
            Self::Lock(grant) => grant.hold,
            Self::Turn { turn, .. } => turn.hold(),
        }
    }

    /// Whether its lease goes on. It may have ended while the one who waited for it was not polled.
    pub(super) fn is_live(&self) -> bool {
        match self {
            Self::Lock(grant) => Instant::now() < deadline(grant.sent, grant.lease),
            Self::Turn { turn, .. } => turn.is_open(),
        }
    }

    /// The end of a hold that is not entered.
    pub(super) fn release(&self) -> Release {
        match self {
            Self::Lock(grant) => Release {
                hold: grant.hold,
                tombstone: grant.unanswered,
                deadline: deadline(grant.sent, grant.lease),
                ttl: grant.ttl,
            },
            Self::Turn { turn, .. } => turn.give_up(),
        }
    }
}

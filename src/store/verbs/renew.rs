//! The renewal of leases: of exclusive holds, with several locks in one request, and of the readers of one lock.

use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use super::Verb;
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::redis::{Call, Script};
use crate::store::memory::State;
use crate::store::redis::codec::{HoldsArg, read_array, read_hold, read_integers};
use crate::store::redis::lua;

/// The maximum number of keys in one request, so that no script keeps the server busy for long.
pub(crate) const MAX_KEYS_PER_REQUEST: usize = 32;

/// A hold of one lock, as one of several.
pub(crate) type KeyedHold = (LockKey, HoldId);

/// Makes the leases of exclusive holds last at least the TTL from the execution of the request. Returns the outcome for
/// each hold. The keys are distinct, and at most [`MAX_KEYS_PER_REQUEST`].
#[derive(Clone, Debug)]
pub(crate) struct Renew {
    pub(crate) holds: Vec<KeyedHold>,
    pub(crate) ttl: Duration,
}

/// The outcome of a renewal for one of its holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RenewReply {
    Renewed,
    /// The lock does not have the hold.
    Gone,
    /// The key has met an error, and others have not. A request for this key alone returns the error.
    Failed,
}

impl RenewReply {
    fn from_integer(integer: i64) -> Option<Self> {
        match integer {
            1 => Some(Self::Renewed),
            0 => Some(Self::Gone),
            -1 => Some(Self::Failed),
            _ => None,
        }
    }
}

impl Verb for Renew {
    type Reply = Vec<RenewReply>;

    fn script() -> &'static Script {
        &lua::RENEW
    }

    fn call(&self) -> Call {
        let Self { holds, ttl } = self;
        let keys = holds.iter().map(|(key, _)| key.as_str());
        let call = Self::script().call(holds.len()).args(keys);
        let fields = holds.iter().map(|&(_, hold)| HoldsArg([hold]));
        call.millis(*ttl).args(fields)
    }

    fn decode(&self, reply: &Value) -> Option<Vec<RenewReply>> {
        let count = self.holds.len();
        // The usual case, all renewed, has the shortest reply.
        if *reply == Value::Int(0) {
            return Some(vec![RenewReply::Renewed; count]);
        }
        // An outcome too many or too few would be that of another hold.
        let answers = read_integers(reply).filter(|answers| answers.len() == count)?;
        answers.into_iter().map(RenewReply::from_integer).collect()
    }

    fn apply(self, state: &mut State, now: Instant) -> Vec<RenewReply> {
        let Self { holds, ttl } = self;
        // Each hold has an outcome of its own: one that is gone takes no other along.
        let answers = holds.iter().map(|(key, hold)| {
            let mut view = state.view(key, now);
            let lock = view.held(*hold);
            lock.map_or(RenewReply::Gone, |lock| {
                lock.lengthen(now, ttl);
                RenewReply::Renewed
            })
        });
        answers.collect()
    }
}

/// Makes the leases of holds that share the lock last at least the TTL from the execution of the request. Each of them
/// has a lease of its own. Returns the holds that are gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RenewReaders {
    pub(crate) key: LockKey,
    pub(crate) holds: Vec<HoldId>,
    pub(crate) ttl: Duration,
}

impl Verb for RenewReaders {
    type Reply = Vec<HoldId>;

    fn script() -> &'static Script {
        &lua::RENEW_READERS
    }

    fn call(&self) -> Call {
        let call = Self::script().call_on_lock(&self.key);
        call.arg(HoldsArg(self.holds.iter().copied()))
            .millis(self.ttl)
    }

    fn decode(&self, reply: &Value) -> Option<Vec<HoldId>> {
        read_array(reply)?.iter().map(read_hold).collect()
    }

    fn apply(self, state: &mut State, now: Instant) -> Vec<HoldId> {
        let Self { key, holds, ttl } = self;
        let mut view = state.view(&key, now);
        let (inside, gone) = view.inside_and_outside(&holds);
        if !inside.is_empty() {
            view.renew_readers(&inside, ttl);
        }
        // A reader that has died may have kept others out.
        if view.remove_expired_readers() {
            view.reset_expiry();
            view.admit(None, None);
        }
        gone
    }
}

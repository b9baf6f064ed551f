//! Renews the lease of an exclusive hold.

use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use super::Verb;
use crate::{
    base::{id::HoldId, key::LockKey},
    store::{
        memory::State,
        redis::{
            Call, Script, Unexpected, script,
            wire::{names::Field, value},
        },
    },
};

/// Whether the hold was in the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Present,
    Gone,
}

impl From<bool> for Presence {
    fn from(is_present: bool) -> Self {
        if is_present {
            Self::Present
        } else {
            Self::Gone
        }
    }
}

/// Makes the lease of an exclusive hold last at least the TTL from the execution of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Renew {
    pub(crate) key: LockKey,
    pub(crate) hold: HoldId,
    pub(crate) ttl: Duration,
}

impl Verb for Renew {
    type Reply = Presence;

    fn lua() -> &'static Script {
        script!("renew")
    }

    fn call(&self) -> Call {
        let call = Self::lua().call(1).arg(self.key.as_str());
        call.arg(Field(self.hold)).millis(self.ttl)
    }

    fn read(&self, reply: Value) -> Result<Presence, Unexpected> {
        value::flag(reply).map(Presence::from)
    }

    fn apply(self, state: &mut State, now: Instant) -> Presence {
        let Some(lock) = state.held(&self.key, self.hold, now) else {
            return Presence::Gone;
        };
        lock.lengthen(now, self.ttl);
        Presence::Present
    }
}

//! Renews the leases of exclusive holds.

use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use super::Verb;
use super::several::{HoldOf, at_index, fields};
use crate::store::memory::State;
use crate::store::redis::{Call, Script, Unexpected, script};

/// Makes the leases of exclusive holds last at least the TTL from the execution of the request. Returns the index of the
/// first hold that is gone; nothing is done for those after it. The keys differ, and are
/// [`MOST_TOGETHER`](super::several::MOST_TOGETHER) at most.
#[derive(Clone, Debug)]
pub(crate) struct Renew {
    pub(crate) holds: Vec<HoldOf>,
    pub(crate) ttl: Duration,
}

impl Verb for Renew {
    type Reply = Option<usize>;

    fn lua() -> &'static Script {
        script!("renew")
    }

    fn call(&self) -> Call {
        let Self { holds, ttl } = self;
        let keys = holds.iter().map(|(key, _)| key.as_str());
        let call = keys.fold(Self::lua().call(holds.len()), Call::arg);
        fields(call.millis(*ttl), holds)
    }

    fn read(&self, reply: Value) -> Result<Option<usize>, Unexpected> {
        match reply {
            Value::Int(0) => Ok(None),
            Value::Int(index) => match at_index(index, self.holds.len()) {
                Some(index) => Ok(Some(index)),
                None => Err(Unexpected(reply)),
            },
            other => Err(Unexpected(other)),
        }
    }

    fn apply(self, state: &mut State, now: Instant) -> Option<usize> {
        let Self { holds, ttl } = self;
        holds.iter().position(|(key, hold)| {
            let lock = state.held(key, *hold, now);
            lock.map(|lock| lock.lengthen(now, ttl)).is_none()
        })
    }
}

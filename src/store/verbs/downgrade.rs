//! Turns an exclusive hold into a reader.

use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use super::{Presence, Verb};
use crate::base::id::{FencingToken, HoldId};
use crate::base::key::LockKey;
use crate::store::memory::State;
use crate::store::redis::wire::names::Field;
use crate::store::redis::wire::reply;
use crate::store::redis::{Call, Script, Unexpected, script};

/// Makes an exclusive hold share its lock from now on, with a lease of at least the TTL, and with its token. Readers that
/// are first in the queue enter. Repeating it changes nothing but the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Downgrade {
    pub(crate) key: LockKey,
    pub(crate) hold: HoldId,
    pub(crate) ttl: Duration,
    /// The token of the hold, which may be later than the store knows.
    pub(crate) token: FencingToken,
}

impl Verb for Downgrade {
    type Reply = Presence;

    fn lua() -> &'static Script {
        script!("downgrade")
    }

    fn call(&self) -> Call {
        let call = Self::lua().on_lock(&self.key).arg(Field(self.hold));
        call.millis(self.ttl).arg(self.token.0)
    }

    fn read(&self, reply: Value) -> Result<Presence, Unexpected> {
        reply::flag(reply).map(Presence::from)
    }

    fn apply(self, state: &mut State, now: Instant) -> Presence {
        let Self {
            key,
            hold,
            mut ttl,
            token,
        } = self;
        let Some(lock) = state.held(&key, hold, now) else {
            return Presence::Gone;
        };
        // Later ones were given in memory.
        lock.token = lock.token.max(token.0);
        let expires = lock.expires;
        if state.line(&key, now, |line| line.reader(hold)).is_none() {
            // What the holder believes of its lease stays true.
            ttl = ttl.max(expires - now);
        }
        state.keep_all(&key, &[hold], ttl, now);
        state.admit(&key, None, None, now);
        Presence::Present
    }
}

//! The end of a hold that lets programs of another kind take the lock.

use redis::Value;
use tokio::time::Instant;

use super::Verb;
use super::release::{End, Release, ReleaseRequest};
use crate::base::key::LockKey;
use crate::base::neighbours::Neighbours;
use crate::store::memory::State;
use crate::store::redis::wire::names::{Entries, Field, Vacated, channel_of_neighbours};
use crate::store::redis::wire::reply;
use crate::store::redis::{Call, Script, Unexpected, script};

/// Ends an exclusive hold, if no process waits for the lock, or if the lock was not left free for a long time. Then the
/// lock stays free for a moment, and the programs that listen are notified. Otherwise it changes nothing, and the
/// release must follow.
#[derive(Clone, Debug)]
pub(crate) struct Vacate {
    pub(crate) key: LockKey,
    pub(crate) request: ReleaseRequest,
    pub(crate) neighbours: Neighbours,
}

impl Verb for Vacate {
    /// False if the release must follow.
    type Reply = bool;

    fn lua() -> &'static Script {
        script!("vacate")
    }

    fn call(&self) -> Call {
        let ReleaseRequest { hold, end, .. } = self.request;
        let end = End::Full(end.leftovers());
        let call = Self::lua().call(4).arg(self.key.as_str());
        let call = call.arg(self.key.line()).arg(Entries(&self.key));
        let call = call.arg(Vacated(&self.key)).arg(Field(hold)).arg(end);
        let call = call.arg(channel_of_neighbours(self.key.as_str()));
        let call = call.millis(self.neighbours.pause());
        let call = call.millis(self.neighbours.every);
        let release = Release {
            key: self.key.clone(),
            request: ReleaseRequest {
                end,
                ..self.request
            },
        };
        call.or(release.call())
    }

    fn read(&self, reply: Value) -> Result<bool, Unexpected> {
        reply::flag(reply)
    }

    /// No program of another kind can have a lock in memory.
    fn apply(self, _state: &mut State, _now: Instant) -> bool {
        false
    }
}

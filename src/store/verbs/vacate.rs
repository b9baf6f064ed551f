//! The end of a hold that lets programs of another kind take the lock.

use redis::Value;
use tokio::time::Instant;

use super::acquire::AcquireReply;
use super::release::{End, Release, ReleaseReply, ReleaseRequest};
use super::{Presence, Verb};
use crate::base::key::LockKey;
use crate::base::neighbours::Neighbours;
use crate::store::memory::State;
use crate::store::redis::wire::names::{Entries, Field, Vacated, channel_of_neighbours};
use crate::store::redis::wire::reply::integers;
use crate::store::redis::{Call, Script, Unexpected, in_millis, script};

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
    /// `None` if the release must follow.
    type Reply = Option<ReleaseReply>;

    fn lua() -> &'static Script {
        script!("vacate")
    }

    fn call(&self) -> Call {
        let ReleaseRequest {
            hold, inbox, end, ..
        } = self.request;
        let end = match end {
            End::Short => End::Full(end.leftovers()),
            _ => end,
        };
        let call = Self::lua().call(4).arg(self.key.as_str());
        let call = call.arg(self.key.line()).arg(Entries(&self.key));
        let call = call.arg(Vacated(&self.key)).arg(Field(hold)).arg(end);
        let call = call.arg(channel_of_neighbours(self.key.as_str()));
        let call = call.millis(self.neighbours.pause());
        let mut call = call.millis(self.neighbours.every);
        if let Some(successor) = end.successor() {
            let entry = successor.entry;
            let [lease, life] = [entry.grant, entry.life].map(in_millis);
            call = call.arg(Field(successor.hold)).arg(inbox.as_bytes());
            call = call.arg(format!("{lease} {life}")).told(entry);
        }
        let release = Release {
            key: self.key.clone(),
            request: ReleaseRequest {
                end: End::Full(end.leftovers()),
                ..self.request
            },
        };
        call.or(release.call())
    }

    fn read(&self, reply: Value) -> Result<Option<ReleaseReply>, Unexpected> {
        let released = Presence::Present;
        match (&reply, integers(&reply).as_deref()) {
            (Value::Int(0), _) => Ok(None),
            (Value::Int(1), _) => Ok(Some(released.into())),
            (_, Some(&[pause, now])) => {
                let waits = AcquireReply::busy(pause, now).ok_or(Unexpected(reply))?;
                let successor = self.request.end.successor().map(|_| waits);
                Ok(Some(ReleaseReply {
                    presence: released,
                    successor,
                }))
            }
            _ => Err(Unexpected(reply)),
        }
    }

    /// No program of another kind can have a lock in memory.
    fn apply(self, _state: &mut State, _now: Instant) -> Option<ReleaseReply> {
        None
    }
}

//! The question whether another process waits for a lock that this one holds.

use redis::Value;
use tokio::time::Instant;

use super::Verb;
use crate::base::id::{HoldId, InboxId};
use crate::base::key::LockKey;
use crate::store::memory::State;
use crate::store::redis::wire::names::Field;
use crate::store::redis::{Call, Script, Unexpected, script};

/// The number of places in the line that are checked.
const LOOKED_AT: usize = 64;

/// Asks whether another process waits for the lock of a hold.
#[derive(Clone, Debug)]
pub(crate) struct Contention {
    pub(crate) key: LockKey,
    pub(crate) hold: HoldId,
    pub(crate) inbox: InboxId,
    /// Whether the inbox gets a message when another process begins to wait, if none waits now.
    pub(crate) tells: bool,
}

/// Whether another process waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contended {
    Yes,
    No,
    /// The hold is not in the lock.
    Gone,
}

impl Verb for Contention {
    type Reply = Contended;

    fn lua() -> &'static Script {
        script!("contention")
    }

    fn call(&self) -> Call {
        let call = Self::lua().on_lock(&self.key).arg(Field(self.hold));
        let call = call.arg(self.inbox.as_bytes());
        match self.tells {
            true => call.arg(self.inbox.id()),
            false => call,
        }
    }

    fn read(&self, reply: Value) -> Result<Contended, Unexpected> {
        match reply {
            Value::Int(1) => Ok(Contended::Yes),
            Value::Int(0) => Ok(Contended::No),
            Value::Int(-1) => Ok(Contended::Gone),
            other => Err(Unexpected(other)),
        }
    }

    fn apply(self, state: &mut State, now: Instant) -> Contended {
        let mut view = state.view(&self.key, now);
        if view.held(self.hold).is_none() {
            return Contended::Gone;
        }
        let is_wanted = view.line(|line| {
            let mut places = line.standing().take(LOOKED_AT);
            places.any(|(place, process)| {
                let is_alive = process.is_some_and(|process| now < process.deadline);
                is_alive && place.inbox != self.inbox
            })
        });
        if is_wanted {
            return Contended::Yes;
        }
        if self.tells
            && view.latest().is_none()
            && let Some(lock) = view.held(self.hold)
        {
            lock.told = Some(self.inbox);
        }
        Contended::No
    }
}

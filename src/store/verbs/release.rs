//! The end of a hold.

use std::io::Write;

use redis::{RedisWrite, ToRedisArgs, Value};
use tokio::time::Instant;

use super::{Presence, Verb};
use crate::base::id::{HoldId, InboxId};
use crate::base::key::LockKey;
use crate::base::option_types::Mode;
use crate::store::memory::{State, StoredLine};
use crate::store::redis::wire::names::Field;
use crate::store::redis::wire::reply;
use crate::store::redis::{Call, Script, Short, ShortWish, Unexpected, script};

/// The request that ends a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReleaseRequest {
    pub(crate) hold: HoldId,
    /// Whether the hold shares the lock, or wants to share it.
    pub(crate) mode: Mode,
    /// The inbox of the process that has the hold.
    pub(crate) inbox: InboxId,
    pub(crate) end: End,
    /// Whether other holds end with it, so that it waits for their requests.
    pub(crate) with_others: bool,
}

impl ReleaseRequest {
    /// Appends the arguments that the releases of both modes have.
    pub(super) fn append_to(&self, call: Call) -> Call {
        let call = call.arg(Field(self.hold)).arg(self.end);
        match self.end {
            End::Short => call,
            _ => call.arg(self.inbox.as_bytes()),
        }
    }

    /// The release in its form for a batch, if its end is short.
    pub(super) fn short(
        &self,
        key: &LockKey,
        alone: fn(&LockKey, HoldId) -> Call,
    ) -> Option<Short> {
        let Self { hold, mode, .. } = *self;
        (self.end == End::Short).then(|| Short {
            key: key.clone(),
            hold,
            wish: ShortWish::Release { mode, alone },
        })
    }

    /// Removes the remains of the hold in memory, or leaves its tombstone.
    pub(super) fn clear(&self, line: &mut StoredLine, now: Instant) {
        let Leftovers { unanswered, nested } = self.end.leftovers();
        if unanswered {
            line.bury(now, self.hold);
        }
        if nested {
            line.forget_changes(self.hold);
        }
    }
}

/// The way in which a hold ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Only the field of the hold can be in the store. The lock goes to the process that has waited longest.
    Short,
    /// A place in the queue may remain as well. The lock goes to the process that has waited longest.
    Full(Leftovers),
}

impl End {
    pub(super) fn leftovers(self) -> Leftovers {
        match self {
            Self::Short => Leftovers::default(),
            Self::Full(leftovers) => leftovers,
        }
    }
}

/// The word for the end, and those for the remains of the hold. The short end has no word, so that it costs no
/// argument.
impl ToRedisArgs for End {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        if *self == Self::Short {
            return;
        }
        let Leftovers { unanswered, nested } = self.leftovers();
        let words = [
            (true, "full"),
            (unanswered, " unanswered"),
            (nested, " nested"),
        ];
        let mut out = out.writer_for_next_arg();
        for (_, word) in words.iter().filter(|(is_said, _)| *is_said) {
            // Writing to memory cannot fail.
            let _ = out.write_all(word.as_bytes());
        }
    }
}

/// The data that a hold that ends may have left in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Leftovers {
    /// Whether an acquire of the hold is unanswered. It may still arrive, and is then rejected because of a tombstone.
    pub(crate) unanswered: bool,
    /// Whether the depth of the hold may have changed. The number of its last change is removed.
    pub(crate) nested: bool,
}

/// Ends an exclusive hold, whether it is in the lock or in the queue, or an unanswered acquire may still put it there.
/// The lock moves to the process that has waited longest.
#[derive(Clone, Debug)]
pub(crate) struct Release {
    pub(crate) key: LockKey,
    pub(crate) request: ReleaseRequest,
}

impl Verb for Release {
    type Reply = Presence;

    fn lua() -> &'static Script {
        script!("release")
    }

    fn call(&self) -> Call {
        self.request.append_to(Self::lua().on_lock(&self.key))
    }

    fn goes_with_others(&self) -> bool {
        self.request.with_others
    }

    fn short(&self) -> Option<Short> {
        self.request.short(&self.key, alone)
    }

    fn read(&self, reply: Value) -> Result<Presence, Unexpected> {
        reply::flag(reply).map(Presence::from)
    }

    fn apply(self, state: &mut State, now: Instant) -> Presence {
        let mut view = state.view(&self.key, now);
        let ReleaseRequest {
            hold, inbox, end, ..
        } = self.request;
        let token = view.held(hold).map(|lock| lock.token);
        if token.is_some() {
            view.free();
        }
        view.line(|line| self.request.clear(line, now));
        if token.is_some() {
            if view.head().is_some() {
                view.admit(token, None);
            }
            return Presence::Present;
        }
        let is_left = |line: &mut StoredLine| line.names(inbox, hold) || line.is_forgotten(inbox);
        if end != End::Short && view.line(is_left) {
            view.line(|line| line.leave(inbox));
            if view.tidy() {
                view.admit(None, None);
            }
        }
        Presence::Gone
    }
}

/// The short release of a hold.
fn alone(key: &LockKey, hold: HoldId) -> Call {
    Release::lua().on_lock(key).arg(Field(hold))
}

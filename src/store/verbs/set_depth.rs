//! The change of the depth of a hold.

use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use super::{Presence, Verb};
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::options::Mode;
use crate::redis::{Call, Script};
use crate::store::memory::State;
use crate::store::redis::codec::{EntriesKey, HoldsArg, read_flag};
use crate::store::redis::lua;

/// The depth that a hold must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DepthChange {
    pub(crate) hold: HoldId,
    pub(crate) mode: Mode,
    pub(crate) target: u32,
    /// The number of the change, which grows with every change of the hold.
    pub(crate) seq: u64,
    pub(crate) ttl: Duration,
    /// Whether the lease must last at least `ttl` from now.
    pub(crate) lengthen: bool,
}

/// Sets the depth of a hold to a target, unless a change with a later number has been made.
#[derive(Clone, Debug)]
pub(crate) struct SetDepth {
    pub(crate) key: LockKey,
    pub(crate) change: DepthChange,
}

impl Verb for SetDepth {
    type Reply = Presence;

    fn script() -> &'static Script {
        &lua::SET_DEPTH
    }

    fn call(&self) -> Call {
        let Self { key, change } = self;
        // A reader has its own lease in the queue. Only then the third key is named, because each key costs the server.
        let with_own_lease = change.lengthen && change.mode == Mode::Shared;
        let call = Self::script().call(2 + usize::from(with_own_lease));
        let mut call = call.arg(key.as_str()).arg(EntriesKey(key));
        if with_own_lease {
            call = call.arg(key.queue());
        }
        let call = call.arg(HoldsArg([change.hold])).arg(change.target);
        // A TTL of zero leaves the lease as it is.
        call.arg(change.seq).millis(if change.lengthen {
            change.ttl
        } else {
            Duration::ZERO
        })
    }

    fn decode(&self, reply: &Value) -> Option<Presence> {
        read_flag(reply).map(Presence::from)
    }

    fn apply(self, state: &mut State, now: Instant) -> Presence {
        let Self { key, change } = self;
        let DepthChange {
            hold,
            mode,
            target,
            seq,
            ttl,
            lengthen,
        } = change;
        let mut view = state.view(&key, now);
        // A request that arrives after the end of its hold changes nothing.
        if view.held(hold).is_none() {
            return Presence::Gone;
        }
        if view.queue(|queue| queue.note_change(now, hold, seq))
            && let Some(lock) = view.held(hold)
        {
            lock.set_depth(hold, target);
            // A reader has a lease of its own beside that of the lock.
            if lengthen {
                lock.lengthen(now, ttl);
                let is_reader = view.queue(|queue| queue.reader(hold).is_some());
                if mode == Mode::Shared && is_reader {
                    view.queue(|queue| queue.renew_reader(hold, now + ttl));
                }
            }
        }
        Presence::Present
    }
}

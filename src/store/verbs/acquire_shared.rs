//! The entry of readers into a lock, or into its queue, and their exit.

use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use super::Verb;
use super::acquire::AcquireReply;
use crate::base::id::{FencingToken, HoldId};
use crate::base::key::LockKey;
use crate::redis::{Call, Script};
use crate::store::memory::{AskingProcess, LockView, State, WaitMode};
use crate::store::redis::codec::{HoldsArg, QueueEntry, read_array, read_hold};
use crate::store::redis::lua;

/// The request of readers of one process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AcquireSharedRequest {
    pub(crate) holds: Vec<HoldId>,
    pub(crate) ttl: Duration,
    /// The maximum number of holders that may share the lock; `None` for any number. With a limit there is one hold.
    pub(crate) limit: Option<u32>,
    /// The way in which the process of the holds waits; `None` if it does not.
    pub(crate) entry: Option<QueueEntry>,
}

/// Lets holds share the lock, unless it is held exclusively or a live process waits for it. There is one reply for each
/// of them, in their order. A repetition for a hold that already shares the lock returns its token, and its lease lasts
/// at least the TTL from then. Holds that are not let in wait as in [`Acquire`](super::acquire::Acquire).
#[derive(Clone, Debug)]
pub(crate) struct AcquireShared {
    pub(crate) key: LockKey,
    pub(crate) request: AcquireSharedRequest,
}

impl Verb for AcquireShared {
    type Reply = Vec<AcquireReply>;

    fn script() -> &'static Script {
        &lua::ACQUIRE_SHARED
    }

    fn call(&self) -> Call {
        let AcquireSharedRequest {
            holds,
            ttl,
            limit,
            entry,
        } = &self.request;
        // An empty text is no limit. The arguments of a waiter follow it, so it cannot be left out.
        let limit = limit.map(|limit| limit.to_string()).unwrap_or_default();
        let call = Self::script()
            .call_on_lock(&self.key)
            .arg(HoldsArg(holds.iter().copied()));
        let call = call.millis(*ttl).arg(limit);
        match entry {
            Some(entry) => call
                .arg(entry.inbox.as_bytes())
                .millis(entry.grant)
                .millis(entry.life),
            None => call,
        }
    }

    fn decode(&self, reply: &Value) -> Option<Vec<AcquireReply>> {
        let AcquireSharedRequest { holds, ttl, .. } = &self.request;
        let all = |reply| vec![reply; holds.len()];
        if let Value::Int(token) = reply {
            return AcquireReply::taken(*token, *ttl).map(all);
        }
        match *read_array(reply)? {
            [Value::Int(-1)] => Some(all(AcquireReply::Ended)),
            [Value::Int(0), Value::Int(remaining), Value::Int(now)] => {
                Some(all(AcquireReply::busy(remaining, now)?))
            }
            [
                Value::Int(1),
                Value::Int(token),
                Value::Int(remaining),
                Value::Int(now),
                ref inside @ ..,
            ] => {
                // The lock lasts as long as its last reader, so `remaining` is no lease of these holds: each of them
                // has the TTL.
                let lease = i64::try_from(ttl.as_millis()).ok()?;
                let entered = AcquireReply::held(token, lease, now)?;
                let waits = AcquireReply::busy(remaining, now)?;
                // If all of them are inside, none is named.
                let inside = inside.iter().map(read_hold).collect::<Option<Vec<_>>>()?;
                let is_inside = |hold| inside.is_empty() || inside.contains(hold);
                let reply = |hold| if is_inside(hold) { entered } else { waits };
                Some(holds.iter().map(reply).collect())
            }
            _ => None,
        }
    }

    fn apply(self, state: &mut State, now: Instant) -> Vec<AcquireReply> {
        let AcquireSharedRequest {
            holds, ttl, entry, ..
        } = &self.request;
        let mut view = state.view(&self.key, now);
        let mut left = holds.clone();
        // Requests that arrive after the end of their holds must not let them in.
        view.queue(|queue| left.retain(|hold| !queue.has_tombstone(*hold)));
        if left.is_empty() {
            return vec![AcquireReply::Ended; holds.len()];
        }
        // The queue may begin with readers that enter now, these among them.
        if self.ask(&mut view, &left) {
            let asking = entry.map(|entry| AskingProcess {
                inbox: entry.inbox,
                ttl: *ttl,
            });
            view.admit(None, asking);
        }
        let at = view.time();
        let lock = view.lock();
        let reply = |hold: &HoldId| match &lock {
            Some(lock) if left.contains(hold) && lock.has(*hold) => AcquireReply::Held {
                token: FencingToken(lock.token),
                lease: *ttl,
                at,
                // Only a writer is handed off in memory, so this is of no use to readers.
                is_contended: true,
            },
            lock => AcquireReply::Busy {
                remaining: lock.as_ref().map(|lock| lock.expires - now),
                now: at,
            },
        };
        holds.iter().map(reply).collect()
    }
}

impl AcquireShared {
    /// Keeps the holds that are inside, and lets the others into the lock or into the queue. Returns whether the lock is
    /// free or shared.
    fn ask(&self, view: &mut LockView<'_>, holds: &[HoldId]) -> bool {
        let AcquireSharedRequest {
            ttl, limit, entry, ..
        } = self.request;
        let mut is_shared = view.remove_expired_readers();
        let is_free = !is_shared && view.lock().is_none();
        let (inside, outside) = view.inside_and_outside(holds);
        // A repetition: the response to the first request, or a message, was lost.
        if !inside.is_empty() {
            view.renew_readers(&inside, ttl);
            is_shared = true;
        }
        let is_open = is_free || is_shared;
        if outside.is_empty() {
            return is_open;
        }
        // The others enter if no other process is ahead of theirs.
        let inbox = entry.map(|entry| entry.inbox);
        let ahead = if is_open { view.first_in_queue() } else { None };
        let is_next = ahead.is_none_or(|ahead| Some(ahead.inbox) == inbox);
        if is_open && is_next && (is_free || view.has_room(outside.len(), limit)) {
            if let Some(inbox) = inbox {
                view.queue(|queue| queue.leave(inbox));
            }
            view.let_readers_in(&outside, ttl, None);
        } else if let Some(entry) = entry {
            // Only a writer keeps the lock in its process, so only a writer gets the message.
            let holder = view.lock().filter(|_| !is_open);
            let holder = holder.and_then(|lock| lock.contended_inbox);
            view.enqueue(outside, WaitMode::Shared { limit }, entry, holder);
        }
        is_open
    }
}

//! The acquisition of a lock for one hold, or its entry into the queue.

use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use super::Verb;
use crate::base::id::{FencingToken, HoldId};
use crate::base::key::LockKey;
use crate::base::lease_times::StoreTime;
use crate::redis::{Call, Script};
use crate::store::memory::{State, WaitMode};
use crate::store::redis::batch::{BatchItem, ItemKind};
use crate::store::redis::codec::{
    HoldsArg, QueueEntry, read_integers, read_micros, read_millis, read_token,
};
use crate::store::redis::lua;

/// The request of one hold for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AcquireRequest {
    pub(crate) hold: HoldId,
    pub(crate) ttl: Duration,
    /// The way in which the hold waits; `None` if it does not.
    pub(crate) entry: Option<QueueEntry>,
    /// Whether other locks are requested with it, so that it waits for their requests.
    pub(crate) with_others: bool,
}

/// The reply to one hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AcquireReply {
    /// The hold has the lock, with this lease counted from the execution of the request.
    Held {
        token: FencingToken,
        lease: Duration,
        /// The time of the store at the execution.
        at: StoreTime,
        /// Whether another process may wait for the lock.
        is_contended: bool,
    },
    /// Another hold has the lock, for this long; `None` if it never expires.
    Busy {
        remaining: Option<Duration>,
        now: StoreTime,
    },
    /// The hold was ended before this request arrived.
    Ended,
}

/// Takes the lock for a hold if it is free and no live process waits for it. A repetition for a hold that already has
/// the lock returns the same token and a lease of at least the TTL. Otherwise a request with an entry enters the queue,
/// or keeps the place of its process there.
#[derive(Clone, Debug)]
pub(crate) struct Acquire {
    pub(crate) key: LockKey,
    pub(crate) request: AcquireRequest,
}

impl Verb for Acquire {
    type Reply = AcquireReply;

    fn script() -> &'static Script {
        &lua::ACQUIRE
    }

    fn call(&self) -> Call {
        let AcquireRequest {
            hold, ttl, entry, ..
        } = self.request;
        let call = Self::script()
            .call_on_lock(&self.key)
            .arg(HoldsArg([hold]))
            .millis(ttl);
        // A request that does not wait has no further arguments, which the server would have to read.
        let Some(entry) = entry else {
            return call;
        };
        let call = call.arg(entry.inbox.as_bytes());
        call.millis(entry.grant).millis(entry.life)
    }

    fn goes_with_others(&self) -> bool {
        self.request.with_others
    }

    fn batch_item(&self) -> Option<BatchItem> {
        let AcquireRequest {
            hold, ttl, entry, ..
        } = self.request;
        // Its entry does not travel. A request that does not get the lock in the batch has changed nothing. It is sent
        // alone, and then waits.
        Some(BatchItem {
            key: self.key.clone(),
            hold,
            kind: ItemKind::Acquire,
            terms: Some((ttl, entry.map(|entry| entry.inbox))),
            written: None,
        })
    }

    fn decode(&self, reply: &Value) -> Option<AcquireReply> {
        // The usual case has the shortest reply.
        if let Value::Int(token) = reply {
            return AcquireReply::taken(*token, self.request.ttl);
        }
        match read_integers(reply)?[..] {
            [1, token, lease, at] => AcquireReply::held(token, lease, at),
            [0, remaining, now] => AcquireReply::busy(remaining, now),
            [-1] => Some(AcquireReply::Ended),
            _ => None,
        }
    }

    fn apply(self, state: &mut State, now: Instant) -> AcquireReply {
        let AcquireRequest {
            hold, ttl, entry, ..
        } = self.request;
        let mut view = state.view(&self.key, now);
        // The request has arrived after the end of its hold.
        if view.queue(|queue| queue.has_tombstone(hold)) {
            return AcquireReply::Ended;
        }
        let at = view.time();
        let is_shared = view.remove_expired_readers();
        // Before this request enters or leaves the queue: it is about other processes.
        let is_contended = view.queue(|queue| queue.is_occupied());
        // A repetition: the response to the first request, or a message, was lost.
        if let Some(lock) = view.held(hold) {
            lock.lengthen(now, ttl);
            return AcquireReply::Held {
                token: FencingToken(lock.token),
                lease: lock.expires - now,
                at,
                // The reply of the script does not say, so a process may wait.
                is_contended: true,
            };
        }
        // A free lock goes to the first process in the queue, which may be that of this request.
        let inbox = entry.map(|entry| entry.inbox);
        let mut remaining = view.lock().map(|lock| lock.expires - now);
        let is_free = remaining.is_none();
        let ahead = if is_free { view.first_in_queue() } else { None };
        let ahead = ahead.map(|ahead| ahead.inbox);
        if is_free && ahead.is_none_or(|ahead| Some(ahead) == inbox) {
            if let Some(ahead) = ahead {
                view.queue(|queue| queue.leave(ahead));
            }
            let token = view.take_lock(&[hold], ttl, inbox, None);
            return AcquireReply::Held {
                token: FencingToken(token),
                lease: ttl,
                at,
                is_contended,
            };
        }
        // Otherwise the request waits, if it is one that waits.
        if let Some(entry) = entry {
            let holder = view.lock().and_then(|lock| lock.contended_inbox);
            view.enqueue(vec![hold], WaitMode::Exclusive, entry, holder);
        }
        // The lock is free and another process is ahead, or readers at the head of the queue have room now.
        if ahead.is_some() || is_shared {
            remaining = remaining.max(view.admit(None, None));
        }
        AcquireReply::Busy { remaining, now: at }
    }
}

/// The replies as the scripts write them.
impl AcquireReply {
    /// A lock that the hold has, and for which another process may wait.
    pub(super) fn held(token: i64, lease: i64, at: i64) -> Option<Self> {
        Some(Self::Held {
            token: read_token(token)??,
            lease: read_millis(lease)?,
            at: read_micros(at)?,
            is_contended: true,
        })
    }

    /// A lock that was free and is now held, and that no process waits for. The reply is the token, which is the time
    /// of the store. The lease is the requested one.
    pub(super) fn taken(token: i64, ttl: Duration) -> Option<Self> {
        Some(Self::Held {
            token: read_token(token)??,
            lease: read_millis(i64::try_from(ttl.as_millis()).ok()?)?,
            at: read_micros(token)?,
            is_contended: false,
        })
    }

    pub(super) fn busy(remaining: i64, now: i64) -> Option<Self> {
        let remaining = read_millis(remaining);
        let now = read_micros(now)?;
        Some(Self::Busy { remaining, now })
    }
}

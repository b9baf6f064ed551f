//! The acquisition of several locks with one request.

use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use super::Verb;
use super::acquire::AcquireReply;
use crate::base::id::{FencingToken, HoldId};
use crate::base::key::LockKey;
use crate::base::time::StoreTime;
use crate::store::memory::{NewLock, State};
use crate::store::redis::wire::names::{Entries, Field};
use crate::store::redis::wire::reply::{integers, micros};
use crate::store::redis::{Call, Script, Unexpected, script};

/// The maximum number of keys in one request, so that no script keeps the server busy for long.
pub(crate) const MOST_TOGETHER: usize = 32;

/// A hold of one lock, as one of several.
pub(crate) type HoldOf = (LockKey, HoldId);

/// The result of the request of one hold for several locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AcquireAllReply {
    /// The hold has all the locks. Each key has its token and its lease, counted from the execution of the request.
    Held {
        /// The time of the store at the execution.
        at: StoreTime,
        locks: Vec<(FencingToken, Duration)>,
    },
    /// Nothing was taken. The key with this index is the first whose lock is not free.
    Busy { first: usize },
    /// The hold was ended before this request arrived.
    Ended,
}

impl AcquireAllReply {
    /// The reply for the key with this index.
    pub(crate) fn part(&self, index: usize) -> AcquireReply {
        // The request has named no inbox. So the hold is not in a queue, and does not need the time of the store.
        let busy = AcquireReply::Busy {
            remaining: None,
            now: StoreTime { micros: 0 },
        };
        match self {
            Self::Held { at, locks } => {
                locks
                    .get(index)
                    .map_or(busy, |&(token, lease)| AcquireReply::Held {
                        token,
                        lease,
                        at: *at,
                        is_contended: true,
                    })
            }
            Self::Busy { .. } => busy,
            Self::Ended => AcquireReply::Ended,
        }
    }
}

/// Takes several locks for one hold, or none of them, with leases of this TTL. It takes only locks that are free and
/// that no process waits for, and never waits. A repetition for a hold that already has them all returns the same
/// tokens and leases of at least the TTL. The keys are distinct, and at most [`MOST_TOGETHER`].
#[derive(Clone, Debug)]
pub(crate) struct AcquireAll {
    pub(crate) keys: Vec<LockKey>,
    pub(crate) hold: HoldId,
    pub(crate) ttl: Duration,
}

impl Verb for AcquireAll {
    type Reply = AcquireAllReply;

    fn lua() -> &'static Script {
        script!("acquire_all")
    }

    fn call(&self) -> Call {
        let Self { keys, hold, ttl } = self;
        let call = Self::lua().call(3 * keys.len());
        let call = keys
            .iter()
            .fold(call, |call, key| call.arg(key.as_str()).arg(key.line()));
        let entries = keys.iter().map(Entries);
        entries.fold(call, Call::arg).arg(Field(*hold)).millis(*ttl)
    }

    fn read(&self, reply: Value) -> Result<AcquireAllReply, Unexpected> {
        let count = self.keys.len();
        let lock = |acquired| match acquired {
            AcquireReply::Held { token, lease, .. } => Some((token, lease)),
            _ => None,
        };
        let parse = |integers: &[i64]| match *integers {
            [-1] => Some(AcquireAllReply::Ended),
            [0, index] => Some(AcquireAllReply::Busy {
                first: at_index(index, count)?,
            }),
            [1, at, ref pairs @ ..] => {
                let (pairs, []) = pairs.as_chunks::<2>() else {
                    return None;
                };
                let held = |&[token, lease]: &[i64; 2]| lock(AcquireReply::held(token, lease, at)?);
                let locks = pairs.iter().map(held).collect::<Option<Vec<_>>>();
                Some(AcquireAllReply::Held {
                    at: micros(at)?,
                    locks: locks.filter(|locks| locks.len() == count)?,
                })
            }
            _ => None,
        };
        let taken = |token| {
            let taken = lock(AcquireReply::taken(token, self.ttl)?)?;
            Some(AcquireAllReply::Held {
                at: micros(token)?,
                locks: vec![taken; count],
            })
        };
        let acquired = match &reply {
            Value::Int(token) => taken(*token),
            reply => integers(reply).as_deref().and_then(parse),
        };
        acquired.ok_or(Unexpected(reply))
    }

    fn apply(self, state: &mut State, now: Instant) -> AcquireAllReply {
        let Self { keys, hold, ttl } = self;
        let mut is_buried = |key| state.view(key, now).line(|line| line.is_buried(hold));
        if keys.iter().any(&mut is_buried) {
            return AcquireAllReply::Ended;
        }
        let at = state.time(now);
        for key in &keys {
            state.view(key, now).tidy();
        }
        let busy = keys.iter().position(|key| {
            let mut view = state.view(key, now);
            view.lock().is_some() || view.head().is_some()
        });
        let Some(first) = busy else {
            let token = state.token(now);
            let new = NewLock {
                holds: &[hold],
                lease: ttl,
                told: None,
            };
            for key in &keys {
                state.take(key, new, token, now);
            }
            let locks = vec![(FencingToken(token), ttl); keys.len()];
            return AcquireAllReply::Held { at, locks };
        };
        let mut is_gone = |key| state.view(key, now).held(hold).is_none();
        if keys.iter().any(&mut is_gone) {
            return AcquireAllReply::Busy { first };
        }
        let mine = keys.iter().filter_map(|key| {
            let mut view = state.view(key, now);
            let lock = view.held(hold)?;
            lock.lengthen(now, ttl);
            Some((FencingToken(lock.token), lock.expires - now))
        });
        let locks = mine.collect();
        AcquireAllReply::Held { at, locks }
    }
}

/// Appends the hold of each key.
pub(super) fn fields(call: Call, holds: &[HoldOf]) -> Call {
    let fields = holds.iter().map(|&(_, hold)| Field(hold));
    fields.fold(call, Call::arg)
}

/// An index in Lua, which counts from 1.
fn at_index(index: i64, count: usize) -> Option<usize> {
    let at = usize::try_from(index).ok()?.checked_sub(1)?;
    (at < count).then_some(at)
}

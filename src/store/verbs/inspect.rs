//! The inspection of a lock, and the end of its holds by force.

use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use super::Verb;
use crate::base::id::{FencingToken, HoldId, OwnerId};
use crate::base::key::LockKey;
use crate::base::lease_times::StoreTime;
use crate::base::process::Holder;
use crate::redis::{Call, Script};
use crate::store::memory::State;
use crate::store::redis::codec::{ForcedMessage, read_array, read_micros, read_millis, read_token};
use crate::store::redis::lua;

/// The maximum number of holders that an inspection returns.
pub(crate) const MAX_HOLDERS_SHOWN: usize = 1_000;

/// The content of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// The holders, at most [`MAX_HOLDERS_SHOWN`] of them.
    pub(crate) holders: Vec<HolderField>,
    /// Whether the holders are readers.
    pub(crate) is_shared: bool,
    /// The remaining lease; `None` if the lock never expires.
    pub(crate) remaining: Option<Duration>,
    /// The token; `None` if the lock is held by a program that gives no tokens, or if the token is not known.
    pub(crate) token: Option<FencingToken>,
    /// The number of processes in the queue.
    pub(crate) waiting: u64,
    /// The time of the inspection.
    pub(crate) at: StoreTime,
}

/// One field of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HolderField {
    /// The name of the field. Other programs may write any bytes there.
    pub(crate) field: Vec<u8>,
    /// The depth; 0 if the value is not a number from 0 to `u64::MAX`.
    pub(crate) depth: u64,
    /// The lease of a reader.
    pub(crate) remaining: Option<Duration>,
}

/// The holders that an inspection has returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeenHolders {
    pub(crate) fields: Vec<Vec<u8>>,
    pub(crate) token: Option<FencingToken>,
}

impl Snapshot {
    /// The time since the lock was taken, which is the time of its token. `None` if the clock was set back since.
    pub(crate) fn held_for(&self) -> Option<Duration> {
        let token = self.token?;
        self.at.since(StoreTime { micros: token.0 })
    }

    /// Its holders in their public form. Their processes are not known yet.
    pub(crate) fn shown(&self, is_here: impl Fn(HoldId) -> bool) -> impl Iterator<Item = Holder> {
        let held_for = self.held_for();
        self.holders.iter().map(move |seen| {
            let hold_id = String::from_utf8_lossy(&seen.field).into_owned();
            Holder {
                owner: OwnerId::parse_field(&hold_id).map(|owner| owner.to_string()),
                process: None,
                is_here: hold_id.parse().is_ok_and(&is_here),
                depth: seen.depth,
                held_for,
                remaining: seen.remaining,
                hold_id,
            }
        })
    }

    /// Returns whether a hold is in the lock. Of very many readers only some are known, so any may be.
    pub(crate) fn has(&self, hold: HoldId) -> bool {
        let field = hold.to_string();
        let mut holders = self.holders.iter();
        self.is_shared || holders.any(|seen| seen.field == field.as_bytes())
    }

    /// The holders with the token of the lock.
    pub(crate) fn seen(self) -> SeenHolders {
        let holders = self.holders.into_iter();
        SeenHolders {
            fields: holders.map(|holder| holder.field).collect(),
            token: self.token,
        }
    }
}

/// Returns the content of the lock; `None` if it is free.
#[derive(Clone, Debug)]
pub(crate) struct Inspect {
    pub(crate) key: LockKey,
    pub(crate) queue: QueueLength,
}

/// Whether an inspection counts the processes in the queue. Each of these processes may inspect the lock to find its
/// holder. Such an inspection does not count the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueLength {
    Counted,
    /// The count may be 0 although processes wait.
    NotCounted,
}

impl Inspect {
    /// An inspection that counts the processes in the queue.
    pub(crate) fn of(key: &LockKey) -> Self {
        Self {
            key: key.clone(),
            queue: QueueLength::Counted,
        }
    }
}

impl Verb for Inspect {
    type Reply = Option<Snapshot>;

    fn script() -> &'static Script {
        &lua::INSPECT
    }

    fn call(&self) -> Call {
        let call = Self::script()
            .call_on_lock(&self.key)
            .arg(MAX_HOLDERS_SHOWN);
        match self.queue {
            QueueLength::Counted => call.arg(1),
            QueueLength::NotCounted => call,
        }
    }

    fn decode(&self, reply: &Value) -> Option<Option<Snapshot>> {
        let [
            Value::Int(remaining),
            Value::Int(waiting),
            Value::Int(token),
            Value::Int(is_shared @ 0..=1),
            Value::Int(at),
            fields @ ..,
        ] = read_array(reply)?
        else {
            return None;
        };
        let waiting = u64::try_from(*waiting).ok()?;
        let token = read_token(*token)?;
        let at = read_micros(*at)?;
        // Three values for each field. Anything else is no reply of the script.
        let (fields, []) = fields.as_chunks::<3>() else {
            return None;
        };
        // A hash without fields does not exist: the lock is free.
        if fields.is_empty() {
            return Some(None);
        }
        Some(Some(Snapshot {
            holders: fields.iter().map(read_holder).collect::<Option<_>>()?,
            is_shared: *is_shared == 1,
            remaining: read_millis(*remaining),
            token,
            waiting,
            at,
        }))
    }

    fn apply(self, state: &mut State, now: Instant) -> Option<Snapshot> {
        let mut view = state.view(&self.key, now);
        let at = view.time();
        let waiting = view.queue(|queue| queue.waiting(now));
        // Leases of readers count only while the lock is shared. Otherwise they are left from a lock that was deleted.
        let is_shared = view.latest_reader().is_some();
        let lock = view.lock()?;
        let (remaining, token) = (lock.expires - now, lock.token);
        let fields = lock.fields.clone().into_iter();
        let holders = fields.map(|(hold, depth)| {
            let lasts = view.queue(|queue| queue.reader(hold));
            HolderField {
                field: hold.to_string().into_bytes(),
                depth: u64::from(depth),
                remaining: lasts.filter(|_| is_shared).map(|lasts| lasts - now),
            }
        });
        Some(Snapshot {
            holders: holders.collect(),
            is_shared,
            remaining: Some(remaining),
            token: Some(FencingToken(token)),
            waiting,
            at,
        })
    }
}

fn read_holder(values: &[Value; 3]) -> Option<HolderField> {
    let [
        Value::BulkString(field),
        Value::BulkString(depth),
        Value::Int(remaining),
    ] = values
    else {
        return None;
    };
    // Another program may have written any value.
    let depth = str::from_utf8(depth)
        .ok()
        .and_then(|text| text.parse().ok());
    Some(HolderField {
        field: field.clone(),
        depth: depth.unwrap_or_default(),
        remaining: read_millis(*remaining),
    })
}

/// Ends the holds that were `seen`, if they still exist, and returns their fields. The lock moves on, unless other
/// holds are in it. A hash that does not look like a lock is rejected.
#[derive(Clone, Debug)]
pub(crate) struct ForceRelease {
    pub(crate) key: LockKey,
    pub(crate) seen: SeenHolders,
}

impl Verb for ForceRelease {
    type Reply = Vec<Vec<u8>>;

    fn script() -> &'static Script {
        &lua::FORCE_RELEASE
    }

    fn call(&self) -> Call {
        let SeenHolders { fields, token } = &self.seen;
        let token = token.map(|token| token.to_string()).unwrap_or_default();
        Self::script()
            .call_on_lock(&self.key)
            .arg(token)
            .arg(&fields[..])
    }

    fn decode(&self, reply: &Value) -> Option<Vec<Vec<u8>>> {
        let field = |value: &Value| match value {
            Value::BulkString(field) => Some(field.clone()),
            _ => None,
        };
        read_array(reply)?.iter().map(field).collect()
    }

    fn apply(self, state: &mut State, now: Instant) -> Vec<Vec<u8>> {
        let Self { key, seen } = self;
        let mut view = state.view(&key, now);
        let Some(lock) = view.lock() else {
            return Vec::new();
        };
        let token = lock.token;
        let fields = seen.fields.iter();
        // A hold id is parsed only from its own text, so this compares the fields as bytes, like Redis.
        let seen_holds = fields.filter_map(|field| str::from_utf8(field).ok()?.parse().ok());
        let holds: Vec<HoldId> = seen_holds.filter(|hold| lock.has(*hold)).collect();
        // Another acquisition has taken the lock since it was inspected. The fields alone do not show it, because a
        // classic program uses one again.
        if holds.is_empty() || seen.token.is_some_and(|seen| seen.0 != token) {
            return Vec::new();
        }
        if lock.remove_holds(&holds) {
            view.free();
        }
        // Nothing of the holds may remain: a reader would keep writers out until its lease expires.
        for &hold in &holds {
            view.queue(|queue| {
                queue.forget_reader(hold);
                queue.forget_changes(hold);
            });
        }
        // The next one enters in the same step, as after a release.
        view.admit_after_exit(token);
        let ended = holds.iter().map(|hold| hold.to_string().into_bytes());
        let ended = ended.collect();
        let key = key.as_str().to_owned();
        state.notify_all(ForcedMessage { key, holds });
        ended
    }
}

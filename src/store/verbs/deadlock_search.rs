//! The publication of waits, and the search for those that wait for each other.
//!
//! A record is `stamp deadline length hold length hold length …`, then a line feed, then keys without separators. The
//! first is the key that is waited for. The others are the keys of the holds that enclose the wait. Each length is that
//! of a key in bytes. Lengths are needed because a key may contain any text.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use super::Verb;
use crate::base::id::{HoldId, OwnerId};
use crate::base::lease_times::StoreTime;
use crate::redis::{Call, Script};
use crate::store::memory::State;
use crate::store::redis::codec::{
    EnclosedWait, HoldsArg, ListedWait, ListedWaits, OuterHold, UpdateWaitReply, lateness,
    read_array, read_flag, read_hold, read_micros, victim_key, waits_key,
};
use crate::store::redis::lua;

/// A change of the published waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UpdateWait {
    Publish(PublishWait),
    /// Removes the record of a wait with this owner.
    Withdraw {
        owner: OwnerId,
        wait: HoldId,
    },
}

/// Stores for one owner that an acquisition waits. A repetition makes the record live longer.
///
/// A record that takes too long to arrive is rejected. So a stored record was sent at most a known time before it was
/// stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PublishWait {
    /// The owner of one of the enclosing holds.
    pub(crate) owner: OwnerId,
    pub(crate) wait: Arc<EnclosedWait>,
    /// The lifetime of the record. It is rejected if it takes a quarter of that to arrive.
    pub(crate) life: Duration,
    /// A time of the store that was read before the record was made; `None` if none is known. Without it the record is
    /// rejected.
    pub(crate) known: Option<StoreTime>,
}

impl UpdateWait {
    /// The owner whose record is changed.
    pub(crate) fn owner(&self) -> OwnerId {
        match self {
            Self::Publish(publish) => publish.owner,
            Self::Withdraw { owner, .. } => *owner,
        }
    }
}

impl Verb for UpdateWait {
    type Reply = UpdateWaitReply;

    fn script() -> &'static Script {
        &lua::UPDATE_WAIT
    }

    fn call(&self) -> Call {
        let call = Self::script().call(1).arg(waits_key(self.owner()));
        match self {
            Self::Publish(PublishWait {
                wait, life, known, ..
            }) => {
                let call = call.arg(HoldsArg([wait.id])).arg(written(wait));
                let call = call.millis(*life).millis(lateness(*life));
                // Zero is long ago, so the record is rejected as late, and the reply has the time for the next one.
                call.arg(known.map_or(0, |known| known.micros))
            }
            // An empty record removes the one that is stored.
            Self::Withdraw { wait, .. } => call.arg(HoldsArg([*wait])).arg(""),
        }
    }

    fn decode(&self, reply: &Value) -> Option<UpdateWaitReply> {
        match *reply {
            Value::Int(micros @ 1..) => time(micros).map(UpdateWaitReply::Done),
            // A negative time is that at which a record was rejected.
            Value::Int(micros) => time(micros.checked_neg()?).map(UpdateWaitReply::Late),
            _ => None,
        }
    }

    fn apply(self, state: &mut State, now: Instant) -> UpdateWaitReply {
        let now = state.time(now);
        match self {
            Self::Publish(PublishWait {
                owner,
                wait,
                life,
                known,
            }) => {
                let passed = known.and_then(|known| now.since(known));
                // The walks rely on it that a stored record was true at most that long before.
                if passed.is_none_or(|passed| passed > lateness(life)) {
                    return UpdateWaitReply::Late(now);
                }
                let seen = ListedWait {
                    wait: EnclosedWait::clone(&wait),
                    stamp: now,
                    life,
                };
                state.waits.publish(owner, seen);
            }
            Self::Withdraw { owner, wait } => state.waits.withdraw(owner, wait),
        }
        UpdateWaitReply::Done(now)
    }
}

/// Returns the waits that a hold encloses, if they are published.
#[derive(Clone, Debug)]
pub(crate) struct ListWaits {
    pub(crate) hold: HoldId,
}

impl Verb for ListWaits {
    type Reply = ListedWaits;

    fn script() -> &'static Script {
        &lua::LIST_WAITS
    }

    fn call(&self) -> Call {
        let call = Self::script().call(1).arg(waits_key(self.hold.owner()));
        call.arg(HoldsArg([self.hold]))
    }

    fn decode(&self, reply: &Value) -> Option<ListedWaits> {
        let [Value::Int(at), records @ ..] = read_array(reply)? else {
            return None;
        };
        let (records, []) = records.as_chunks::<2>() else {
            return None;
        };
        let mut waits = Vec::new();
        for record in records {
            let [Value::BulkString(wait), Value::BulkString(record)] = record else {
                return None;
            };
            // No version of this crate has written a record that cannot be read.
            let wait = read(wait, record);
            // The key is that of the owner, whose other holds may enclose other waits.
            waits.extend(wait.filter(|seen| seen.wait.is_enclosed_by(self.hold)));
        }
        let at = time(*at)?;
        Some(ListedWaits { at, waits })
    }

    fn apply(self, state: &mut State, now: Instant) -> ListedWaits {
        let at = state.time(now);
        let waits = state.waits.live(self.hold, at);
        ListedWaits { at, waits }
    }
}

/// Returns the holds in a lock. Fields of other programs are omitted, unless they have the form of a hold id.
#[derive(Clone, Debug)]
pub(crate) struct ListHolds {
    /// The key in the store.
    pub(crate) key: Arc<str>,
}

impl Verb for ListHolds {
    type Reply = Vec<HoldId>;

    fn script() -> &'static Script {
        &lua::LIST_HOLDS
    }

    fn call(&self) -> Call {
        Self::script().call(1).arg(&*self.key)
    }

    fn decode(&self, reply: &Value) -> Option<Vec<HoldId>> {
        let is_text = |field: &Value| matches!(field, Value::BulkString(_));
        let fields = read_array(reply).filter(|fields| fields.iter().all(is_text))?;
        Some(fields.iter().filter_map(read_hold).collect())
    }

    fn apply(self, state: &mut State, now: Instant) -> Vec<HoldId> {
        state.holds(&self.key, now)
    }
}

/// Makes a wait the victim of a cycle, unless another wait of the cycle is the victim. Returns whether it is the
/// victim.
///
/// The victim of another cycle counts only if it is also part of this one. Then it resolves both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimVictim {
    pub(crate) victim: HoldId,
    /// The other waits of the cycle.
    pub(crate) others: Vec<HoldId>,
    /// The time for which no other wait of the cycle becomes the victim of a cycle with the same least wait.
    pub(crate) life: Duration,
}

impl ClaimVictim {
    /// The least wait of the cycle. The victim is stored under it, whichever walk has found the cycle.
    pub(crate) fn least(&self) -> HoldId {
        let others = self.others.iter().copied();
        others.fold(self.victim, HoldId::min)
    }
}

impl Verb for ClaimVictim {
    type Reply = bool;

    fn script() -> &'static Script {
        &lua::CLAIM_VICTIM
    }

    fn call(&self) -> Call {
        let call = Self::script().call(1).arg(victim_key(self.least()));
        let call = call.arg(HoldsArg([self.victim])).millis(self.life);
        let others = self.others.iter();
        others.fold(call, |call, wait| call.arg(HoldsArg([*wait])))
    }

    fn decode(&self, reply: &Value) -> Option<bool> {
        read_flag(reply)
    }

    fn apply(self, state: &mut State, now: Instant) -> bool {
        let now = state.time(now);
        let (least, until) = (self.least(), now.after(self.life));
        let waits = &mut state.waits;
        waits.claim(least, self.victim, &self.others, now, until)
    }
}

/// The record of a wait, without its times.
fn written(wait: &EnclosedWait) -> String {
    let mut record = wait.key.len().to_string();
    for OuterHold { hold, key } in &wait.enclosing {
        // Writing to memory cannot fail.
        let _ = write!(record, " {hold} {}", key.len());
    }
    record.push('\n');
    record.push_str(&wait.key);
    let keys = wait.enclosing.iter();
    keys.for_each(|enclosing| record.push_str(&enclosing.key));
    record
}

/// The record of a wait, if it can be read.
fn read(wait: &[u8], record: &[u8]) -> Option<ListedWait> {
    let id = str::from_utf8(wait).ok()?.parse().ok()?;
    // The lengths cut the keys, which may contain any text, so that no key is taken for another one.
    let (head, mut keys) = str::from_utf8(record).ok()?.split_once('\n')?;
    let mut words = head.split(' ');
    let [stamp, deadline] = [words.next()?, words.next()?].map(|word| word.parse().ok());
    let (stamp, deadline): (u64, u64) = (stamp?, deadline?);
    let mut key = |length: &str| {
        let (key, rest) = keys.split_at_checked(length.parse().ok()?)?;
        keys = rest;
        Some(Arc::from(key))
    };
    let waited_for = key(words.next()?)?;
    let mut enclosing = Vec::new();
    while let Some(hold) = words.next() {
        let (hold, key) = (hold.parse().ok()?, key(words.next()?)?);
        enclosing.push(OuterHold { hold, key });
    }
    Some(ListedWait {
        wait: EnclosedWait {
            id,
            key: waited_for,
            enclosing,
        },
        stamp: StoreTime { micros: stamp },
        life: Duration::from_micros(deadline.checked_sub(stamp)?),
    })
}

fn time(micros: i64) -> Option<StoreTime> {
    read_micros(micros).filter(|time| time.micros > 0)
}

#[cfg(test)]
mod tests;

//! Publishes waits, and looks for those that wait for each other.
//!
//! A record is `stamp deadline length hold length hold length …`, then a line feed, then the key that is waited
//! for and the keys of the holds that enclose the wait, one after the other: the lengths say in bytes where each
//! ends, since a key may hold any text.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use super::Verb;
use crate::base::id::{HoldId, OwnerId};
use crate::base::time::StoreTime;
use crate::store::memory::State;
use crate::store::records::{EnclosedWait, Enclosing, Published, SeenWait, SeenWaits, lateness};
use crate::store::redis::wire::names::{self, Field};
use crate::store::redis::wire::reply;
use crate::store::redis::{Call, Script, Unexpected, script};

/// Stores with one owner that an acquisition waits. Repeating it makes the record live longer.
///
/// A record that takes too long to arrive is rejected. So a record that is stored at some time was sent a known span
/// before that at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PublishWait {
    /// The owner of one of the enclosing holds.
    pub(crate) owner: OwnerId,
    pub(crate) wait: Arc<EnclosedWait>,
    /// How long the record lives. It is rejected if it takes a quarter of that to arrive.
    pub(crate) life: Duration,
    /// A time of the store that was read before the record was sent; `None` if none is known. Then the record is
    /// rejected.
    pub(crate) known: Option<StoreTime>,
}

impl Verb for PublishWait {
    type Reply = Published;

    fn lua() -> &'static Script {
        script!("wait")
    }

    fn call(&self) -> Call {
        let call = Self::lua().call(1).arg(names::waits_of(self.owner));
        let call = call.arg(Field(self.wait.id)).arg(written(&self.wait));
        let call = call.millis(self.life).millis(lateness(self.life));
        call.arg(self.known.map_or(0, |known| known.micros))
    }

    fn read(&self, reply: Value) -> Result<Published, Unexpected> {
        let published = match reply {
            Value::Int(micros) if micros > 0 => time(micros).map(Published::Made),
            Value::Int(micros) => micros.checked_neg().and_then(time).map(Published::Refused),
            _ => None,
        };
        published.ok_or(Unexpected(reply))
    }

    fn apply(self, state: &mut State, now: Instant) -> Published {
        let Self {
            owner,
            wait,
            life,
            known,
        } = self;
        let now = state.time(now);
        let passed = known.and_then(|known| now.since(known));
        if passed.is_none_or(|passed| passed > lateness(life)) {
            return Published::Refused(now);
        }
        let seen = SeenWait {
            wait: EnclosedWait::clone(&wait),
            stamp: now,
            life,
        };
        state.waits.publish(owner, seen);
        Published::Made(now)
    }
}

/// Shows the waits that a hold encloses, as far as they are published.
#[derive(Clone, Debug)]
pub(crate) struct WaitsOf {
    pub(crate) hold: HoldId,
}

impl Verb for WaitsOf {
    type Reply = SeenWaits;

    fn lua() -> &'static Script {
        script!("look")
    }

    fn call(&self) -> Call {
        let call = Self::lua().call(1).arg(names::waits_of(self.hold.owner()));
        call.arg(Field(self.hold))
    }

    fn read(&self, reply: Value) -> Result<SeenWaits, Unexpected> {
        let parse = || {
            let Value::Array(values) = &reply else {
                return None;
            };
            let [Value::Int(at), records @ ..] = &values[..] else {
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
                // A record that cannot be read was written by no version of this crate.
                let wait = read(wait, record);
                waits.extend(wait.filter(|seen| seen.wait.enclosed_by(self.hold).is_some()));
            }
            let at = time(*at)?;
            Some(SeenWaits { at, waits })
        };
        parse().ok_or(Unexpected(reply))
    }

    fn apply(self, state: &mut State, now: Instant) -> SeenWaits {
        let at = state.time(now);
        let waits = state.waits.live(self.hold, at);
        SeenWaits { at, waits }
    }
}

/// Shows the holds in a lock. What other programs write there is left out, unless it has the form of a hold id.
#[derive(Clone, Debug)]
pub(crate) struct HoldsIn {
    /// The key in the store.
    pub(crate) key: Arc<str>,
}

impl Verb for HoldsIn {
    type Reply = Vec<HoldId>;

    fn lua() -> &'static Script {
        script!("holds")
    }

    fn call(&self) -> Call {
        Self::lua().call(1).arg(&*self.key)
    }

    fn read(&self, reply: Value) -> Result<Vec<HoldId>, Unexpected> {
        let is_text = |field: &Value| matches!(field, Value::BulkString(_));
        match &reply {
            Value::Array(fields) if fields.iter().all(is_text) => {
                Ok(fields.iter().filter_map(reply::hold).collect())
            }
            _ => Err(Unexpected(reply)),
        }
    }

    fn apply(self, state: &mut State, now: Instant) -> Vec<HoldId> {
        state.holds(&self.key, now)
    }
}

/// Makes a wait the victim of a cycle, unless another wait of the cycle is one. Returns whether it is a victim.
///
/// The victim of another cycle counts only while it is part of this one too: then it resolves both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimVictim {
    pub(crate) victim: HoldId,
    /// The other waits of the cycle.
    pub(crate) others: Vec<HoldId>,
    /// How long no other wait of the cycle becomes the victim of a cycle with the same least wait.
    pub(crate) life: Duration,
}

impl ClaimVictim {
    /// The least wait of the cycle, under which its victim is stored, whichever walk has found it.
    pub(crate) fn least(&self) -> HoldId {
        let others = self.others.iter().copied();
        others.fold(self.victim, HoldId::min)
    }
}

impl Verb for ClaimVictim {
    type Reply = bool;

    fn lua() -> &'static Script {
        script!("victim")
    }

    fn call(&self) -> Call {
        let call = Self::lua().call(1).arg(names::victim(self.least()));
        let call = call.arg(Field(self.victim)).millis(self.life);
        let others = self.others.iter();
        others.fold(call, |call, wait| call.arg(Field(*wait)))
    }

    fn read(&self, reply: Value) -> Result<bool, Unexpected> {
        reply::flag(reply)
    }

    fn apply(self, state: &mut State, now: Instant) -> bool {
        let now = state.time(now);
        let (least, until) = (self.least(), now.after(self.life));
        let waits = &mut state.waits;
        waits.claim(least, self.victim, &self.others, now, until)
    }
}

/// Removes a record.
#[derive(Clone, Debug)]
pub(crate) struct WithdrawWait {
    pub(crate) owner: OwnerId,
    pub(crate) wait: HoldId,
}

impl Verb for WithdrawWait {
    type Reply = ();

    fn lua() -> &'static Script {
        script!("withdraw")
    }

    fn call(&self) -> Call {
        let call = Self::lua().call(1).arg(names::waits_of(self.owner));
        call.arg(Field(self.wait))
    }

    fn read(&self, reply: Value) -> Result<(), Unexpected> {
        reply::flag(reply).map(drop)
    }

    fn apply(self, state: &mut State, _: Instant) {
        state.waits.withdraw(self.owner, self.wait);
    }
}

/// The record of a wait, without its times.
fn written(wait: &EnclosedWait) -> String {
    let mut record = wait.key.len().to_string();
    for Enclosing { hold, key } in &wait.enclosing {
        // Into memory it cannot fail.
        let _ = write!(record, " {hold} {}", key.len());
    }
    record.push('\n');
    record.push_str(&wait.key);
    let keys = wait.enclosing.iter();
    keys.for_each(|enclosing| record.push_str(&enclosing.key));
    record
}

/// The record of a wait, if it can be read.
fn read(wait: &[u8], record: &[u8]) -> Option<SeenWait> {
    let id = str::from_utf8(wait).ok()?.parse().ok()?;
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
        enclosing.push(Enclosing { hold, key });
    }
    Some(SeenWait {
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
    reply::micros(micros).filter(|time| time.micros > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::id::Owner;

    fn wait(keys: &[&str]) -> EnclosedWait {
        let owner = Owner::new();
        let mut keys = keys.iter().map(|&key| Arc::from(key));
        EnclosedWait {
            id: owner.next_hold(),
            key: keys.next().unwrap_or_default(),
            enclosing: keys
                .map(|key| Enclosing {
                    hold: owner.next_hold(),
                    key,
                })
                .collect(),
        }
    }

    /// As the script completes it.
    fn stored(record: &str) -> Vec<u8> {
        format!("1700000000000000 1700000002000000 {record}").into_bytes()
    }

    #[test]
    fn a_record_is_read_as_it_was_written_whatever_the_keys() {
        for keys in [
            &["a"][..],
            &["a", "b"],
            &["order 42", "a\nb", "", "schlüssel", " 7 8 "],
        ] {
            let wait = wait(keys);
            let id = wait.id.to_string();
            let seen = read(id.as_bytes(), &stored(&written(&wait)));
            let expected = SeenWait {
                wait,
                stamp: StoreTime {
                    micros: 1_700_000_000_000_000,
                },
                life: Duration::from_secs(2),
            };
            assert_eq!(seen, Some(expected));
        }
    }

    #[test]
    fn what_is_no_record_is_left_out() {
        let id = wait(&["a"]).id.to_string();
        for record in [
            "",
            "1",
            "1\n",
            "9\nabc",
            "x\nabc",
            "1 x 1\nab",
            "1 4f0e1d2c-0000-4000-8000-000000000000:7\nab",
            "1 4f0e1d2c-0000-4000-8000-000000000000:7 9\nab",
            "1 4f0e1d2c-0000-4000-8000-000000000000:7 -1\nab",
        ] {
            assert_eq!(read(id.as_bytes(), &stored(record)), None, "{record:?}");
        }
        assert_eq!(read(b"x", &stored("1\na")), None);
        assert_eq!(read(id.as_bytes(), b"2 1 1\na"), None);
        assert_eq!(read(id.as_bytes(), b"\xff"), None);
    }

    #[test]
    fn malformed_replies_are_refused() {
        let wait = wait(&["a"]);
        let (key, hold) = (Arc::clone(&wait.key), wait.id);
        let (look, holds) = (WaitsOf { hold }, HoldsIn { key });
        let publish = PublishWait {
            owner: hold.owner(),
            wait: Arc::new(wait),
            life: Duration::from_secs(2),
            known: None,
        };
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        for reply in [Value::Nil, Value::Int(0), Value::Int(i64::MIN), text("1")] {
            assert!(publish.read(reply.clone()).is_err(), "{reply:?}");
            assert!(look.read(reply.clone()).is_err(), "{reply:?}");
            assert!(holds.read(reply.clone()).is_err(), "{reply:?}");
        }
        for reply in [
            vec![],
            vec![Value::Int(0)],
            vec![Value::Int(1), text("x")],
            vec![Value::Int(1), text("x"), Value::Nil],
        ] {
            let reply = Value::Array(reply);
            assert!(look.read(reply.clone()).is_err(), "{reply:?}");
        }
        assert!(holds.read(Value::Array(vec![Value::Nil])).is_err());
        let odd = Value::Array(vec![Value::Int(1), text("x"), text("y")]);
        assert!(look.read(odd).is_ok_and(|look| look.waits.is_empty()));
    }
}

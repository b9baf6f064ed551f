//! Published waits as they stand in Redis, and how the replies about them are read.
//!
//! A record is `stamp deadline length hold length hold length …`, then a line feed, then the key that is waited
//! for and the keys of the holds that enclose the wait, one after the other: the lengths say in bytes where each
//! ends, since a key may hold any text.

use std::{fmt::Write, sync::Arc, time::Duration};

use redis::Value;

use super::{
    names::{Field, Victim, WaitsOf},
    reply::{self, Unexpected},
    script::{HOLDS, LOOK, VICTIM, WAIT, WITHDRAW},
    topology::Topology,
};
use crate::{
    base::id::{HoldId, OwnerId},
    store::{
        Answer, StoreTime,
        waits::{
            Claim, EnclosedWait, Enclosing, Look, Publication, Published, SeenWait, Waits, lateness,
        },
    },
};

/// The record of a wait, without its times.
pub(super) fn written(wait: &EnclosedWait) -> String {
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
    let micros = u64::try_from(micros).ok().filter(|micros| *micros > 0)?;
    Some(StoreTime { micros })
}

pub(super) fn published(reply: Value) -> Result<Published, Unexpected> {
    let published = match reply {
        Value::Int(micros) if micros > 0 => time(micros).map(Published::Made),
        Value::Int(micros) => micros.checked_neg().and_then(time).map(Published::Refused),
        _ => None,
    };
    published.ok_or(Unexpected(reply))
}

pub(super) fn look(reply: Value, hold: HoldId) -> Result<Look, Unexpected> {
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
            // One that cannot be read was written by no version of this crate.
            let wait = read(wait, record);
            waits.extend(wait.filter(|seen| seen.wait.enclosed_by(hold).is_some()));
        }
        let at = time(*at)?;
        Some(Look { at, waits })
    };
    parse().ok_or(Unexpected(reply))
}

pub(super) fn holds(reply: Value) -> Result<Vec<HoldId>, Unexpected> {
    let parse = || {
        let Value::Array(fields) = &reply else {
            return None;
        };
        let mut holds = Vec::new();
        for field in fields {
            let Value::BulkString(field) = field else {
                return None;
            };
            let field = str::from_utf8(field).ok();
            let hold: Option<HoldId> = field.and_then(|field| field.parse().ok());
            holds.extend(hold);
        }
        Some(holds)
    };
    parse().ok_or(Unexpected(reply))
}

/// Each script touches what belongs to one owner, or the victims of cycles with one least wait, or the fields of one lock.
impl Waits for Topology {
    fn publish_wait(&self, publication: Publication) -> Answer<Published> {
        let Publication {
            owner,
            wait,
            life,
            known,
        } = publication;
        let call = WAIT
            .call(1)
            .arg(WaitsOf(owner))
            .arg(Field(wait.id))
            .arg(written(&wait))
            .millis(life)
            .millis(lateness(life))
            .arg(known.map_or(0, |known| known.micros));
        self.ask(call, published)
    }

    fn waits_of(&self, hold: HoldId) -> Answer<Look> {
        let call = LOOK.call(1).arg(WaitsOf(hold.owner())).arg(Field(hold));
        self.ask(call, move |reply| look(reply, hold))
    }

    fn holds_in(&self, key: &str) -> Answer<Vec<HoldId>> {
        self.ask(HOLDS.call(1).arg(key), holds)
    }

    fn claim_victim(&self, claim: Claim) -> Answer<bool> {
        let call = VICTIM
            .call(1)
            .arg(Victim(claim.least()))
            .arg(Field(claim.victim))
            .millis(claim.life);
        let others = claim.others.into_iter();
        let call = others.fold(call, |call, wait| call.arg(Field(wait)));
        self.ask(call, reply::flag)
    }

    fn withdraw_wait(&self, owner: OwnerId, wait: HoldId) -> Answer<()> {
        let call = WITHDRAW.call(1).arg(WaitsOf(owner)).arg(Field(wait));
        self.ask(call, |reply| reply::flag(reply).map(drop))
    }
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
        let hold = wait(&["a"]).id;
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        for reply in [Value::Nil, Value::Int(0), Value::Int(i64::MIN), text("1")] {
            assert!(published(reply.clone()).is_err(), "{reply:?}");
            assert!(look(reply.clone(), hold).is_err(), "{reply:?}");
            assert!(holds(reply.clone()).is_err(), "{reply:?}");
        }
        for reply in [
            vec![],
            vec![Value::Int(0)],
            vec![Value::Int(1), text("x")],
            vec![Value::Int(1), text("x"), Value::Nil],
        ] {
            let reply = Value::Array(reply);
            assert!(look(reply.clone(), hold).is_err(), "{reply:?}");
        }
        assert!(holds(Value::Array(vec![Value::Nil])).is_err());
        let odd = Value::Array(vec![Value::Int(1), text("x"), text("y")]);
        assert!(look(odd, hold).is_ok_and(|look| look.waits.is_empty()));
    }
}

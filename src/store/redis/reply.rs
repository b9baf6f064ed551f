//! How the replies of the scripts are read, and the messages that they send.

use std::time::Duration;

use deadpool_redis::redis::{FromRedisValue, Value};

use crate::{
    id::FencingToken,
    store::{Acquired, Moved, Presence, Released, Snapshot, StoreTime, Tokens},
};

/// A reply that no script of ours gives.
#[derive(Debug, thiserror::Error)]
#[error("unexpected reply {0:?}")]
pub(super) struct Unexpected(Value);

fn integers(reply: &Value) -> Option<Vec<i64>> {
    Vec::from_redis_value_ref(reply).ok()
}

fn millis(millis: i64) -> Option<Duration> {
    u64::try_from(millis).ok().map(Duration::from_millis)
}

fn held(token: i64, count: i64, lease: i64) -> Option<Acquired> {
    let tokens = Tokens {
        first: FencingToken(u64::try_from(token).ok()?),
        count: u32::try_from(count).ok().filter(|count| *count > 0)?,
    };
    let lease = millis(lease)?;
    Some(Acquired::Held { tokens, lease })
}

/// A lock that was free and is held now: the reply is the one token, and the lease is what was asked
/// for.
fn taken(token: i64, ttl: Duration) -> Option<Acquired> {
    held(token, 1, i64::try_from(ttl.as_millis()).ok()?)
}

fn busy(remaining: i64, now: i64) -> Option<Acquired> {
    let remaining = millis(remaining);
    let micros = u64::try_from(now).ok()?;
    let now = StoreTime { micros };
    Some(Acquired::Busy { remaining, now })
}

/// Reads the reply to an acquire that has asked for a lease of `ttl`.
pub(super) fn acquired(reply: Value, ttl: Duration) -> Result<Acquired, Unexpected> {
    if let Value::Int(token) = reply {
        return taken(token, ttl).ok_or(Unexpected(reply));
    }
    let acquired = match integers(&reply).as_deref() {
        Some(&[1, token, count, lease]) => held(token, count, lease),
        Some(&[0, remaining, now]) => busy(remaining, now),
        Some(&[-1]) => Some(Acquired::Ended),
        _ => None,
    };
    acquired.ok_or(Unexpected(reply))
}

/// Reads the reply to a release that has named a successor with this TTL, if any.
pub(super) fn released(reply: Value, ttl: Option<Duration>) -> Result<Released, Unexpected> {
    let parse = |integers: &[i64]| {
        let (presence, successor) = match *integers {
            [presence] => (presence, None),
            [presence, 1, token, count, lease] => (presence, Some(held(token, count, lease)?)),
            [presence, 0, remaining, now] => (presence, Some(busy(remaining, now)?)),
            _ => return None,
        };
        let presence = match presence {
            1 => Presence::Present,
            0 => Presence::Gone,
            _ => return None,
        };
        Some(Released {
            presence,
            successor,
        })
    };
    let released = match &reply {
        Value::Int(presence @ 0..=1) => parse(&[*presence]),
        Value::Int(token) => ttl
            .and_then(|ttl| taken(*token, ttl))
            .map(|taken| Released {
                presence: Presence::Present,
                successor: Some(taken),
            }),
        reply => integers(reply).as_deref().and_then(parse),
    };
    released.ok_or(Unexpected(reply))
}

pub(super) fn presence(reply: Value) -> Result<Presence, Unexpected> {
    Ok(if flag(reply)? {
        Presence::Present
    } else {
        Presence::Gone
    })
}

pub(super) fn flag(reply: Value) -> Result<bool, Unexpected> {
    match reply {
        Value::Int(1) => Ok(true),
        Value::Int(0) => Ok(false),
        other => Err(Unexpected(other)),
    }
}

pub(super) fn snapshot(reply: Value) -> Result<Option<Snapshot>, Unexpected> {
    parse_snapshot(&reply).ok_or(Unexpected(reply))
}

fn parse_snapshot(reply: &Value) -> Option<Option<Snapshot>> {
    let [remaining, waiting, meta, fields @ ..] = reply.as_sequence()? else {
        return None;
    };
    let text = |value| String::from_redis_value_ref(value).ok();
    let remaining = i64::from_redis_value_ref(remaining).ok()?;
    let waiting = u64::from_redis_value_ref(waiting).ok()?;
    let (pairs, []) = fields.as_chunks::<2>() else {
        return None;
    };
    if pairs.is_empty() {
        return Some(None);
    }
    let holders = pairs
        .iter()
        .map(|[field, depth]| Some((text(field)?, u64::from_redis_value_ref(depth).ok()?)))
        .collect::<Option<Vec<_>>>()?;
    let meta = text(meta)?;
    let mut words = meta.split(' ');
    let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
    let token = number()
        .zip(number())
        .map(token_of)
        .filter(|token| token.0 > 0);
    let hold = words.next();
    let known = holders
        .iter()
        .any(|(field, _)| Some(field.as_str()) == hold);
    Some(Some(Snapshot {
        token: token.filter(|_| known),
        remaining: millis(remaining),
        holders,
        waiting,
    }))
}

/// The token that the meta has as seconds and microseconds.
fn token_of((seconds, micros): (u64, u64)) -> FencingToken {
    FencingToken(seconds.saturating_mul(1_000_000).saturating_add(micros))
}

/// Reads the message that a lock has moved: hold, token, number of tokens, time in µs, lease in ms, key.
pub(super) fn moved(message: &str) -> Option<Moved> {
    let mut words = message.splitn(6, ' ');
    let mut word = || words.next();
    let hold = word()?.parse().ok()?;
    let [token, count, at, lease] =
        [word()?, word()?, word()?, word()?].map(|word| word.parse().ok());
    let Some(Acquired::Held { tokens, lease }) = held(token?, count?, lease?) else {
        return None;
    };
    let micros = u64::try_from(at?).ok()?;
    let key = word()?.to_owned();
    Some(Moved {
        key,
        hold,
        tokens,
        at: StoreTime { micros },
        lease,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_reply() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Nil),
            any::<i64>().prop_map(Value::Int),
            (-2i64..3).prop_map(Value::Int),
            any::<Vec<u8>>().prop_map(Value::BulkString),
            "[0-9a-f:-]{0,40}".prop_map(Value::SimpleString),
            Just(Value::Okay),
            any::<bool>().prop_map(Value::Boolean),
            any::<f64>().prop_map(Value::Double),
        ];
        leaf.prop_recursive(3, 24, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..7).prop_map(Value::Array),
                prop::collection::vec(inner, 0..7).prop_map(Value::Set),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_reply_makes_the_decoders_panic(reply in any_reply()) {
            let _ = acquired(reply.clone(), Duration::from_secs(30));
            let _ = released(reply.clone(), None);
            let _ = released(reply.clone(), Some(Duration::from_secs(30)));
            let _ = presence(reply.clone());
            let _ = flag(reply.clone());
            let _ = snapshot(reply);
        }

        #[test]
        fn no_message_makes_the_decoder_panic(message in "([0-9a-f:-]{0,40} ?){0,8}") {
            let _ = moved(&message);
        }
    }
}

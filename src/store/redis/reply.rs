//! How the replies of the scripts are read, and the messages that they send.

use std::time::Duration;

use redis::{FromRedisValue, PushInfo, Value};

use crate::{
    base::{
        id::{FencingToken, HoldId},
        mode::Mode,
    },
    store::{
        AcquireAllReply, AcquireReply, ForcedMessage, HandoffMessage, Presence, ReleaseReply,
        SeenHolder, ShareRequest, Snapshot, StoreTime,
    },
};

#[cfg(any(test, fuzzing))]
#[path = "../../../tests/properties/reply.rs"]
pub(super) mod properties;

/// A reply that no script of ours gives.
#[derive(Debug, thiserror::Error)]
#[error("unexpected reply {0:?}")]
pub(crate) struct Unexpected(pub(super) Value);

/// The values of an array of integers. The driver's own conversion would also cut a float short.
fn integers(reply: &Value) -> Option<Vec<i64>> {
    let Value::Array(values) = reply else {
        return None;
    };
    let integer = |value: &Value| match value {
        Value::Int(integer) => Some(*integer),
        _ => None,
    };
    values.iter().map(integer).collect()
}

pub(super) fn millis(millis: i64) -> Option<Duration> {
    u64::try_from(millis).ok().map(Duration::from_millis)
}

/// From here on neither Lua nor JSON knows every number exactly. No clock gives such a token before the
/// year 2255.
const TOO_GREAT: u64 = 1 << 53;

fn micros(micros: i64) -> Option<StoreTime> {
    let micros = u64::try_from(micros).ok()?;
    Some(StoreTime { micros })
}

/// A token; 0 is none.
fn token(token: i64) -> Option<Option<FencingToken>> {
    let token = u64::try_from(token).ok().filter(|it| *it < TOO_GREAT)?;
    Some((token > 0).then_some(FencingToken(token)))
}

fn held(token: i64, lease: i64, at: i64, is_contended: bool) -> Option<AcquireReply> {
    Some(AcquireReply::Held {
        token: self::token(token)??,
        lease: millis(lease)?,
        at: micros(at)?,
        is_contended,
    })
}

/// A lock that was free and is held now, and no process waits for it: the reply is the token, which is the time
/// of the store, and the lease is what was asked for.
fn taken(token: i64, ttl: Duration) -> Option<AcquireReply> {
    held(token, i64::try_from(ttl.as_millis()).ok()?, token, false)
}

fn busy(remaining: i64, now: i64) -> Option<AcquireReply> {
    let remaining = millis(remaining);
    let now = micros(now)?;
    Some(AcquireReply::Busy { remaining, now })
}

/// Reads the reply to an acquire that has asked for a lease of `ttl`.
pub(super) fn acquired(reply: Value, ttl: Duration) -> Result<AcquireReply, Unexpected> {
    if let Value::Int(token) = reply {
        return taken(token, ttl).ok_or(Unexpected(reply));
    }
    let acquired = match integers(&reply).as_deref() {
        Some(&[1, token, lease, at]) => held(token, lease, at, true),
        Some(&[0, remaining, now]) => busy(remaining, now),
        Some(&[-1]) => Some(AcquireReply::Ended),
        _ => None,
    };
    acquired.ok_or(Unexpected(reply))
}

fn hold(value: &Value) -> Option<HoldId> {
    match value {
        Value::BulkString(bytes) => str::from_utf8(bytes).ok()?.parse().ok(),
        _ => None,
    }
}

/// Reads the reply to a request of readers.
pub(super) fn shared(
    reply: Value,
    request: &ShareRequest,
) -> Result<Vec<AcquireReply>, Unexpected> {
    parse_shared(&reply, request).ok_or(Unexpected(reply))
}

fn parse_shared(reply: &Value, request: &ShareRequest) -> Option<Vec<AcquireReply>> {
    let all = |reply| vec![reply; request.holds.len()];
    let values = match reply {
        Value::Int(token) => return Some(all(taken(*token, request.ttl)?)),
        Value::Array(values) => values,
        _ => return None,
    };
    match values[..] {
        [Value::Int(-1)] => Some(all(AcquireReply::Ended)),
        [Value::Int(0), Value::Int(remaining), Value::Int(now)] => Some(all(busy(remaining, now)?)),
        [
            Value::Int(1),
            Value::Int(token),
            Value::Int(remaining),
            Value::Int(now),
            ref inside @ ..,
        ] => {
            let lease = i64::try_from(request.ttl.as_millis()).ok()?;
            let (entered, waits) = (held(token, lease, now, true)?, busy(remaining, now)?);
            let inside = inside.iter().map(hold).collect::<Option<Vec<_>>>()?;
            let reply = |hold| {
                if inside.contains(hold) {
                    entered
                } else {
                    waits
                }
            };
            Some(request.holds.iter().map(reply).collect())
        }
        _ => None,
    }
}

pub(super) fn holds(reply: Value) -> Result<Vec<HoldId>, Unexpected> {
    let holds = match &reply {
        Value::Array(values) => values.iter().map(hold).collect(),
        _ => None,
    };
    holds.ok_or(Unexpected(reply))
}

/// Reads the reply to a release that has named a successor with this TTL, if any.
pub(super) fn released(reply: Value, ttl: Option<Duration>) -> Result<ReleaseReply, Unexpected> {
    let parse = |integers: &[i64]| {
        let (presence, successor) = match *integers {
            [presence] => (presence, None),
            [presence, 1, token, lease, at] => (presence, Some(held(token, lease, at, true)?)),
            [presence, 0, remaining, now] => (presence, Some(busy(remaining, now)?)),
            _ => return None,
        };
        let presence = match presence {
            1 => Presence::Present,
            0 => Presence::Gone,
            _ => return None,
        };
        Some(ReleaseReply {
            presence,
            successor,
        })
    };
    let released = match &reply {
        Value::Int(presence @ 0..=1) => parse(&[*presence]),
        Value::Int(token) => ttl
            .and_then(|ttl| taken(*token, ttl))
            .map(|taken| ReleaseReply {
                presence: Presence::Present,
                successor: Some(taken),
            }),
        reply => integers(reply).as_deref().and_then(parse),
    };
    released.ok_or(Unexpected(reply))
}

/// Reads the reply to an acquire of so many locks that has asked for leases of `ttl`.
pub(super) fn acquired_all(
    reply: Value,
    count: usize,
    ttl: Duration,
) -> Result<AcquireAllReply, Unexpected> {
    let lock = |token, lease, at| match held(token, lease, at, true)? {
        AcquireReply::Held { token, lease, .. } => Some((token, lease)),
        _ => None,
    };
    let taken = |token| match taken(token, ttl)? {
        AcquireReply::Held {
            token, lease, at, ..
        } => Some(AcquireAllReply::Held {
            at,
            locks: vec![(token, lease); count],
        }),
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
            let locks = pairs.iter().map(|&[token, lease]| lock(token, lease, at));
            let locks = locks.collect::<Option<Vec<_>>>();
            Some(AcquireAllReply::Held {
                at: micros(at)?,
                locks: locks.filter(|locks| locks.len() == count)?,
            })
        }
        _ => None,
    };
    let acquired = match &reply {
        Value::Int(token) => taken(*token),
        reply => integers(reply).as_deref().and_then(parse),
    };
    acquired.ok_or(Unexpected(reply))
}

/// Reads the reply to a renewal of so many leases.
pub(super) fn renewed_all(reply: Value, count: usize) -> Result<Option<usize>, Unexpected> {
    match reply {
        Value::Int(0) => Ok(None),
        Value::Int(index) => at_index(index, count).map(Some).ok_or(Unexpected(reply)),
        other => Err(Unexpected(other)),
    }
}

/// Reads the reply to a release of so many locks.
pub(super) fn released_all(reply: Value, count: usize) -> Result<Vec<bool>, Unexpected> {
    let flag = |integer: i64| match integer {
        1 => Some(true),
        0 => Some(false),
        _ => None,
    };
    let released = integers(&reply).filter(|released| released.len() == count);
    let released = released.and_then(|released| released.into_iter().map(flag).collect());
    released.ok_or(Unexpected(reply))
}

/// An index of Lua, which counts from 1.
fn at_index(index: i64, count: usize) -> Option<usize> {
    let at = usize::try_from(index).ok()?.checked_sub(1)?;
    (at < count).then_some(at)
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

/// Reads the reply to a forced release.
pub(super) fn fields(reply: Value) -> Result<Vec<Vec<u8>>, Unexpected> {
    let field = |value: &Value| match value {
        Value::BulkString(field) => Some(field.clone()),
        _ => None,
    };
    let fields = match &reply {
        Value::Array(values) => values.iter().map(field).collect(),
        _ => None,
    };
    fields.ok_or(Unexpected(reply))
}

pub(super) fn snapshot(reply: Value) -> Result<Option<Snapshot>, Unexpected> {
    parse_snapshot(&reply).ok_or(Unexpected(reply))
}

fn parse_snapshot(reply: &Value) -> Option<Option<Snapshot>> {
    let Value::Array(values) = reply else {
        return None;
    };
    let [
        Value::Int(remaining),
        Value::Int(waiting),
        Value::Int(token),
        Value::Int(is_shared @ 0..=1),
        Value::Int(at),
        fields @ ..,
    ] = &values[..]
    else {
        return None;
    };
    let waiting = u64::try_from(*waiting).ok()?;
    let token = self::token(*token)?;
    let at = micros(*at)?;
    let (fields, []) = fields.as_chunks::<3>() else {
        return None;
    };
    if fields.is_empty() {
        return Some(None);
    }
    let holder = |field: &[Value; 3]| match field {
        [
            Value::BulkString(field),
            Value::BulkString(depth),
            Value::Int(remaining),
        ] => {
            let depth = str::from_utf8(depth)
                .ok()
                .and_then(|text| text.parse().ok());
            Some(SeenHolder {
                field: field.clone(),
                depth: depth.unwrap_or_default(),
                remaining: millis(*remaining),
            })
        }
        _ => None,
    };
    let mode = match is_shared {
        0 => Mode::Exclusive,
        _ => Mode::Shared,
    };
    Some(Some(Snapshot {
        holders: fields.iter().map(holder).collect::<Option<_>>()?,
        mode,
        remaining: millis(*remaining),
        token,
        waiting,
        at,
    }))
}

/// A message to an inbox.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// A lock has moved: holds, joined by commas, token, time in µs, lease in ms, key.
    Handoff(HandoffMessage),
    /// Another process has come to wait for a lock: `contended`, key.
    Contended(String),
    /// Holds were ended by force: `forced`, holds, joined by commas, key.
    Forced(ForcedMessage),
}

/// The message that the server has sent to a channel.
pub(super) fn pushed(push: &PushInfo) -> Option<Message> {
    let text = push.data.get(1).map(String::from_redis_value_ref);
    message(&text?.ok()?)
}

pub(super) fn message(text: &str) -> Option<Message> {
    match text.split_once(' ')? {
        ("contended", key) => Some(Message::Contended(key.to_owned())),
        ("forced", text) => forced(text).map(Message::Forced),
        _ => handoff(text).map(Message::Handoff),
    }
}

/// Holders of other programs may be among them.
fn forced(text: &str) -> Option<ForcedMessage> {
    let (holds, key) = text.split_once(' ')?;
    let holds = holds.split(',').filter_map(|hold| hold.parse().ok());
    Some(ForcedMessage {
        key: key.to_owned(),
        holds: holds.collect(),
    })
}

fn handoff(text: &str) -> Option<HandoffMessage> {
    let mut words = text.splitn(5, ' ');
    let mut word = || words.next();
    let holds = word()?.split(',').map(|hold| hold.parse().ok());
    let holds = holds.collect::<Option<_>>()?;
    let [token, at, lease] = [word()?, word()?, word()?].map(|word| word.parse().ok());
    let Some(AcquireReply::Held {
        token, lease, at, ..
    }) = held(token?, lease?, at?, true)
    else {
        return None;
    };
    let key = word()?.to_owned();
    Some(HandoffMessage {
        key,
        holds,
        token,
        at,
        lease,
    })
}

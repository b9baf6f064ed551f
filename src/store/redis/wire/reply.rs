//! The reading of replies, and of the messages that the scripts send.

use std::time::Duration;

use redis::Value;

use crate::base::id::{FencingToken, HoldId};
use crate::base::time::StoreTime;
use crate::store::records::INEXACT_FROM;
use crate::store::records::{ForcedMessage, HandoffMessage};

/// A reply that no script of this crate gives.
#[derive(Debug, thiserror::Error)]
#[error("unexpected reply {0:?}")]
pub(crate) struct Unexpected(pub(crate) Value);

/// The values of an array of integers. The driver's own conversion would also truncate a float.
pub(crate) fn integers(reply: &Value) -> Option<Vec<i64>> {
    let Value::Array(values) = reply else {
        return None;
    };
    let integer = |value: &Value| match value {
        Value::Int(integer) => Some(*integer),
        _ => None,
    };
    values.iter().map(integer).collect()
}

pub(crate) fn millis(millis: i64) -> Option<Duration> {
    u64::try_from(millis).ok().map(Duration::from_millis)
}

pub(crate) fn micros(micros: i64) -> Option<StoreTime> {
    let micros = u64::try_from(micros).ok()?;
    Some(StoreTime { micros })
}

/// A token; 0 means none.
pub(crate) fn token(token: i64) -> Option<Option<FencingToken>> {
    let token = u64::try_from(token).ok().filter(|it| *it < INEXACT_FROM)?;
    Some((token > 0).then_some(FencingToken(token)))
}

pub(crate) fn hold(value: &Value) -> Option<HoldId> {
    match value {
        Value::BulkString(bytes) => str::from_utf8(bytes).ok()?.parse().ok(),
        _ => None,
    }
}

pub(crate) fn flag(reply: Value) -> Result<bool, Unexpected> {
    match reply {
        Value::Int(1) => Ok(true),
        Value::Int(0) => Ok(false),
        other => Err(Unexpected(other)),
    }
}

/// A message to an inbox, or to all processes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// A lock has moved: holds, joined by commas, token, time in µs, lease in ms, key.
    Handoff(HandoffMessage),
    /// Another process has begun to wait for a lock: `contended`, key.
    Contended(String),
    /// Holds were ended by force: `forced`, holds, joined by commas, key.
    Forced(ForcedMessage),
}

pub(crate) fn message(text: &str) -> Option<Message> {
    match text.split_once(' ')? {
        ("contended", key) => Some(Message::Contended(key.to_owned())),
        ("forced", text) => forced(text).map(Message::Forced),
        _ => handoff(text).map(Message::Handoff),
    }
}

/// Reads which holds were ended. Holders of other programs may be among them, and are omitted.
fn forced(text: &str) -> Option<ForcedMessage> {
    let (holds, key) = text.split_once(' ')?;
    let holds = holds.split(',').filter_map(|hold| hold.parse().ok());
    Some(ForcedMessage {
        key: key.to_owned(),
        holds: holds.collect(),
    })
}

pub(crate) fn handoff(text: &str) -> Option<HandoffMessage> {
    let mut words = text.splitn(5, ' ');
    let mut word = || words.next();
    let holds = word()?.split(',').map(|hold| hold.parse().ok());
    let holds = holds.collect::<Option<_>>()?;
    let [token, at, lease] = [word()?, word()?, word()?].map(|word| word.parse().ok());
    Some(HandoffMessage {
        holds,
        token: self::token(token?)??,
        at: micros(at?)?,
        lease: millis(lease?)?,
        key: word()?.to_owned(),
    })
}

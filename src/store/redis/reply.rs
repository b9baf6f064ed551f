//! The reading of replies.

use std::time::Duration;

use redis::Value;

use crate::base::id::{FencingToken, HoldId};
use crate::base::time::StoreTime;
use crate::store::records::INEXACT_FROM;

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

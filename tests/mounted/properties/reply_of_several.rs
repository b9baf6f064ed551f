//! The properties of the replies about several locks.

use redis::Value;

use super::asked::renewed;
use crate::store::RenewReply;
use crate::store::redis::batch;

/// The replies about this number of locks.
pub(super) fn check(reply: &Value, ints: Option<&[i64]>, count: usize) {
    let answers = renewed(reply, count);
    let of = |integer: &i64| match integer {
        1 => Some(RenewReply::Renewed),
        0 => Some(RenewReply::Gone),
        -1 => Some(RenewReply::Failed),
        _ => None,
    };
    let expected = match reply {
        Value::Int(0) => Some(vec![RenewReply::Renewed; count]),
        _ => ints
            .filter(|ints| ints.len() == count)
            .and_then(|ints| ints.iter().map(of).collect()),
    };
    assert_eq!(answers, expected, "{reply:?}");
    let order = Vec::from_iter(0..count);
    let replies = batch::replies(reply, &order, count / 2);
    let expected = match reply {
        Value::Array(parts) => of_batch(parts, count),
        _ => None,
    };
    assert_eq!(replies, expected, "{reply:?}");
}

/// The replies inside the reply to a batch, of which one half are releases.
fn of_batch(parts: &[Value], count: usize) -> Option<Vec<i64>> {
    let [Value::Int(token), Value::BulkString(done)] = parts else {
        return None;
    };
    let releases = count / 2;
    let of = |(at, done): (usize, &u8)| match (done, at < releases) {
        (b'0', _) => Some(0),
        (b'1', false) => Some(*token),
        (b'1' | b'2', true) => Some(i64::from(done - b'0')),
        _ => None,
    };
    let replies = done.iter().enumerate().map(of).collect::<Option<_>>();
    replies.filter(|_| done.len() == count)
}

//! The properties of the replies about several locks.

use redis::Value;

use super::asked::{acquired_all, renewed};
use super::{TTL, says, says_taken};
use crate::store::redis::batch;
use crate::store::{AcquireAllReply, RenewAnswer};

/// The replies about this number of locks.
pub(super) fn check(reply: &Value, ints: Option<&[i64]>, count: usize) {
    let index = |index: i64| usize::try_from(index - 1).ok().filter(|at| *at < count);
    let of_one = |at, [token, lease]: [i64; 2]| [1, token, lease, at];
    let parts = match acquired_all(reply.clone(), count, TTL) {
        Ok(AcquireAllReply::Busy { first }) => {
            assert!(
                matches!(ints, Some(&[0, at]) if index(at) == Some(first)),
                "{reply:?}"
            );
            return;
        }
        Ok(AcquireAllReply::Ended) => return assert_eq!(ints, Some(&[-1][..])),
        Ok(held) => (0..count).map(|at| held.part(at)).collect(),
        Err(_) => Vec::new(),
    };
    for (at, part) in parts.iter().enumerate() {
        let says = match (reply, ints) {
            (Value::Int(token), _) => says_taken(*token, Some(*part)),
            (_, Some([1, micros, pairs @ ..])) => {
                let (pairs, rest) = pairs.as_chunks::<2>();
                rest.is_empty() && pairs.len() == count && says(&of_one(*micros, pairs[at]), *part)
            }
            _ => false,
        };
        assert!(says, "{reply:?} as {part:?}");
    }
    let answers = renewed(reply.clone(), count).ok();
    let of = |integer: &i64| match integer {
        1 => Some(RenewAnswer::Renewed),
        0 => Some(RenewAnswer::Gone),
        -1 => Some(RenewAnswer::Failed),
        _ => None,
    };
    let expected = match reply {
        Value::Int(0) => Some(vec![RenewAnswer::Renewed; count]),
        _ => ints
            .filter(|ints| ints.len() == count)
            .and_then(|ints| ints.iter().map(of).collect()),
    };
    assert_eq!(answers, expected, "{reply:?}");
    let replies = batch::replies(reply, count, count / 2);
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
    let is_done = done.iter().all(|done| b"01".contains(done));
    let of = |at: usize| i64::from(done[at] == b'1') * if at < count / 2 { 1 } else { *token };
    (is_done && done.len() == count).then(|| (0..count).map(of).collect())
}

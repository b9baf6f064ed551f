//! The properties of every reply, and of every message. Only what a script sends is accepted, and everything else is an
//! error.
//!
//! Mounted by `src/store/verbs.rs`.

use std::time::Duration;

use redis::Value;

use self::asked::{acquired, fields, released, snapshot};
use crate::base::id::HoldId;
use crate::store::redis::codec::read_handoff;
use crate::store::verbs::inspect::HolderField;
use crate::store::{AcquireReply, HandoffMessage, Presence, Snapshot};

mod asked;
mod reply_of_several;

/// The TTL of all requests.
const TTL: Duration = Duration::from_secs(30);

/// Checks that each parser gives a reply its correct meaning, or rejects it.
pub(crate) fn reply(reply: &Value) {
    let ints = ints(reply);
    if let Some(acquired) = acquired(reply, TTL) {
        assert!(
            says_acquired(reply, ints.as_deref(), acquired),
            "{reply:?} as {acquired:?}"
        );
    }
    (1..=3).for_each(|count| reply_of_several::check(reply, ints.as_deref(), count));
    let truth = match reply {
        Value::Int(0) => Some(false),
        Value::Int(1) => Some(true),
        _ => None,
    };
    let here = released(reply);
    assert_eq!(here.map(|it| it == Presence::Present), truth);
    if let Some(fields) = fields(reply) {
        let fields = fields.into_iter().map(Value::BulkString);
        assert_eq!(*reply, Value::Array(fields.collect()));
    }
    if let Some(seen) = snapshot(reply) {
        assert!(says_snapshot(reply, seen.as_ref()), "{reply:?} as {seen:?}");
    }
}

/// The integers of an array that contains nothing else.
fn ints(reply: &Value) -> Option<Vec<i64>> {
    let Value::Array(values) = reply else {
        return None;
    };
    let int = |value: &Value| match value {
        Value::Int(int) => Some(*int),
        _ => None,
    };
    values.iter().map(int).collect()
}

fn says_acquired(reply: &Value, ints: Option<&[i64]>, acquired: AcquireReply) -> bool {
    match (reply, ints) {
        (Value::Int(token), _) => says_taken(*token, Some(acquired)),
        (_, Some([-1])) => acquired == AcquireReply::Ended,
        (_, Some(ints)) => says(ints, acquired),
        _ => false,
    }
}

/// Returns whether the one number is the reply for a lock that was free.
fn says_taken(token: i64, acquired: Option<AcquireReply>) -> bool {
    let ttl = i64::try_from(TTL.as_millis()).unwrap_or_default();
    acquired.is_some_and(|acquired| says(&[1, token, ttl, token], acquired))
}

fn says(ints: &[i64], acquired: AcquireReply) -> bool {
    match (acquired, ints) {
        (
            AcquireReply::Held {
                token: got,
                lease,
                at,
                ..
            },
            &[1, token, millis, micros],
        ) => {
            (1..1 << 53).contains(&token)
                && u64::try_from(token) == Ok(got.0)
                && lease == from_millis(millis)
                && u64::try_from(micros) == Ok(at.micros)
        }
        (AcquireReply::Busy { remaining, now }, &[0, millis, micros]) => {
            u64::try_from(micros) == Ok(now.micros)
                && remaining == (millis >= 0).then(|| from_millis(millis))
        }
        _ => false,
    }
}

fn from_millis(millis: i64) -> Duration {
    Duration::from_millis(millis.unsigned_abs())
}

fn says_snapshot(reply: &Value, seen: Option<&Snapshot>) -> bool {
    let Value::Array(values) = reply else {
        return false;
    };
    let [
        Value::Int(remaining),
        Value::Int(waiting),
        Value::Int(token),
        Value::Int(is_shared),
        Value::Int(_),
        fields @ ..,
    ] = &values[..]
    else {
        return false;
    };
    let Some(seen) = seen else {
        return fields.is_empty();
    };
    let (fields, odd) = fields.as_chunks::<3>();
    let same = |(seen, field): (&HolderField, &[Value; 3])| match field {
        [
            Value::BulkString(name),
            Value::BulkString(number),
            Value::Int(left),
        ] => {
            let number = str::from_utf8(number)
                .ok()
                .and_then(|text| text.parse().ok());
            *name == seen.field
                && number.unwrap_or(0) == seen.depth
                && seen.remaining == (*left >= 0).then(|| from_millis(*left))
        }
        _ => false,
    };
    !fields.is_empty()
        && odd.is_empty()
        && fields.len() == seen.holders.len()
        && seen.holders.iter().zip(fields).all(same)
        && *is_shared == i64::from(seen.is_shared)
        && u64::try_from(*token) == Ok(seen.token.map_or(0, |token| token.0))
        && seen.remaining == (*remaining >= 0).then(|| from_millis(*remaining))
        && i64::try_from(seen.waiting) == Ok(*waiting)
}

/// A message that is accepted has the meaning as which it was accepted, and no other.
pub(crate) fn message(text: &str) {
    if let Some(message) = read_handoff(text) {
        assert_eq!(written(&message), plain(text));
        assert!((1..1 << 53).contains(&message.token.0));
    }
}

/// The message with its numbers in plain form, not as `+7` or `007`.
fn plain(message: &str) -> String {
    let words = message.splitn(5, ' ').enumerate();
    let plain = words.map(|(at, word)| match word.parse::<i64>() {
        Ok(number) if (1..4).contains(&at) => number.to_string(),
        _ => word.to_owned(),
    });
    plain.collect::<Vec<_>>().join(" ")
}

/// The message as the script sends it.
fn written(message: &HandoffMessage) -> String {
    let HandoffMessage {
        key,
        holds,
        token,
        at,
        lease,
    } = message;
    let holds: Vec<_> = holds.iter().map(HoldId::to_string).collect();
    let holds = holds.join(",");
    let (micros, millis) = (at.micros, lease.as_millis());
    format!("{holds} {token} {micros} {millis} {key}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::Index;
    use redis::{PushKind, VerbatimFormat, parse_redis_value};

    use super::*;
    use crate::base::id::{FencingToken, Owner};
    use crate::store::StoreTime;

    fn array(ints: &[i64]) -> Value {
        Value::Array(ints.iter().copied().map(Value::Int).collect())
    }

    /// Every kind of value that the driver knows.
    fn any_reply() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Nil),
            any::<i64>().prop_map(Value::Int),
            (-2i64..3).prop_map(Value::Int),
            any::<Vec<u8>>().prop_map(Value::BulkString),
            "[0-9a-f:-]{0,40}".prop_map(|text| Value::BulkString(text.into_bytes())),
            "[0-9]{1,3}".prop_map(Value::SimpleString),
            Just(Value::Okay),
            any::<bool>().prop_map(Value::Boolean),
            any::<f64>().prop_map(Value::Double),
            "[0-9]{1,40}".prop_map(|digits| Value::BigNumber(digits.into_bytes())),
            "[0-9]{0,5}".prop_map(|text| Value::VerbatimString {
                format: VerbatimFormat::Text,
                text,
            }),
            Just(error()),
        ];
        leaf.prop_recursive(3, 24, 6, |inner| {
            let values = prop::collection::vec(inner.clone(), 0..7);
            let pairs = prop::collection::vec((inner.clone(), inner.clone()), 0..4);
            prop_oneof![
                values.clone().prop_map(Value::Array),
                values.clone().prop_map(Value::Set),
                pairs.clone().prop_map(Value::Map),
                values.prop_map(|data| Value::Push {
                    kind: PushKind::Message,
                    data,
                }),
                (inner, pairs).prop_map(|(data, attributes)| Value::Attribute {
                    data: Box::new(data),
                    attributes,
                }),
            ]
        })
    }

    fn error() -> Value {
        parse_redis_value(b"-WRONGTYPE of value\r\n").expect("an error is a value")
    }

    /// Almost a reply of a script: one number may be written in another way.
    fn nearly() -> impl Strategy<Value = Value> {
        let number = prop_oneof![-2i64..3, Just(30_000), any::<i64>()];
        let values = prop::collection::vec(number.prop_map(Value::Int), 0..6);
        let other = prop_oneof![
            Just(None),
            "[+-]?[0-9]{1,2}".prop_map(|text| Some(Value::BulkString(text.into_bytes()))),
            (-2f64..3.0).prop_map(|number| Some(Value::Double(number))),
        ];
        (values, other, any::<Index>()).prop_map(|(mut values, other, at)| {
            if let Some(other) = other
                && !values.is_empty()
            {
                let at = at.index(values.len());
                values[at] = other;
            }
            Value::Array(values)
        })
    }

    /// Almost the reply to an inspection.
    fn nearly_snapshot() -> impl Strategy<Value = Value> {
        let field = prop_oneof![
            "[+-]?[0-9]{1,21}".prop_map(String::into_bytes),
            prop::collection::vec(any::<u8>(), 0..5),
        ];
        let value = prop_oneof![
            3 => field.prop_map(Value::BulkString),
            1 => (-2i64..3).prop_map(Value::Int),
        ];
        let fields = prop::collection::vec(value, 0..7);
        let head = [-2i64..3, -1..3, -1..3, 0..2, -1..3].map(|number| number.prop_map(Value::Int));
        (head, fields)
            .prop_map(|(head, fields)| Value::Array(head.into_iter().chain(fields).collect()))
    }

    proptest! {
        #[test]
        fn any_reply_is_read_exactly_or_rejected(
            value in prop_oneof![any_reply(), nearly(), nearly_snapshot()],
        ) {
            reply(&value);
        }

        #[test]
        fn every_reply_of_a_script_is_accepted(
            token in 1i64..1 << 53,
            millis in 0..=i64::MAX,
            micros in 0..=i64::MAX,
        ) {
            let held = |lease, at: i64, is_contended| AcquireReply::Held {
                token: FencingToken(token.unsigned_abs()),
                lease,
                at: StoreTime { micros: at.unsigned_abs() },
                is_contended,
            };
            let value = array(&[1, token, millis, micros]);
            let asked = held(from_millis(millis), micros, true);
            prop_assert_eq!(acquired(&value, TTL), Some(asked));
            prop_assert_eq!(acquired(&Value::Int(token), TTL), Some(held(TTL, token, false)));
            let now = StoreTime { micros: micros.unsigned_abs() };
            for (remaining, spelt) in [(Some(from_millis(millis)), millis), (None, -1)] {
                let busy = AcquireReply::Busy { remaining, now };
                let value = array(&[0, spelt, micros]);
                prop_assert_eq!(acquired(&value, TTL), Some(busy));
            }
        }

        /// Lua, JSON and JavaScript do not represent every such number.
        #[test]
        fn a_token_that_is_too_great_is_refused(token in 1i64 << 53.., micros in 0..=i64::MAX) {
            prop_assert!(acquired(&Value::Int(token), TTL).is_none());
            prop_assert!(acquired(&array(&[1, token, 5, micros]), TTL).is_none());
            prop_assert!(released(&Value::Int(token)).is_none());
            let shown = [5, 0, token, 0, micros].map(Value::Int);
            prop_assert!(snapshot(&Value::Array(shown.into())).is_none());
            let hold = Owner::new().next_hold();
            prop_assert_eq!(read_handoff(&format!("{hold} {token} {micros} 5 key")), None);
        }

        #[test]
        fn every_message_of_a_script_is_accepted(
            token in 1u64..1 << 53,
            micros in 0..=i64::MAX,
            millis in 0..=i64::MAX,
            key in "\\PC{1,30}",
        ) {
            let sent = HandoffMessage {
                key,
                holds: vec![Owner::new().next_hold()],
                token: FencingToken(token),
                at: StoreTime { micros: micros.unsigned_abs() },
                lease: from_millis(millis),
            };
            prop_assert_eq!(read_handoff(&written(&sent)), Some(sent));
        }

        #[test]
        fn any_message_is_read_exactly_or_dropped(
            text in prop_oneof![
                "4f0e1d2c-0000-4000-8000-000000000000:7( [+-]?[0-9]{1,20}){3} [a-c ]{0,3}",
                "([0-9a-f:-]{0,40} ?){0,8}",
            ],
        ) {
            message(&text);
        }
    }
}

//! The writing and reading of the records of waits.

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

/// The record as the script completes it.
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
    let publish = ChangeWaits(vec![WaitChange::Publish(PublishWait {
        owner: hold.owner(),
        wait: Arc::new(wait),
        life: Duration::from_secs(2),
        known: None,
    })]);
    let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
    for answers in [vec![], vec![0], vec![i64::MIN], vec![1, 1]] {
        let reply = Value::Array(answers.into_iter().map(Value::Int).collect());
        assert!(publish.read(reply.clone()).is_err(), "{reply:?}");
    }
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

//! The reading of replies about waits.

use super::*;
use crate::base::id::Owner;

#[test]
fn malformed_replies_are_refused() {
    let hold = Owner::new().next_hold();
    let key: Arc<str> = Arc::from("a");
    let wait = EnclosedWait {
        id: hold,
        key: Arc::clone(&key),
        enclosing: Vec::new(),
    };
    let (look, holds) = (ListWaits { hold }, ListHolds { key });
    let publish = UpdateWait::Publish(PublishWait {
        owner: hold.owner(),
        wait: Arc::new(wait),
        life: Duration::from_secs(2),
        known: None,
    });
    let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
    for reply in [Value::Nil, Value::Int(0), Value::Int(i64::MIN), text("1")] {
        assert!(publish.decode(&reply).is_none(), "{reply:?}");
        assert!(look.decode(&reply).is_none(), "{reply:?}");
        assert!(holds.decode(&reply).is_none(), "{reply:?}");
    }
    for reply in [
        vec![],
        vec![Value::Int(0)],
        vec![Value::Int(1), text("x")],
        vec![Value::Int(1), text("x"), Value::Nil],
    ] {
        let reply = Value::Array(reply);
        assert!(look.decode(&reply).is_none(), "{reply:?}");
    }
    assert!(holds.decode(&Value::Array(vec![Value::Nil])).is_none());
    let odd = Value::Array(vec![Value::Int(1), text("x"), text("y")]);
    assert!(look.decode(&odd).is_some_and(|look| look.waits.is_empty()));
}

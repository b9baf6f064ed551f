//! Several locks together. What fails at one of them does not affect the others.

use std::time::Duration;

use super::super::several::{each, keys};
use super::super::world::{MINUTE, World, release_all, some_hold};
use super::ask;
use crate::base::error::{FailureClass, StoreError};
use crate::store::{KeyedHold, Renew, RenewReply};

async fn renew(
    world: &World,
    holds: &[KeyedHold],
    ttl: Duration,
) -> Result<Vec<RenewReply>, StoreError> {
    let holds = holds.to_vec();
    world.store.ask(Renew { holds, ttl }).await
}

fn class<T>(outcome: Result<T, StoreError>) -> Option<FailureClass> {
    outcome.err().map(|error| error.failure_class())
}

/// If a key is renewed alone, a failure is the error of the request. Together with others, it is the outcome for that
/// key.
#[tokio::test]
async fn a_key_of_another_type_does_not_keep_the_others_from_being_renewed() {
    let mut world = World::on_redis().await;
    let keys = keys(&world);
    for (at, wrong) in keys.iter().enumerate() {
        let hold = some_hold();
        world.take_all(&keys, hold, MINUTE).await;
        let () = ask(&world, &format!("SET {} precious", wrong.as_str())).await;
        let mut expected = [RenewReply::Renewed; 3];
        expected[at] = RenewReply::Failed;
        let holds = each(&keys, hold);
        let renewed = renew(&world, &holds, 3 * MINUTE).await;
        assert_eq!(renewed.expect("an answer"), expected);
        for key in keys.iter().filter(|key| *key != wrong) {
            let left: i64 = ask(&world, &format!("PTTL {}", key.as_str())).await;
            assert!(left > 120_000, "{key:?}: {left}");
        }
        let alone = renew(&world, &holds[at..=at], MINUTE).await;
        assert_eq!(class(alone), Some(FailureClass::Permanent));
        let () = ask(&world, "FLUSHALL").await;
    }
}

/// The server rejects the whole request, so nothing is known about the other keys.
#[tokio::test]
async fn a_key_that_the_user_may_not_touch_is_an_error_that_may_be_of_one_key() {
    let mut world = World::on_redis().await;
    let (keys, hold) = (keys(&world), some_hold());
    world.take_all(&keys, hold, MINUTE).await;
    let permitted = "ACL SETUSER default resetkeys ~app:order ~*:second";
    let () = ask(&world, permitted).await;
    let holds = each(&keys, hold);
    let refused = renew(&world, &holds, MINUTE).await.expect_err("NOPERM");
    assert!(
        crate::redis::failure::may_be_about_one_key(&refused),
        "{refused}"
    );
    let alone = renew(&world, &holds[..1], MINUTE).await;
    assert_eq!(alone.expect("an answer"), [RenewReply::Renewed]);
    let () = ask(&world, "ACL SETUSER default allkeys").await;
}

#[tokio::test]
async fn a_full_server_keeps_and_frees_what_is_held() {
    let mut world = World::on_redis().await;
    let holds = each(&keys(&world), some_hold());
    world.take_all(&keys(&world), holds[0].1, MINUTE).await;
    let () = ask(&world, "CONFIG SET maxmemory 1").await;
    let renewed = renew(&world, &holds, 3 * MINUTE).await;
    assert_eq!(renewed.expect("an answer"), [RenewReply::Renewed; 3]);
    let released = release_all(&world.store, &holds).await;
    assert_eq!(released, [true; 3]);
    assert_eq!(ask::<i64>(&world, "DBSIZE").await, 0);
}

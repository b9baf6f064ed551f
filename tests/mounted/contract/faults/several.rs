//! Several locks together. What fails at one of them does not affect the others.

use std::time::Duration;

use super::super::world::{MINUTE, World, acquire_request, release_all, some_hold};
use super::ask;
use crate::base::error::{FailureClass, StoreError};
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::store::{Acquire, KeyedHold, Renew, RenewReply, Store};

const KEYS: [&str; 3] = ["app:order", "app:second", "app:third"];

fn keys() -> Vec<LockKey> {
    let keys = KEYS.map(|key| LockKey::new("", key).expect("a valid key"));
    keys.into()
}

async fn take_all(world: &World, hold: HoldId) {
    for key in keys() {
        let request = acquire_request(hold, MINUTE);
        world.send(Acquire { key, request }).await;
    }
}

fn each(hold: HoldId) -> Vec<KeyedHold> {
    keys().into_iter().map(|key| (key, hold)).collect()
}

async fn renew(world: &World, hold: HoldId, ttl: Duration) -> Result<Vec<RenewReply>, StoreError> {
    let holds = each(hold);
    world.store.ask(Renew { holds, ttl }).await
}

fn class<T>(outcome: Result<T, StoreError>) -> Option<FailureClass> {
    outcome.err().map(|error| error.failure_class())
}

/// If a key is renewed alone, a failure is the error of the request. Together with others, it is the outcome for that
/// key.
#[tokio::test]
async fn a_key_of_another_type_does_not_keep_the_others_from_being_renewed() {
    let world = World::on_redis().await;
    for (at, wrong) in KEYS.iter().enumerate() {
        let hold = some_hold();
        take_all(&world, hold).await;
        let () = ask(&world, &format!("SET {wrong} precious")).await;
        let mut expected = [RenewReply::Renewed; 3];
        expected[at] = RenewReply::Failed;
        let renewed = renew(&world, hold, 3 * MINUTE).await;
        assert_eq!(renewed.expect("an answer"), expected);
        for key in KEYS.iter().filter(|key| *key != wrong) {
            let left: i64 = ask(&world, &format!("PTTL {key}")).await;
            assert!(left > 120_000, "{key}: {left}");
        }
        let holds = vec![(keys()[at].clone(), hold)];
        let alone = world.store.ask(Renew { holds, ttl: MINUTE }).await;
        assert_eq!(class(alone), Some(FailureClass::Permanent));
        let () = ask(&world, "FLUSHALL").await;
    }
}

/// The server rejects the whole request, so nothing is known about the other keys.
#[tokio::test]
async fn a_key_that_the_user_may_not_touch_is_an_error_that_may_be_of_one_key() {
    let world = World::on_redis().await;
    let hold = some_hold();
    take_all(&world, hold).await;
    let () = ask(
        &world,
        "ACL SETUSER default resetkeys ~app:order ~app:second",
    )
    .await;
    let refused = renew(&world, hold, MINUTE).await.expect_err("NOPERM");
    assert!(Store::may_concern_one_key(&refused), "{refused}");
    let holds = vec![(keys()[0].clone(), hold)];
    let alone = world.store.ask(Renew { holds, ttl: MINUTE }).await;
    assert_eq!(alone.expect("an answer"), [RenewReply::Renewed]);
    let () = ask(&world, "ACL SETUSER default allkeys").await;
}

#[tokio::test]
async fn a_full_server_keeps_and_frees_what_is_held() {
    let world = World::on_redis().await;
    let hold = some_hold();
    take_all(&world, hold).await;
    let () = ask(&world, "CONFIG SET maxmemory 1").await;
    let renewed = renew(&world, hold, 3 * MINUTE).await;
    assert_eq!(renewed.expect("an answer"), [RenewReply::Renewed; 3]);
    let released = release_all(&world.store, &each(hold)).await;
    assert_eq!(released, [true; 3]);
    assert_eq!(ask::<i64>(&world, "DBSIZE").await, 0);
}

//! Several locks together. Whatever fails, all of them are taken or none, and none remains without an expiry.

use std::time::Duration;

use super::super::world::{MINUTE, World, release_all, some_hold};
use super::ask;
use crate::base::error::{Effect, StoreError};
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::store::{AcquireAll, AcquireAllReply, HoldOf, Renew, RenewAnswer, Store};

const KEYS: [&str; 3] = ["app:order", "app:second", "app:third"];

fn keys() -> Vec<LockKey> {
    let keys = KEYS.map(|key| LockKey::new("", key).expect("a valid key"));
    keys.into()
}

async fn acquire_all(
    world: &World,
    hold: HoldId,
    ttl: Duration,
) -> Result<AcquireAllReply, StoreError> {
    let keys = keys();
    world.store.ask(AcquireAll { keys, hold, ttl }).await
}

fn each(hold: HoldId) -> Vec<HoldOf> {
    keys().into_iter().map(|key| (key, hold)).collect()
}

async fn renew(world: &World, hold: HoldId, ttl: Duration) -> Result<Vec<RenewAnswer>, StoreError> {
    let holds = each(hold);
    world.store.ask(Renew { holds, ttl }).await
}

fn effect<T>(outcome: Result<T, StoreError>) -> Option<Effect> {
    outcome.err().map(|error| error.effect())
}

#[tokio::test]
async fn a_foreign_type_at_any_lock_is_an_error_and_nothing_is_taken() {
    let world = World::on_redis().await;
    for wrong in KEYS {
        let () = ask(&world, &format!("SET {wrong} precious")).await;
        let hold = some_hold();
        let acquired = acquire_all(&world, hold, MINUTE).await;
        assert_eq!(effect(acquired), Some(Effect::Refused));
        assert_eq!(ask::<Vec<String>>(&world, "KEYS *").await, [wrong]);
        assert_eq!(
            ask::<String>(&world, &format!("GET {wrong}")).await,
            "precious"
        );
        // It does not block any other one.
        let released = release_all(&world.store, &each(hold)).await;
        assert_eq!(released, [false; 3]);
        let () = ask(&world, "FLUSHALL").await;
    }
}

#[tokio::test]
async fn a_script_that_dies_at_any_write_takes_all_or_none_and_leaves_no_lock_without_an_expiry() {
    let world = World::on_redis().await;
    for denied in [
        "hset", "pexpire", "del", "time", "exists", "zrange", "hexists",
    ] {
        for held in [false, true] {
            let () = ask(&world, "ACL SETUSER default +@all").await;
            let () = ask(&world, "FLUSHALL").await;
            let hold = some_hold();
            if held {
                let taken = acquire_all(&world, hold, MINUTE).await;
                assert!(matches!(taken, Ok(AcquireAllReply::Held { .. })));
            }
            let () = ask(&world, &format!("ACL SETUSER default +@all -{denied}")).await;
            let acquired = acquire_all(&world, hold, MINUTE).await;
            let here = async || {
                let mut here = 0;
                for key in KEYS {
                    let left: i64 = ask(&world, &format!("PTTL {key}")).await;
                    assert_ne!(left, -1, "no {denied}: {key}");
                    here += usize::from(left > 0);
                }
                here
            };
            let expected = if held || acquired.is_ok() { 3 } else { 0 };
            assert_eq!(here().await, expected, "no {denied}");
            drop(renew(&world, hold, MINUTE).await);
            assert_eq!(here().await, expected, "no {denied}");
            let released = release_all(&world.store, &each(hold)).await;
            let released = released.iter().filter(|released| **released).count();
            assert_eq!(here().await, expected - released, "no {denied}");
        }
    }
}

/// If a key is renewed alone, a failure is the error of the request. Together with others, it is the outcome for that
/// key.
#[tokio::test]
async fn a_key_of_another_type_does_not_keep_the_others_from_being_renewed() {
    let world = World::on_redis().await;
    for (at, wrong) in KEYS.iter().enumerate() {
        let hold = some_hold();
        drop(acquire_all(&world, hold, MINUTE).await);
        let () = ask(&world, &format!("SET {wrong} precious")).await;
        let mut expected = [RenewAnswer::Renewed; 3];
        expected[at] = RenewAnswer::Failed;
        let renewed = renew(&world, hold, 3 * MINUTE).await;
        assert_eq!(renewed.expect("an answer"), expected);
        for key in KEYS.iter().filter(|key| *key != wrong) {
            let left: i64 = ask(&world, &format!("PTTL {key}")).await;
            assert!(left > 120_000, "{key}: {left}");
        }
        let holds = vec![(keys()[at].clone(), hold)];
        let alone = world.store.ask(Renew { holds, ttl: MINUTE }).await;
        assert_eq!(effect(alone), Some(Effect::Refused));
        let () = ask(&world, "FLUSHALL").await;
    }
}

/// The server rejects the whole request, so nothing is known about the other keys.
#[tokio::test]
async fn a_key_that_the_user_may_not_touch_is_an_error_that_may_be_of_one_key() {
    let world = World::on_redis().await;
    let hold = some_hold();
    drop(acquire_all(&world, hold, MINUTE).await);
    let () = ask(
        &world,
        "ACL SETUSER default resetkeys ~app:order ~app:second",
    )
    .await;
    let refused = renew(&world, hold, MINUTE).await.expect_err("NOPERM");
    assert!(Store::may_concern_one_key(&refused), "{refused}");
    let holds = vec![(keys()[0].clone(), hold)];
    let alone = world.store.ask(Renew { holds, ttl: MINUTE }).await;
    assert_eq!(alone.expect("an answer"), [RenewAnswer::Renewed]);
    let () = ask(&world, "ACL SETUSER default allkeys").await;
}

#[tokio::test]
async fn a_full_server_takes_none_and_keeps_and_frees_what_is_held() {
    let world = World::on_redis().await;
    let hold = some_hold();
    drop(acquire_all(&world, hold, MINUTE).await);
    let () = ask(&world, "CONFIG SET maxmemory 1").await;
    let others = ["x", "y"].map(|key| LockKey::new("", key).expect("a valid key"));
    let full = world
        .store
        .ask(AcquireAll {
            keys: others.to_vec(),
            hold: some_hold(),
            ttl: MINUTE,
        })
        .await;
    assert_eq!(effect(full), Some(Effect::None));
    assert_eq!(ask::<i64>(&world, "EXISTS x y").await, 0);
    let renewed = renew(&world, hold, 3 * MINUTE).await;
    assert_eq!(renewed.expect("an answer"), [RenewAnswer::Renewed; 3]);
    let again = acquire_all(&world, hold, 5 * MINUTE).await;
    assert!(
        matches!(again, Ok(AcquireAllReply::Held { .. })),
        "{again:?}"
    );
    let released = release_all(&world.store, &each(hold)).await;
    assert_eq!(released, [true; 3]);
    assert_eq!(ask::<i64>(&world, "DBSIZE").await, 0);
}

#[tokio::test]
async fn a_line_of_another_type_is_removed() {
    let world = World::on_redis().await;
    for (at, key) in keys().iter().enumerate() {
        let line = key.line();
        let () = ask(&world, &format!("SET {line} odd")).await;
        let hold = some_hold();
        let taken = acquire_all(&world, hold, MINUTE).await;
        assert!(
            matches!(taken, Ok(AcquireAllReply::Held { .. })),
            "{at}: {taken:?}"
        );
        let released = release_all(&world.store, &each(hold)).await;
        assert_eq!(released, [true; 3]);
        assert_eq!(ask::<i64>(&world, "DBSIZE").await, 0);
    }
}

#[tokio::test]
async fn a_token_that_cannot_be_read_is_made_anew_when_they_are_asked_for_again() {
    let world = World::on_redis().await;
    let hold = some_hold();
    let tokens = async || match acquire_all(&world, hold, MINUTE).await {
        Ok(AcquireAllReply::Held { locks, .. }) => locks
            .into_iter()
            .map(|(token, _)| token)
            .collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let before = tokens().await;
    let () = ask(&world, "HSET app:second mode odd").await;
    let again = tokens().await;
    assert_eq!([again[0], again[2]], [before[0], before[2]]);
    assert!(again[1] > before[1]);
    assert_eq!(tokens().await, again);
}

#[tokio::test]
async fn a_server_that_forgot_the_scripts_of_several_is_told_them_again() {
    let world = World::on_redis().await;
    let hold = some_hold();
    for _ in 0..2 {
        let () = ask(&world, "SCRIPT FLUSH").await;
        let taken = acquire_all(&world, hold, MINUTE).await;
        assert!(
            matches!(taken, Ok(AcquireAllReply::Held { .. })),
            "{taken:?}"
        );
        let () = ask(&world, "SCRIPT FLUSH").await;
        let renewed = renew(&world, hold, MINUTE).await;
        assert_eq!(renewed.expect("an answer"), [RenewAnswer::Renewed; 3]);
        let () = ask(&world, "SCRIPT FLUSH").await;
        let released = release_all(&world.store, &each(hold)).await;
        assert_eq!(released, [true; 3]);
    }
}

//! P7 and P8 for several locks: dropped futures, lost answers, a full server, odd data.

use std::time::Duration;

use crate::support::proxy::Direction::ToServer;
use crate::support::rig::{EVALSHA, FAULTS};
use crate::support::sweep::{Ground, KEY, on_both_grounds};
use crate::support::{Action, DEADLINE, RedisServer, Rig, connect, eventually, within};
use reentry::LockError;
use tokio::task::yield_now;

on_both_grounds!(
    several_may_be_dropped_after_any_poll,
    waiting_for_one_of_several_may_be_dropped_after_any_poll,
    a_guard_of_several_may_be_dropped_after_any_poll_of_its_life,
    re_entered_ones_may_be_dropped_after_any_poll,
);

/// Beside that of the sweep, one before and one behind it in the order.
const OTHERS: [&str; 2] = ["ahead", "behind"];

fn keys() -> [&'static str; 3] {
    [KEY, OTHERS[0], OTHERS[1]]
}

/// Takes three polls.
async fn body() {
    yield_now().await;
    yield_now().await;
}

async fn several_may_be_dropped_after_any_poll(ground: Ground) {
    let polls = ground
        .sweep(|| ground.locks.lock_all(keys()).run(body()))
        .await;
    assert!(polls >= 3, "the body alone takes three polls, not {polls}");
    assert_others_are_free(&ground).await;
}

async fn assert_others_are_free(ground: &Ground) {
    for key in OTHERS {
        let free = async || ground.locks.inspect(key).await.unwrap().is_none();
        eventually(DEADLINE, "it is free", free).await;
    }
}

async fn waiting_for_one_of_several_may_be_dropped_after_any_poll(ground: Ground) {
    let waiting = |holder: reentry::LockGuard| {
        let several = ground.locks.lock_all(keys()).run(body());
        async {
            let release = async {
                body().await;
                holder.release().await.unwrap();
            };
            let (taken, ()) = tokio::join!(several, release);
            taken.unwrap();
        }
    };
    ground.sweep_held(waiting).await;
    assert_others_are_free(&ground).await;
}

async fn a_guard_of_several_may_be_dropped_after_any_poll_of_its_life(ground: Ground) {
    let life = || async {
        let guard = ground.locks.lock_all(keys()).await.unwrap();
        yield_now().await;
        guard
            .scope(ground.locks.with_lock(KEY, body()))
            .await
            .unwrap()
            .unwrap();
        yield_now().await;
        guard.release().await.unwrap();
    };
    ground.sweep(life).await;
    assert_others_are_free(&ground).await;
}

async fn re_entered_ones_may_be_dropped_after_any_poll(ground: Ground) {
    let nested = || {
        let inner = ground.locks.lock_all(keys()).run(body());
        ground.locks.with_lock(KEY, inner)
    };
    ground.sweep(nested).await;
    assert_others_are_free(&ground).await;
}

#[tokio::test]
async fn several_may_be_dropped_after_any_poll_on_a_bad_network() {
    for fault in FAULTS {
        let ground = Ground::on_bad_network(fault).await;
        ground
            .sweep(|| ground.locks.lock_all(keys()).run(body()))
            .await;
    }
}

#[tokio::test]
async fn an_acquire_of_several_that_goes_wrong_on_its_way_takes_them_once() {
    let rig = Rig::start().await;
    for fault in FAULTS {
        rig.proxy.on_next(ToServer, EVALSHA, fault);
        let body = async { keys().map(|key| reentry::held(key).unwrap().depth()) };
        let depths = within(DEADLINE, "they enter", rig.locks.lock_all(keys()).run(body)).await;
        assert_eq!(depths.unwrap(), [1; 3], "{fault:?}");
        let nothing = async || rig.server.leftovers().await.is_empty();
        eventually(DEADLINE, "nothing is left", nothing).await;
    }
}

#[tokio::test]
async fn a_try_acquire_of_several_that_goes_wrong_on_its_way_leaves_nothing() {
    let rig = Rig::start().await;
    for fault in FAULTS {
        rig.proxy.on_next(ToServer, EVALSHA, fault);
        match rig.locks.lock_all(keys()).try_acquire().await {
            Ok(guard) => guard.expect("free locks").release().await.unwrap(),
            Err(error) => assert!(matches!(error, LockError::Store { .. }), "{error}"),
        }
        let nothing = async || rig.server.leftovers().await.is_empty();
        eventually(DEADLINE, "nothing is left", nothing).await;
    }
}

#[tokio::test]
async fn a_release_of_several_that_goes_wrong_on_its_way_frees_them_and_the_output_stands() {
    let rig = Rig::start().await;
    for fault in FAULTS {
        if fault == Action::Twice {
            // No client sees the second answer to one request.
            continue;
        }
        let body = async {
            rig.proxy.on_next(ToServer, EVALSHA, fault);
            "output"
        };
        assert_eq!(
            rig.locks.lock_all(keys()).run(body).await.unwrap(),
            "output"
        );
        let nothing = async || rig.server.leftovers().await.is_empty();
        eventually(DEADLINE, "nothing is left", nothing).await;
    }
}

#[tokio::test]
async fn an_acquire_of_several_that_comes_after_their_end_takes_nothing() {
    let rig = Rig::start().await;
    rig.proxy.on_next(ToServer, EVALSHA, Action::Record);
    rig.locks.lock_all(keys()).run(async {}).await.unwrap();
    rig.proxy.on_next(
        ToServer,
        EVALSHA,
        Action::CutInstead(crate::support::Cut::Reset),
    );
    drop(rig.locks.lock_all(keys()).try_acquire().await);
    let nothing = async || rig.server.leftovers().await.is_empty();
    eventually(DEADLINE, "nothing is left", nothing).await;
}

#[tokio::test]
async fn a_full_server_takes_none_of_several_and_lets_them_go() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    let guard = locks.lock_all(keys()).await.unwrap();
    server.ask("CONFIG SET maxmemory 1").await;
    let waiting = locks.lock_all(["x", "y"]).wait(Duration::from_millis(100));
    let error = waiting.await.unwrap_err();
    assert!(
        matches!(
            &error,
            LockError::Timeout {
                source: Some(_),
                ..
            }
        ),
        "{error}"
    );
    let error = locks.lock_all(["x", "y"]).no_wait().await.unwrap_err();
    assert!(matches!(error, LockError::Store { .. }), "{error}");
    guard.release().await.unwrap();
    assert_eq!(server.ask("DBSIZE").await, "0");
    server.ask("CONFIG SET maxmemory 0").await;
    locks.lock_all(["x", "y"]).run(async {}).await.unwrap();
}

#[tokio::test]
async fn a_key_that_is_no_lock_is_named_and_nothing_is_taken() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    for wrong in keys() {
        server.ask(&format!("SET {wrong} precious")).await;
        for request in [locks.lock_all(keys()), locks.lock_all(keys()).no_wait()] {
            let error = request.await.unwrap_err();
            assert!(matches!(error, LockError::Store { .. }), "{error}");
            assert_eq!(error.key(), Some(wrong), "{error}");
            let alone = async || server.ask("DBSIZE").await == "1";
            eventually(DEADLINE, "nothing is taken", alone).await;
        }
        assert_eq!(server.ask(&format!("GETDEL {wrong}")).await, "precious");
    }
}

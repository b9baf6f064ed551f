//! P5 and P6 when the server is down or out of reach: while waiting, while holding, and at its
//! return with or without its data.

use std::error::Error;
use std::future::pending;
use std::time::Duration;

use crate::support::rig::KEY;
use crate::support::{DEADLINE, Rig, eventually, within};
use reentry::{LockError, LostReason, OnLost};
use tokio::sync::oneshot;

const SECOND: Duration = Duration::from_secs(1);

/// The reason in a `Lost` about the rig's key.
fn lost<T: std::fmt::Debug>(result: Result<T, LockError>) -> LostReason {
    match result.unwrap_err() {
        LockError::Lost { key, reason, .. } if key == KEY => reason,
        other => panic!("not lost, but {other:?}"),
    }
}

/// A value that tells when it is dropped: part of a body, it tells of the body's end.
fn canary() -> (impl Sized + Send, oneshot::Receiver<()>) {
    oneshot::channel()
}

#[tokio::test]
async fn a_server_that_stays_down_while_we_wait_is_a_timeout_with_its_last_error() {
    let rig = Rig::start().await;
    rig.server.stop();
    let waiting = rig.locks.lock(KEY).wait(SECOND / 2).acquire();
    let error = within(DEADLINE, "the wait ends", waiting)
        .await
        .unwrap_err();
    assert!(!error.is_contended(), "the lock is free");
    let LockError::Timeout { key, waited, .. } = &error else {
        panic!("not a timeout, but {error:?}");
    };
    assert_eq!(key, KEY);
    assert!(*waited >= SECOND / 2);
    let store = error.source().expect("the last error of the store");
    let endpoint = format!("127.0.0.1:{}", rig.proxy.port());
    assert!(store.to_string().contains(&endpoint), "{store}");
    rig.server.start_again().await;
    rig.locks.with_lock(KEY, async {}).await.unwrap();
}

#[tokio::test]
async fn a_server_that_comes_back_while_we_wait_lets_us_in() {
    let rig = Rig::start().await;
    rig.server.stop();
    rig.proxy.refuse().await;
    let waiting = tokio::spawn(rig.locks.with_lock(KEY, async { 1 }));
    rig.server.start_again().await;
    rig.proxy.accept().await;
    let entered = within(DEADLINE, "the waiter enters", waiting).await;
    assert_eq!(entered.unwrap().unwrap(), 1);
    rig.until_free().await;
}

#[tokio::test]
async fn a_server_that_goes_down_under_a_holder_costs_it_the_lock_at_its_deadline() {
    let rig = Rig::with_ttl(2 * SECOND).await;
    let (song, silence) = canary();
    let locked = rig.locks.with_lock(KEY, async {
        let _song = song;
        rig.server.stop();
        pending::<()>().await;
    });
    let result = within(DEADLINE, "the loss is noticed", locked).await;
    assert_eq!(lost(result), LostReason::Unconfirmed);
    assert!(silence.await.is_err(), "the body was dropped");
}

#[tokio::test]
async fn a_silent_network_costs_the_lock_at_its_deadline_and_a_nested_call_ends_with_it() {
    let rig = Rig::with_ttl(2 * SECOND).await;
    let locked = rig.locks.with_lock(KEY, async {
        rig.proxy.blackhole();
        rig.locks.with_lock(KEY, pending::<()>()).await
    });
    let locked = within(DEADLINE, "the loss is noticed", locked).await;
    assert_eq!(lost(locked), LostReason::Unconfirmed);
}

#[tokio::test]
async fn a_body_that_keeps_running_sees_the_loss_and_its_output_is_returned() {
    let rig = Rig::with_ttl(2 * SECOND).await;
    let request = rig.locks.lock(KEY).on_lost(OnLost::KeepRunning);
    let locked = request.run(async {
        rig.server.stop();
        let held = reentry::held(KEY).unwrap();
        let reason = held.lost().await;
        assert!(held.is_lost() && held.remaining().is_zero());
        reason
    });
    let reason = within(DEADLINE, "the body ends", locked).await.unwrap();
    assert_eq!(reason, LostReason::Unconfirmed);
}

/// A lease whose first renewal is due long after the deadline of the test.
const FAR: Duration = Duration::from_secs(300);

#[tokio::test]
async fn a_server_restarted_empty_is_noticed_at_reconnection() {
    let rig = Rig::with_ttl(FAR).await;
    let (song, silence) = canary();
    let locked = rig.locks.with_lock(KEY, async {
        let _song = song;
        rig.server.restart_empty().await;
        pending::<()>().await;
    });
    let result = within(DEADLINE, "the idle hold notices", locked).await;
    assert_eq!(lost(result), LostReason::Gone);
    assert!(silence.await.is_err(), "the body was dropped");
    rig.locks.with_lock(KEY, async {}).await.unwrap();
}

#[tokio::test]
async fn every_idle_hold_notices_a_server_restarted_empty() {
    let rig = Rig::with_ttl(FAR).await;
    let mut guards = Vec::new();
    for number in 0..50 {
        let key = format!("key-{number}");
        guards.push(rig.locks.lock(key).await.unwrap());
    }
    rig.server.restart_empty().await;
    for guard in guards {
        let reason = within(DEADLINE, "the idle hold notices", guard.held().lost()).await;
        assert_eq!(reason, LostReason::Gone);
    }
}

#[tokio::test]
async fn a_server_restarted_with_its_data_leaves_the_hold_alone() {
    let rig = Rig::with_ttl(FAR).await;
    let locked = rig.locks.with_lock(KEY, async {
        rig.server.restart_with_data().await;
        rig.until_executed(0, 1).await;
        // The hold was verified; a nested entry works as before.
        rig.locks.with_lock(KEY, async { rig.depth().await }).await
    });
    assert_eq!(locked.await.unwrap().unwrap(), 2);
    rig.until_free().await;
}

#[tokio::test]
async fn a_cut_connection_is_verified_at_once_and_costs_nothing() {
    let rig = Rig::with_ttl(FAR).await;
    let locked = rig.locks.with_lock(KEY, async {
        for _ in 0..5 {
            let executed = rig.executed().await;
            rig.cut().await;
            rig.until_executed(executed, 1).await;
        }
        assert_eq!(rig.depth().await, 1);
    });
    locked.await.unwrap();
    rig.until_free().await;
}

#[tokio::test]
async fn waiters_outlive_a_server_restarted_empty_and_enter_once_it_is_back() {
    let rig = Rig::with_ttl(FAR).await;
    let holder = rig.locks.lock(KEY).await.unwrap();
    let waiters: Vec<_> = (0..20)
        .map(|_| tokio::spawn(rig.locks.with_lock(KEY, async { own_token() })))
        .collect();
    let waiting = async || {
        let info = rig.locks.inspect(KEY).await.unwrap();
        info.is_some_and(|info| info.waiters == 20)
    };
    eventually(DEADLINE, "they wait", waiting).await;
    rig.server.restart_empty().await;
    let before = holder.held().fencing_token();
    let mut tokens = Vec::new();
    for waiter in waiters {
        let entered = within(DEADLINE, "a waiter enters", waiter).await;
        tokens.push(entered.unwrap().unwrap());
    }
    assert!(tokens.iter().all(|token| *token > before.0));
    let reason = within(DEADLINE, "the holder notices", holder.held().lost()).await;
    assert_eq!(reason, LostReason::Gone);
    rig.until_free().await;
}

fn own_token() -> u64 {
    reentry::held(KEY).unwrap().fencing_token().0
}

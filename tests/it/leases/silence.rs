//! A server that is there and does not answer: `CLIENT PAUSE` and SIGSTOP, for longer than the
//! response timeout, at every step (P5, P8, P13).

use std::future::pending;
use std::time::Duration;

use crate::support::rig::{KEY, RESPONSE_TIMEOUT};
use crate::support::{DEADLINE, Rig, eventually, within};
use reentry::{LockError, LostReason};

const SECOND: Duration = Duration::from_secs(1);

/// Nothing is answered for four response timeouts.
async fn client_pause(rig: &Rig) {
    let pause = (4 * RESPONSE_TIMEOUT).as_millis();
    rig.server.ask(&format!("CLIENT PAUSE {pause} ALL")).await;
}

#[tokio::test]
async fn a_client_pause_while_acquiring_delays_the_acquire_and_leaves_one_entry() {
    let rig = Rig::start().await;
    client_pause(&rig).await;
    let locked = rig.locks.with_lock(KEY, async { rig.depth().await });
    assert_eq!(within(DEADLINE, "it enters", locked).await.unwrap(), 1);
    rig.until_free().await;
}

#[tokio::test]
async fn a_client_pause_while_acquiring_longer_than_the_wait_is_a_timeout_that_leaves_nothing() {
    let rig = Rig::start().await;
    client_pause(&rig).await;
    let waiting = rig.locks.lock(KEY).wait(2 * RESPONSE_TIMEOUT).acquire();
    let error = within(DEADLINE, "the wait ends", waiting)
        .await
        .unwrap_err();
    assert!(matches!(error, LockError::Timeout { .. }), "{error:?}");
    assert!(!error.is_contended(), "the lock is free: {error:?}");
    // Its requests are executed when the pause ends; what they took is given back.
    let undone = async || rig.server.tombstones().await == 1 && rig.depth().await == 0;
    eventually(DEADLINE, "the acquire is undone", undone).await;
    rig.locks.with_lock(KEY, async {}).await.unwrap();
}

#[tokio::test]
async fn a_client_pause_while_holding_costs_nothing_if_the_lease_is_longer() {
    let rig = Rig::with_ttl(6 * SECOND).await;
    let locked = rig.locks.with_lock(KEY, async {
        client_pause(&rig).await;
        let executed = rig.executed().await;
        // A nested entry meets the pause, the next renewal its end or what is left behind it.
        let inner = rig.locks.with_lock(KEY, async { rig.depth().await });
        assert_eq!(inner.await.unwrap(), 2);
        rig.until_executed(executed, 2).await;
        rig.until_depth(1).await;
    });
    locked.await.unwrap();
    rig.until_free().await;
}

#[tokio::test]
async fn a_client_pause_while_releasing_returns_the_output_before_its_end() {
    let rig = Rig::start().await;
    let locked = rig.locks.with_lock(KEY, async {
        client_pause(&rig).await;
        "output"
    });
    let output = within(DEADLINE, "the output", locked).await;
    assert_eq!(output.unwrap(), "output");
    rig.until_free().await;
}

#[tokio::test]
async fn a_stopped_server_while_acquiring_is_a_timeout_with_its_silence_as_the_cause() {
    let rig = Rig::start().await;
    rig.server.pause();
    let waiting = rig.locks.lock(KEY).wait(2 * RESPONSE_TIMEOUT).acquire();
    let error = within(DEADLINE, "the wait ends", waiting)
        .await
        .unwrap_err();
    let LockError::Timeout { source, .. } = error else {
        panic!("not a timeout, but {error:?}");
    };
    let source = source.expect("the last error of the store");
    assert!(source.to_string().contains("127.0.0.1"), "{source}");
    rig.server.resume();
    rig.locks.with_lock(KEY, async {}).await.unwrap();
    rig.until_free().await;
}

#[tokio::test]
async fn a_server_stopped_beyond_the_lease_costs_the_lock_and_is_cleaned_up_at_its_return() {
    let rig = Rig::with_ttl(2 * SECOND).await;
    let locked = rig.locks.with_lock(KEY, async {
        rig.server.pause();
        pending::<()>().await;
    });
    let error = within(DEADLINE, "the loss is noticed", locked)
        .await
        .unwrap_err();
    let LockError::Lost { reason, .. } = error else {
        panic!("not lost, but {error:?}");
    };
    assert_eq!(reason, LostReason::Unconfirmed);
    rig.server.resume();
    rig.until_free().await;
    rig.locks.with_lock(KEY, async {}).await.unwrap();
}

#[tokio::test]
async fn a_server_stopped_for_less_than_the_lease_costs_nothing() {
    let rig = Rig::with_ttl(6 * SECOND).await;
    let locked = rig.locks.with_lock(KEY, async {
        rig.server.pause();
        let held = reentry::held(KEY).unwrap();
        // The renewal is due and meets silence.
        let due = async || held.remaining() < SECOND * 7 / 2;
        eventually(DEADLINE, "a renewal is due", due).await;
        rig.server.resume();
        let renewed = async || held.remaining() > SECOND * 9 / 2;
        eventually(DEADLINE, "the lease is renewed", renewed).await;
    });
    locked.await.unwrap();
    rig.until_free().await;
}

#[tokio::test]
async fn waiters_get_their_turn_after_the_silence() {
    let rig = Rig::start().await;
    let holder = rig.locks.lock(KEY).await.unwrap();
    let waiters: Vec<_> = (0..10)
        .map(|_| tokio::spawn(rig.locks.with_lock(KEY, async {})))
        .collect();
    rig.server.pause();
    within(DEADLINE, "the release returns", holder.release())
        .await
        .unwrap();
    rig.server.resume();
    for waiter in waiters {
        let entered = within(DEADLINE, "a waiter enters", waiter).await;
        entered.unwrap().unwrap();
    }
    rig.until_free().await;
}

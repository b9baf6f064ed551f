//! One lease for all: the effect on the others when one is lost.

use std::future::pending;
use std::time::Duration;

use crate::support::told;
use crate::support::{DEADLINE, Rig, connect, eventually, within};
use reentry::{Locks, LostReason, OnLost, held};

const KEYS: [&str; 3] = ["a", "b", "c"];

const SECOND: Duration = Duration::from_secs(1);

/// The lock is deleted, and the holds are verified, because the connection is lost.
async fn lose(rig: &Rig, key: &str) {
    rig.server.ask(&format!("DEL {key}")).await;
    rig.cut().await;
}

#[tokio::test]
async fn the_loss_of_one_ends_the_body_and_frees_the_others() {
    let rig = Rig::start().await;
    for (lost, shares) in KEYS.into_iter().zip([false, true, false]) {
        let request = rig.locks.lock_all(KEYS);
        let request = if shares { request.read() } else { request };
        let body = async {
            lose(&rig, lost).await;
            pending::<()>().await;
        };
        let ended = within(DEADLINE, "the loss is noticed", request.run(body)).await;
        let expected = (lost.to_owned(), LostReason::Deleted);
        assert_eq!(told::lost::<()>(ended), expected);
        // The leases would last longer.
        let free = async || {
            let all = rig.locks.lock_all(KEYS).try_acquire().await;
            all.is_ok_and(|all| all.is_some())
        };
        eventually(DEADLINE, "the others are free", free).await;
    }
}

#[tokio::test]
async fn the_loss_of_one_is_seen_at_each_of_them() {
    let rig = Rig::start().await;
    let request = rig.locks.lock_all(KEYS).on_lost(OnLost::KeepRunning);
    let body = async {
        lose(&rig, "b").await;
        let view = |key| held(key).unwrap();
        let mut reasons = Vec::new();
        for key in KEYS {
            reasons.push(view(key).lost().await);
        }
        let another = LostReason::Sibling;
        assert_eq!(reasons, [another, LostReason::Deleted, another]);
        assert!(view("a").remaining().is_zero());
        // A re-entry fails as all of them do.
        let nested = rig.locks.with_lock("c", async {}).await.unwrap_err();
        assert!(nested.is_lost() && nested.key() == Some("b"), "{nested}");
        "kept running"
    };
    let kept = within(DEADLINE, "the loss is noticed", request.run(body)).await;
    assert_eq!(kept.unwrap(), "kept running");
    rig.server.until_clean().await;
}

/// While a caller waits for one lock it has others, and learns that one of them is lost.
#[tokio::test]
async fn a_loss_while_waiting_for_the_next_one_ends_the_wait() {
    let rig = Rig::start().await;
    let other = connect(&rig.server).await;
    // `a` comes last.
    let elsewhere = other.lock("a").await.unwrap();
    let request = rig.locks.lock_all(KEYS).on_lost(OnLost::KeepRunning);
    let waiting = tokio::spawn(request.run(async {}));
    let waits = async || rig.server.ask("EXISTS reentry:queue:{a}:a").await == "1";
    eventually(DEADLINE, "it waits", waits).await;
    lose(&rig, "c").await;
    let error = within(DEADLINE, "the loss is noticed", waiting).await;
    let error = error.unwrap().unwrap_err();
    assert!(error.is_lost() && error.key() == Some("c"), "{error}");
    elsewhere.release().await.unwrap();
    rig.server.until_clean().await;
}

#[tokio::test(start_paused = true)]
async fn a_longer_ttl_of_a_re_entry_is_that_of_all() {
    let locks = Locks::in_memory();
    let body = async {
        let nested = locks.lock("a").ttl(60 * SECOND).run(async {});
        nested.await.unwrap();
        // This happens with the next renewal.
        tokio::time::sleep(30 * SECOND).await;
        let remaining = KEYS.map(|key| held(key).unwrap().remaining());
        assert!(
            remaining.iter().all(|left| *left > 30 * SECOND),
            "{remaining:?}"
        );
        let info = locks.admin().inspect("b").await.unwrap().unwrap();
        assert!(info.remaining.unwrap() > 30 * SECOND);
    };
    locks.lock_all(KEYS).run(body).await.unwrap();
}

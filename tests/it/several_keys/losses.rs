//! One lease for all: what becomes of the others when one is lost, and when the holder dies.

use std::future::pending;
use std::time::Duration;

use crate::support::{
    Child, DEADLINE, RedisServer, Rig, child, connect, eventually, patient_at, within,
};
use reentry::{LockError, Locks, LostReason, OnLost};

const KEYS: [&str; 3] = ["a", "b", "c"];

/// The lease of a child's hold.
const LEASE: Duration = Duration::from_secs(2);

async fn is_free(locks: &Locks, key: &str) -> bool {
    locks.inspect(key).await.unwrap().is_none()
}

/// The lock is deleted, and the holds are verified, since the connection is lost.
async fn lose(rig: &Rig, key: &str) {
    rig.server.ask(&format!("DEL {key}")).await;
    rig.cut().await;
}

#[tokio::test]
async fn the_loss_of_one_ends_the_body_and_frees_the_others() {
    let rig = Rig::start().await;
    for lost in KEYS {
        let body = async {
            lose(&rig, lost).await;
            pending::<()>().await;
        };
        let aborted = rig.locks.lock_all(KEYS).run(body);
        let error = within(DEADLINE, "the loss is noticed", aborted).await;
        let error = error.unwrap_err();
        let LockError::Lost { key, reason, .. } = &error else {
            panic!("not a loss, but {error:?}");
        };
        assert_eq!((&**key, *reason), (lost, LostReason::Gone));
        // The leases would last for longer.
        let left = async || rig.server.leftovers().await.is_empty();
        eventually(DEADLINE, "the others are free", left).await;
    }
}

#[tokio::test]
async fn the_loss_of_one_is_seen_at_each_of_them() {
    let rig = Rig::start().await;
    let request = rig.locks.lock_all(KEYS).on_lost(OnLost::KeepRunning);
    let body = async {
        lose(&rig, "b").await;
        let held = |key| rig.locks.held(key).unwrap();
        let mut reasons = Vec::new();
        for key in KEYS {
            reasons.push(held(key).lost().await);
        }
        let another = LostReason::WithAnother;
        assert_eq!(reasons, [another, LostReason::Gone, another]);
        assert!(held("a").remaining().is_zero());
        // A re-entry fails as the whole does.
        let nested = rig.locks.with_lock("c", async {}).await.unwrap_err();
        assert!(
            matches!(&nested, LockError::Lost { key, .. } if key == "b"),
            "{nested}"
        );
        "kept running"
    };
    let kept = within(DEADLINE, "the loss is noticed", request.run(body)).await;
    assert_eq!(kept.unwrap(), "kept running");
    let left = async || rig.server.leftovers().await.is_empty();
    eventually(DEADLINE, "all are free", left).await;
}

#[tokio::test]
async fn a_release_finds_the_one_that_was_lost_and_frees_the_others() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    let lost = locks
        .lock_all(KEYS)
        .run(async { server.ask("DEL b").await });
    let error = lost.await.unwrap_err();
    assert!(
        matches!(&error, LockError::Lost { key, .. } if key == "b"),
        "{error}"
    );
    assert_eq!(server.ask("DBSIZE").await, "0");
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
    assert!(
        matches!(&error, LockError::Lost { key, .. } if key == "c"),
        "{error}"
    );
    elsewhere.release().await.unwrap();
    let left = async || rig.server.leftovers().await.is_empty();
    eventually(DEADLINE, "nothing is left", left).await;
}

/// A caller waits for the last lock while the server is replaced by an empty one, where another one takes the first lock.
#[tokio::test]
async fn a_body_does_not_begin_with_a_lock_that_went_with_the_server() {
    let server = RedisServer::start().await;
    let (locks, other) = (connect(&server).await, connect(&server).await);
    for _ in 0..5 {
        // `a` comes last, and `b` before it.
        let last = other.lock("a").await.unwrap();
        let waiting = tokio::spawn(locks.lock_all(["a", "b"]).run(async {}));
        let waits = async || server.ask("EXISTS reentry:queue:{a}:a").await == "1";
        eventually(DEADLINE, "it waits", waits).await;
        server.restart_empty().await;
        let first = within(DEADLINE, "it is free", other.lock("b").acquire())
            .await
            .unwrap();
        let ended = within(DEADLINE, "the loss is noticed", waiting).await;
        let error = ended.unwrap().unwrap_err();
        assert!(error.is_lost(), "{error}");
        first.release().await.unwrap();
        drop(last.release().await);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_held_while_waiting_is_renewed() {
    let locks = Locks::in_memory();
    let elsewhere = locks.lock("a").await.unwrap();
    let request = locks.lock_all(KEYS).ttl(Duration::from_secs(1));
    let waiting = request.run(async { KEYS.map(|key| reentry::held(key).unwrap().is_lost()) });
    let waiting = tokio::spawn(waiting);
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!is_free(&locks, "c").await && !is_free(&locks, "b").await);
    }
    elsewhere.release().await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), [false; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_longer_ttl_of_a_re_entry_is_that_of_all() {
    let locks = Locks::builder()
        .url("memory:")
        .ttl(Duration::from_secs(3))
        .build()
        .await
        .unwrap();
    let body = async {
        let nested = locks.lock("a").ttl(Duration::from_secs(60)).run(async {});
        nested.await.unwrap();
        // With the next renewal.
        tokio::time::sleep(Duration::from_secs(3)).await;
        let remaining = KEYS.map(|key| reentry::held(key).unwrap().remaining());
        assert!(
            remaining.iter().all(|left| *left > Duration::from_secs(30)),
            "{remaining:?}"
        );
        let info = locks.inspect("b").await.unwrap().unwrap();
        assert!(info.remaining.unwrap() > Duration::from_secs(30));
    };
    locks.lock_all(KEYS).run(body).await.unwrap();
}

/// A reader has a lease of its own, which a renewal of the others does not lengthen.
#[tokio::test(start_paused = true)]
async fn one_that_was_downgraded_is_renewed_as_a_reader() {
    let locks = Locks::in_memory();
    let elsewhere = locks.clone();
    let body = async {
        reentry::held("b").unwrap().downgrade().await.unwrap();
        let reader = elsewhere.with_read_lock("b", pending::<()>());
        let reader = tokio::spawn(reader);
        tokio::time::sleep(Duration::from_secs(30)).await;
        reader.abort();
        let info = locks.inspect("b").await.unwrap().unwrap();
        assert_eq!(info.holders.len(), 2, "{info:?}");
        KEYS.map(|key| reentry::held(key).unwrap().is_lost())
    };
    let request = locks.lock_all(KEYS).ttl(Duration::from_secs(3));
    assert_eq!(request.run(body).await.unwrap(), [false; 3]);
    for key in KEYS {
        let free = async || is_free(&locks, key).await;
        eventually(DEADLINE, "it is free", free).await;
    }
}

#[tokio::test(start_paused = true)]
async fn max_hold_is_the_end_of_all_of_them() {
    let locks = Locks::in_memory();
    let request = locks.lock_all(KEYS).max_hold(Duration::from_secs(60));
    let error = request.run(pending::<()>()).await.unwrap_err();
    assert!(
        matches!(
            error,
            LockError::Lost {
                reason: LostReason::MaxHold,
                ..
            }
        ),
        "{error}"
    );
    for key in KEYS {
        let free = async || is_free(&locks, key).await;
        eventually(DEADLINE, "it is free", free).await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_was_left_alone_goes_on_being_renewed() {
    let locks = Locks::builder()
        .url("memory:")
        .ttl(Duration::from_secs(3))
        .build()
        .await
        .unwrap();
    let kept = locks.lock_all(KEYS).run(async { locks.lock("b").await });
    let kept = kept.await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(!kept.held().is_lost());
    assert!(!is_free(&locks, "b").await);
    kept.release().await.unwrap();
    assert!(is_free(&locks, "b").await);
}

#[tokio::test]
async fn role_that_holds_several() {
    let Some(role) = child::role("role_that_holds_several") else {
        return;
    };
    let builder = patient_at(role.var("REDIS_URL")).ttl(LEASE);
    let locks = builder.build().await.unwrap();
    let body = async {
        role.say("holding");
        pending::<()>().await;
    };
    let _ = locks.lock_all(KEYS).run(body).await;
}

#[tokio::test]
async fn a_killed_holder_of_several_keeps_others_out_for_no_longer_than_one_lease() {
    let server = RedisServer::start().await;
    let url = [("REDIS_URL", &*server.url())];
    let mut holder = Child::spawn(module_path!(), "role_that_holds_several", &url);
    holder.wait_for_line("holding").await;
    let locks = connect(&server).await;
    holder.sigkill();
    for key in KEYS {
        let info = locks
            .inspect(key)
            .await
            .unwrap()
            .expect("its lease goes on");
        assert!(info.remaining.unwrap() <= LEASE);
    }
    let next = locks.lock_all(KEYS).run(async {});
    within(DEADLINE, "the next one enters", next).await.unwrap();
}

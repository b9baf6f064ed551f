//! What several locks cost the server: two EVALSHA where all are free, however many, and one renewal.

use crate::support::stats::Calls;
use crate::support::turns::{processes, unhurried};
use crate::support::{DEADLINE, RedisServer, Rig, connect, eventually};
use reentry::{LockError, Locks};

const KEYS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

fn calls<const N: usize>(calls: [(&str, u64); N]) -> Calls {
    calls.map(|(name, calls)| (name.to_owned(), calls)).into()
}

/// How many scripts were called, by whatever command.
async fn scripts(server: &RedisServer, before: &Calls) -> u64 {
    let calls = server.calls_since(before).await;
    ["evalsha", "eval"]
        .into_iter()
        .filter_map(|name| calls.get(name))
        .sum()
}

/// The server has every script after this.
async fn warmed_up(locks: &Locks) {
    let nested = async { locks.with_lock("a", async {}).await };
    locks.lock_all(KEYS).run(nested).await.unwrap().unwrap();
}

#[tokio::test]
async fn eight_free_locks_are_two_evalsha_and_nothing_else() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    warmed_up(&locks).await;
    let before = server.commandstats().await;
    locks.lock_all(KEYS).run(async {}).await.unwrap();
    let expected = calls([
        ("evalsha", 2),
        // acquire_all
        ("time", 1),
        ("hset", 8),
        ("pexpire", 8),
        // release_all
        ("hexists", 8),
        ("del", 8),
        // both
        ("exists", 9),
    ]);
    assert_eq!(server.calls_since(&before).await, expected);

    let before = server.commandstats().await;
    let guard = locks.lock_all(KEYS).no_wait().await.unwrap();
    guard.release().await.unwrap();
    locks.lock_all(KEYS).await.unwrap().release().await.unwrap();
    assert_eq!(scripts(&server, &before).await, 4);
}

#[tokio::test]
async fn more_keys_than_one_script_takes_are_taken_in_runs() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    warmed_up(&locks).await;
    let keys: Vec<_> = (0..70).map(|number| format!("key:{number}")).collect();
    let before = server.commandstats().await;
    locks.lock_all(&keys).run(async {}).await.unwrap();
    // 32, 32 and 6, both ways.
    assert_eq!(scripts(&server, &before).await, 6);
    assert_eq!(server.ask("DBSIZE").await, "0");
}

#[tokio::test]
async fn locks_that_are_all_held_are_re_entered_and_not_acquired() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    warmed_up(&locks).await;
    let inside = async {
        let before = server.commandstats().await;
        let nested = locks.lock_all(["b", "a"]).run(async {
            let depths = ["a", "b"].map(|key| locks.held(key).unwrap().depth());
            assert_eq!(depths, [2, 2]);
        });
        nested.await.unwrap();
        server.calls_since(&before).await
    };
    let calls = locks.lock_all(["a", "b"]).run(inside).await.unwrap();
    // Two changes of each depth.
    assert_eq!(calls.get("evalsha"), Some(&4));
    assert_eq!((calls.get("exists"), calls.get("del")), (None, None));
}

#[tokio::test]
async fn an_upgrade_among_several_keys_is_refused_and_sends_nothing() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    warmed_up(&locks).await;
    let inside = async {
        let before = server.commandstats().await;
        let upgrade = locks.lock_all(["a", "b", "c"]).run(async {}).await;
        assert!(matches!(upgrade, Err(LockError::Upgrade { key, .. }) if key == "b"));
        scripts(&server, &before).await
    };
    let reading = locks.lock("b").shared().run(inside);
    let scripts = locks.with_lock("a", reading).await.unwrap();
    assert_eq!(scripts.unwrap(), 0);
}

#[tokio::test]
async fn only_what_no_enclosing_call_holds_is_acquired() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    warmed_up(&locks).await;
    let inside = async {
        let before = server.commandstats().await;
        locks.lock_all(["c", "b", "a"]).run(async {}).await.unwrap();
        scripts(&server, &before).await
    };
    // The depth of one up and down, two locks taken and released.
    let scripts = locks.with_lock("b", inside).await.unwrap();
    assert_eq!(scripts, 4);
}

#[tokio::test]
async fn a_contended_key_costs_one_release_more() {
    let server = RedisServer::start().await;
    let [locks, other] = processes(&unhurried(&server)).await;
    warmed_up(&locks).await;
    other.with_lock("a", async {}).await.unwrap();
    let guard = locks.lock_all(["a", "b", "c"]).await.unwrap();
    let before = server.commandstats().await;
    let waiting = tokio::spawn(other.with_lock("b", async {}));
    // Once as it comes, and once when its inbox is open.
    let has_asked = async || scripts(&server, &before).await == 2;
    eventually(DEADLINE, "it waits", has_asked).await;
    let before = server.commandstats().await;
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap();
    // release_all, the release of `b`, and that of the waiter.
    assert_eq!(scripts(&server, &before).await, 3);
}

/// They are due at once when the connection was lost.
#[tokio::test]
async fn several_locks_are_renewed_by_one_script() {
    let rig = Rig::start().await;
    let guard = rig.locks.lock_all(KEYS).await.unwrap();
    let before = rig.server.commandstats().await;
    rig.cut().await;
    let called = async |name: &str| {
        let calls = rig.server.calls_since(&before).await;
        calls.get(name).copied().unwrap_or_default()
    };
    let renewed = async || called("pexpire").await >= 8;
    eventually(DEADLINE, "they are renewed", renewed).await;
    // It may have been sent more than once, while the connection was made.
    assert_eq!(8 * called("evalsha").await, called("hexists").await);
    guard.release().await.unwrap();
}

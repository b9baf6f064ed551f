//! The cost of several locks for the server: two EVALSHA if all are free, however many, and one renewal.

use crate::support::stats::Calls;
use crate::support::{DEADLINE, RedisServer, connect, eventually, patient, until_depths};
use reentry::{LockError, Locks};
use std::time::{Duration, Instant};

const KEYS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// The number of script calls, by whatever command.
async fn scripts(server: &RedisServer, before: &Calls) -> u64 {
    let calls = server.calls_since(before).await;
    let named = ["evalsha", "eval"].map(|name| calls.get(name).copied());
    named.into_iter().flatten().sum()
}

/// The number of script calls that the body causes.
async fn cost(server: &RedisServer, body: impl Future<Output = Result<(), LockError>>) -> u64 {
    let before = server.commandstats().await;
    body.await.unwrap();
    scripts(server, &before).await
}

/// After this, every script is loaded.
async fn warmed_up(locks: &Locks) {
    let nested = async {
        let inner = locks.with_lock("a", until_depths(locks, "a", &[2]));
        inner.await.unwrap();
        until_depths(locks, "a", &[1]).await;
    };
    locks.lock_all(KEYS).run(nested).await.unwrap();
    let guard = locks.lock("a").await.unwrap();
    guard.release().await.unwrap();
}

/// Waits for this depth without a script.
async fn until_depth(server: &RedisServer, key: &str, depth: &str) {
    let is = async || {
        let values = server.ask(&format!("HVALS {key}")).await;
        values.lines().any(|value| value == depth)
    };
    eventually(DEADLINE, "the depth", is).await;
}

#[tokio::test]
async fn eight_free_locks_are_two_evalsha_and_nothing_else() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    warmed_up(&locks).await;
    let before = server.commandstats().await;
    locks.lock_all(KEYS).run(async {}).await.unwrap();
    let expected = [
        ("evalsha", 2),
        // for each of the batches: whether a process waits; and for the acquires: whether all locks are free
        ("exists", 3),
        // the batch of the acquires
        ("time", 1),
        ("hset", 8),
        ("pexpire", 8),
        // the batch of the releases
        ("hexists", 8),
        ("del", 1),
    ];
    let expected: Calls = expected
        .map(|(name, calls)| (name.to_owned(), calls))
        .into();
    assert_eq!(server.calls_since(&before).await, expected);
}

#[tokio::test]
async fn several_locks_cost_no_more_scripts_than_they_need() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    warmed_up(&locks).await;
    let guards = cost(&server, async {
        locks.lock_all(KEYS).no_wait().await?.release().await?;
        locks.lock_all(KEYS).await?.release().await
    });
    assert_eq!(guards.await, 4);
    let many: Vec<_> = (0..70).map(|number| format!("key:{number}")).collect();
    // Up to 32 are acquired by one, and released by one.
    for (count, expected) in [(2, 2), (3, 2), (31, 2), (32, 2), (33, 4), (70, 6)] {
        let several = locks.lock_all(&many[..count]).run(async {});
        assert_eq!(cost(&server, several).await, expected, "{count}");
    }
    // Each reader enters separately, and they leave together.
    let readers = || locks.lock_all(["a", "b", "c"]).read().run(async {});
    readers().await.unwrap();
    assert_eq!(cost(&server, readers()).await, 3 + 1);
    // These are one depth up and down, and two locks acquired and released.
    let some = async {
        let some = locks.lock_all(["c", "b", "a"]);
        some.run(until_depth(&server, "b", "2")).await?;
        until_depth(&server, "b", "1").await;
        Ok(())
    };
    let some = locks.with_lock("b", cost(&server, some)).await;
    assert_eq!(some.unwrap(), 4);
    // These are two changes of each depth, and none is acquired.
    let inside = async {
        let depths = ["a", "b"].map(|key| reentry::held(key).unwrap().depth());
        assert_eq!(depths, [2, 2]);
        until_depth(&server, "a", "2").await;
        until_depth(&server, "b", "2").await;
    };
    let all = async {
        locks.lock_all(["b", "a"]).run(inside).await?;
        until_depth(&server, "a", "1").await;
        until_depth(&server, "b", "1").await;
        Ok(())
    };
    let before = async { (server.commandstats().await, cost(&server, all).await) };
    let (before, all) = locks.lock_all(["a", "b"]).run(before).await.unwrap();
    let calls = server.calls_since(&before).await;
    assert_eq!((all, calls.get("exists")), (4, None), "{calls:?}");
    assert_eq!(server.key_count().await, 0);
}

#[tokio::test]
async fn an_upgrade_among_several_keys_is_refused_and_sends_nothing() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    warmed_up(&locks).await;
    let upgrade = async {
        let upgrade = locks.lock_all(["a", "b", "c"]).run(async {}).await;
        assert!(
            matches!(upgrade, Err(LockError::Misuse { key, .. }) if key.as_deref() == Some("b"))
        );
        Ok(())
    };
    let reading = locks.lock("b").read().run(cost(&server, upgrade));
    let scripts = locks.with_lock("a", reading).await.unwrap();
    assert_eq!(scripts.unwrap(), 0);
}

/// The time without a response counts for each key, not from the beginning of the acquisition.
#[tokio::test]
async fn an_outage_is_not_counted_while_another_key_is_waited_for() {
    let server = RedisServer::start().await;
    let other = connect(&server).await;
    let outage = Duration::from_secs(2);
    let builder = patient(&server).__heartbeat(Duration::from_millis(100));
    let locks = builder.outage(outage).build().await.unwrap();
    let guard = other.lock("a").await.unwrap();
    let waiting = tokio::spawn(locks.lock_all(["a", "b"]).wait(DEADLINE).acquire());
    let begun = Instant::now();
    let longer = async || begun.elapsed() > 2 * outage;
    eventually(DEADLINE, "it waits for longer", longer).await;
    guard.release().await.unwrap();
    drop(waiting.await.unwrap().unwrap());
}

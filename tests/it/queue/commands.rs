//! What a lock costs the server, counted by the server: two EVALSHA for a lock, two for a re-entry,
//! and as many requests as there are turns, however many wait.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::support::stats::Calls;
use crate::support::{
    DEADLINE, RedisServer, Section, connect, eventually, patient, waiters, within,
};
use reentry::{LockError, Locks, Wake};
use tokio::task::JoinSet;

/// What the scripts of one uncontended lock call, and what calls them.
fn one_lock() -> Calls {
    let calls = [
        ("evalsha", 2),
        // acquire
        ("time", 1),
        ("hset", 1),
        ("pexpire", 1),
        // release
        ("hexists", 1),
        ("del", 1),
        // both
        ("exists", 2),
    ];
    calls.map(|(name, calls)| (name.to_owned(), calls)).into()
}

/// The commands that clients send; all others are called by the scripts.
fn top_level(calls: &Calls) -> Calls {
    let inside = [
        "del",
        "exists",
        "hexists",
        "hget",
        "hlen",
        "hmget",
        "hset",
        "hdel",
        "pexpire",
        "pexpireat",
        "pttl",
        "time",
        "zadd",
        "zmscore",
        "zrange",
        "zrem",
        "zremrangebyscore",
        "zscore",
    ];
    let sent = |(name, _): &(&String, &u64)| !inside.contains(&name.as_str());
    let owned = |(name, calls): (&String, &u64)| (name.clone(), *calls);
    calls.iter().filter(sent).map(owned).collect()
}

fn evalsha(calls: u64) -> Calls {
    BTreeMap::from([("evalsha".to_owned(), calls)])
}

/// The server has every script after this.
async fn warmed_up(locks: &Locks) {
    let nested = async { locks.with_lock("key", async {}).await };
    locks.with_lock("key", nested).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_uncontended_lock_is_two_evalsha_and_nothing_else() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    warmed_up(&locks).await;
    let before = server.commandstats().await;
    locks.with_lock("key", async {}).await.unwrap();
    assert_eq!(server.calls_since(&before).await, one_lock());

    let before = server.commandstats().await;
    for n in 0..100 {
        locks.with_lock(format!("key:{n}"), async {}).await.unwrap();
        locks.lock("key").await.unwrap().release().await.unwrap();
        locks.lock("key").no_wait().run(async {}).await.unwrap();
    }
    let calls = server.calls_since(&before).await;
    assert_eq!(top_level(&calls), evalsha(600));
}

/// Whatever keeps time in the client believes that an hour has passed.
#[tokio::test]
async fn an_idle_connection_is_not_checked_before_its_next_use() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    warmed_up(&locks).await;
    let before = server.commandstats().await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(3_600)).await;
    tokio::time::resume();
    locks.with_lock("key", async {}).await.unwrap();
    assert_eq!(server.calls_since(&before).await, one_lock());
}

/// Also where others use the pool, and where none of its connections is left.
#[tokio::test]
async fn a_lock_over_a_given_pool_is_two_evalsha_too() {
    let server = RedisServer::start().await;
    let config = deadpool_redis::Config::from_url(server.url());
    let pool = config.builder().unwrap().max_size(1);
    let runtime = deadpool_redis::Runtime::Tokio1;
    let pool = pool.runtime(runtime).build().unwrap();
    let builder = Locks::builder().pool(pool.clone());
    let locks = builder.response_timeout(DEADLINE).build().await.unwrap();
    warmed_up(&locks).await;
    let _the_only_one = within(DEADLINE, "a connection", pool.get()).await.unwrap();
    let before = server.commandstats().await;
    locks.with_lock("key", async {}).await.unwrap();
    assert_eq!(server.calls_since(&before).await, one_lock());
}

#[tokio::test]
async fn a_nested_entry_and_exit_are_two_more() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    warmed_up(&locks).await;
    let body = async {
        let before = server.commandstats().await;
        for _ in 0..10 {
            locks.with_lock("key", async {}).await.unwrap();
        }
        let calls = server.calls_since(&before).await;
        assert_eq!(top_level(&calls), evalsha(20));
        // The depth, and the number of its change.
        assert_eq!(calls["hset"], 40);
    };
    locks.with_lock("key", body).await.unwrap();
}

/// A script that the server has forgotten is sent in full, once.
#[tokio::test]
async fn a_forgotten_script_costs_one_more_command() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    warmed_up(&locks).await;
    server.ask("SCRIPT FLUSH").await;
    let before = server.commandstats().await;
    locks.with_lock("key", async {}).await.unwrap();
    let calls = server.calls_since(&before).await;
    let sent = [("eval".to_owned(), 2), ("evalsha".to_owned(), 2)];
    assert_eq!(top_level(&calls), sent.into());
}

async fn polling(server: &RedisServer, attempts: Option<u32>, interval: Duration) -> Locks {
    let wake = Wake::Poll { interval, attempts };
    let locks = patient(server).wake(wake).build();
    let locks = locks.await.unwrap();
    warmed_up(&locks).await;
    locks
}

/// The first waiter asks once, and once more at each turn; those behind it do not ask at all.
#[tokio::test]
async fn only_the_first_waiter_talks_to_the_store() {
    let server = RedisServer::start().await;
    // No request is sent only because time passes.
    let locks = polling(&server, None, Duration::from_secs(3_600)).await;
    let guard = locks.lock("key").await.unwrap();
    let (section, mut tasks) = (Arc::new(Section::default()), JoinSet::new());
    for _ in 0..100 {
        let (locks, section) = (locks.clone(), Arc::clone(&section));
        tasks.spawn(async move { locks.with_lock("key", section.visit()).await.unwrap() });
    }
    let all_wait = async || waiters(&locks, "key").await == Some(100);
    eventually(DEADLINE, "a hundred waiters", all_wait).await;
    let before = server.commandstats().await;
    guard.release().await.unwrap();
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(section.visits(), 100);
    let calls = server.calls_since(&before).await;
    // A release for the guard, and an acquire and a release for each turn.
    assert_eq!(top_level(&calls), evalsha(201));
}

/// While the lock is held, a hundred waiters ask as often as one does.
#[tokio::test]
async fn waiters_behind_the_first_ask_nothing() {
    let server = RedisServer::start().await;
    let locks = polling(&server, None, Duration::from_secs(3_600)).await;
    for count in [1, 100] {
        let guard = locks.lock("key").await.unwrap();
        let before = server.commandstats().await;
        let mut tasks = JoinSet::new();
        for _ in 0..count {
            tasks.spawn(locks.with_lock("key", async {}));
        }
        let asked = async || {
            let calls = server.calls_since(&before).await;
            calls.get("hexists").copied().unwrap_or(0)
        };
        eventually(DEADLINE, "the request", async || asked().await > 0).await;
        // Every task has had its turn by now, and so has what it may have sent.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        let waiting = waiters(&locks, "key").await;
        assert_eq!(waiting, Some(count));
        assert_eq!(asked().await, 1);
        tasks.shutdown().await;
        guard.release().await.unwrap();
        let is_free = async || locks.lock("key").try_acquire().await.unwrap().is_some();
        eventually(DEADLINE, "a free lock", is_free).await;
        let is_free = async || locks.inspect("key").await.unwrap().is_none();
        eventually(DEADLINE, "a free lock", is_free).await;
    }
}

/// As in the classic implementations: so many requests, so far apart.
#[tokio::test]
async fn a_poll_gives_up_after_exactly_so_many_questions() {
    let server = RedisServer::start().await;
    for attempts in [1, 2, 5] {
        let interval = Duration::from_millis(5);
        let locks = polling(&server, Some(attempts), interval).await;
        let guard = locks.lock("key").await.unwrap();
        let before = server.commandstats().await;
        let start = tokio::time::Instant::now();
        let error = locks.lock("key").wait_forever().await.unwrap_err();
        assert!(matches!(error, LockError::Timeout { .. }), "{error:?}");
        assert!(error.is_contended());
        assert!(start.elapsed() >= interval * (attempts - 1));
        let calls = server.calls_since(&before).await;
        // The requests, and one more to leave the queue.
        assert_eq!(top_level(&calls), evalsha(u64::from(attempts) + 1));
        // The next waiter has as many of its own.
        let before = server.commandstats().await;
        let request = || locks.lock("key").wait_forever().acquire();
        let (one, other) = tokio::join!(request(), request());
        assert!(one.unwrap_err().is_contended() && other.unwrap_err().is_contended());
        let calls = server.calls_since(&before).await;
        assert_eq!(top_level(&calls), evalsha(2 * u64::from(attempts) + 2));
        guard.release().await.unwrap();
    }
}

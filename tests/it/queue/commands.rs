//! The cost of a lock for the server, as counted by the server. It is two EVALSHA for a lock, at most two for a re-entry,
//! and one request for each turn, however many callers wait.

use crate::support::stats::Calls;
use crate::support::{DEADLINE, RedisServer, connect, until_depths, within};
use reentry::Locks;

/// The commands that the scripts of one uncontended lock call, and the calls of the scripts.
fn one_lock() -> Calls {
    let calls = [
        ("evalsha", 2),
        // acquire
        ("time", 1),
        ("hset", 1),
        ("pexpire", 1),
        ("exists", 1),
        // release
        ("hexists", 1),
        ("zcount", 1),
        ("del", 1),
    ];
    calls.map(|(name, calls)| (name.to_owned(), calls)).into()
}

/// The commands that clients send. The scripts call all others.
fn top_level(calls: &Calls) -> Calls {
    const INSIDE: &str = "del exists hexists hget hlen hmget hincrby hset hdel pexpire pexpireat pttl time \
                          zadd zcount zrange zrem zremrangebyscore zscore";
    let sent = |(name, _): &(&String, &u64)| INSIDE.split(' ').all(|inside| inside != *name);
    let owned = |(name, calls): (&String, &u64)| (name.clone(), *calls);
    calls.iter().filter(sent).map(owned).collect()
}

/// After this, every script is loaded.
async fn warmed_up(locks: &Locks) {
    let nested = async {
        let inner = locks.with_lock("key", until_depths(locks, "key", &[2]));
        inner.await.unwrap();
        until_depths(locks, "key", &[1]).await;
    };
    locks.with_lock("key", nested).await.unwrap();
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
    assert_eq!(top_level(&calls), [("evalsha".to_owned(), 600)].into());
}

/// This also covers a pool that others use, and a pool without a connection left.
#[tokio::test]
async fn a_lock_over_a_given_pool_is_two_evalsha_too() {
    let server = RedisServer::start().await;
    let config = deadpool_redis::Config::from_url(server.url());
    let pool = config.builder().unwrap().max_size(1);
    let runtime = deadpool_redis::Runtime::Tokio1;
    let pool = pool.runtime(runtime).build().unwrap();
    let builder = Locks::builder_with_pool(pool.clone());
    let locks = builder.response_timeout(DEADLINE).build().await.unwrap();
    warmed_up(&locks).await;
    let _the_only_one = within(DEADLINE, "a connection", pool.get()).await.unwrap();
    let before = server.commandstats().await;
    locks.with_lock("key", async {}).await.unwrap();
    assert_eq!(server.calls_since(&before).await, one_lock());
}

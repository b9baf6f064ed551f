//! P4: one renewal entry per outermost acquisition, whatever the depth. A re-entry never creates a second one and never
//! shortens a lease. Unit tests of `hold` check when a renewal is due, and when the last one was.

use std::time::Duration;

use crate::support::{DEADLINE, RedisServer, connect, eventually, on_both_stores};
use futures_util::future::try_join_all;
use reentry::{Locks, held};
use tokio::time::sleep;

const TTL: Duration = Duration::from_secs(30);

on_both_stores!(a_reentry_lengthens_the_lease_and_never_shortens_it);

/// The remaining lease in the store.
async fn remaining(locks: &Locks) -> Duration {
    let info = locks.admin().inspect("key").await.unwrap();
    info.expect("a held lock").remaining.expect("a lease")
}

async fn a_reentry_lengthens_the_lease_and_never_shortens_it(locks: Locks) {
    let lasts = async |ttl: Duration| {
        let is_lengthened = async || held("key").unwrap().remaining() > ttl * 2 / 3;
        eventually(DEADLINE, "the lease is lengthened", is_lengthened).await;
        let left = remaining(&locks).await;
        assert!(left > ttl * 2 / 3 && left <= ttl, "{left:?} of {ttl:?}");
    };
    let body = async {
        lasts(TTL).await;
        let shorter = locks.lock("key").ttl(TTL / 30);
        shorter.run(lasts(TTL)).await.unwrap();
        let longer = locks.lock("key").ttl(4 * TTL);
        longer.run(lasts(4 * TTL)).await.unwrap();
        lasts(4 * TTL).await;
    };
    locks.lock("key").ttl(TTL).run(body).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_default_ttl_of_a_reentry_lengthens_nothing() {
    let locks = Locks::in_memory();
    let short = TTL / 3;
    let body = async {
        let inside = || async { assert_eq!(remaining(&locks).await, short) };
        locks.with_lock("key", inside()).await.unwrap();
        locks.lock_all(["key"]).run(inside()).await.unwrap();
    };
    locks.lock("key").ttl(short).run(body).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn renewals_keep_to_the_longest_ttl() {
    let locks = Locks::in_memory();
    let body = async {
        for (nested, least) in [(TTL / 100, TTL / 2), (4 * TTL, 2 * TTL)] {
            locks.lock("key").ttl(nested).run(sleep(TTL)).await.unwrap();
            sleep(8 * TTL).await;
            assert!(remaining(&locks).await > least);
        }
    };
    locks.lock("key").ttl(TTL).run(body).await.unwrap();
}

/// There are more than are renewed at a time. All of them are due together when the connection is lost, and long before
/// an ordinary renewal.
#[tokio::test]
async fn a_lost_connection_costs_none_of_many_holds() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    let guards = (0..3_000).map(|number| locks.lock(number.to_string()).ttl(20 * TTL).acquire());
    let guards = try_join_all(guards).await.unwrap();
    let before = server.commandstats().await;
    assert!(server.kill_command_connections().await > 0);
    // A script checks once for each hold that it renews.
    let calls = async || server.calls_since(&before).await;
    let verified = async || calls().await.get("hexists") >= Some(&3_000);
    eventually(DEADLINE, "each of them is verified", verified).await;
    let scripts = calls().await.get("evalsha").copied().unwrap_or_default();
    assert!(scripts <= 3_000 / 16, "{scripts} scripts");
    assert!(guards.iter().all(|guard| !guard.held().is_lost()));
}

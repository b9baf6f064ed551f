//! P4: one renewal entry per outermost acquisition, whatever the depth. It is renewed every third of the
//! TTL and ends with the hold; a re-entry never starts a second one and never shortens a lease.

use std::pin::Pin;
use std::time::Duration;

use crate::support::{DEADLINE, RedisServer, connect, eventually, patient};
use futures_util::future::try_join_all;
use reentry::{Locks, held};
use tokio::sync::Barrier;
use tokio::time::{Instant, sleep, sleep_until};

const TTL: Duration = Duration::from_secs(30);
const MOMENT: Duration = Duration::from_millis(50);

/// What is left of the lease in the store.
async fn remaining(locks: &Locks) -> Duration {
    let info = locks.inspect("key").await.unwrap();
    info.expect("a held lock").remaining.expect("a lease")
}

#[tokio::test(start_paused = true)]
async fn it_renews_every_third_of_the_ttl() {
    let locks = Locks::in_memory();
    let start = Instant::now();
    let guard = locks.lock("key").ttl(TTL).await.unwrap();
    assert_eq!(remaining(&locks).await, TTL);
    for n in 1..=10 {
        // Each may be late by a tick of the timer, and the next one counts from there.
        sleep_until(start + n * (TTL / 3) - MOMENT).await;
        assert!(remaining(&locks).await <= TTL - TTL / 3 + 2 * MOMENT);
        sleep_until(start + n * (TTL / 3) + MOMENT).await;
        assert!(remaining(&locks).await >= TTL - 2 * MOMENT);
    }
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reentry_with_a_longer_ttl_lengthens_the_lease_for_good() {
    let locks = Locks::in_memory();
    let body = async {
        assert_eq!(remaining(&locks).await, TTL);
        let longer = locks.lock("key").ttl(4 * TTL);
        let inside = longer.run(async {
            assert_eq!(remaining(&locks).await, 4 * TTL);
            assert!(held("key").unwrap().remaining() > 3 * TTL);
        });
        inside.await.unwrap();
        assert_eq!(remaining(&locks).await, 4 * TTL);
        // The renewals keep to the longer one.
        sleep(8 * TTL).await;
        assert!(remaining(&locks).await > 2 * TTL);
    };
    locks.lock("key").ttl(TTL).run(body).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reentry_with_a_shorter_ttl_does_not_shorten_the_lease() {
    let locks = Locks::in_memory();
    let body = async {
        let shorter = locks.lock("key").ttl(TTL / 100);
        let inside = shorter.run(async {
            assert_eq!(remaining(&locks).await, TTL);
            assert!(held("key").unwrap().remaining() > TTL / 2);
            sleep(TTL).await;
            assert!(remaining(&locks).await > TTL / 2);
        });
        inside.await.unwrap();
        sleep(2 * TTL).await;
        assert!(remaining(&locks).await > TTL / 2);
    };
    locks.lock("key").ttl(TTL).run(body).await.unwrap();
}

/// A lease on a server is given in the units that it keeps.
#[tokio::test]
async fn a_reentry_lengthens_the_lease_in_redis_and_never_shortens_it() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    let pttl = async || server.ask("PTTL key").await.parse::<u64>().unwrap();
    let body = async {
        assert!((20_000..=30_000).contains(&pttl().await));
        let shorter = locks.lock("key").ttl(TTL / 30);
        let inside = async { assert!((20_000..=30_000).contains(&pttl().await)) };
        shorter.run(inside).await.unwrap();
        let longer = locks.lock("key").ttl(4 * TTL);
        let inside = async { assert!((80_000..=120_000).contains(&pttl().await)) };
        longer.run(inside).await.unwrap();
        assert!((80_000..=120_000).contains(&pttl().await));
    };
    locks.lock("key").ttl(TTL).run(body).await.unwrap();
}

type Nest<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Enters so many times, and then runs `bottom`.
fn nest<'a>(locks: &'a Locks, levels: u32, bottom: Nest<'a>) -> Nest<'a> {
    Box::pin(async move {
        match levels {
            0 => bottom.await,
            _ => {
                let deeper = nest(locks, levels - 1, bottom);
                locks.with_lock("key", deeper).await.unwrap();
            }
        }
    })
}

/// While the lock is held 100 times over, the server sees only renewals. With a watchdog per entry there would be a
/// hundred at a time; with one, no renewal comes before the lease has lost a third.
#[tokio::test]
async fn a_hundred_reentries_have_one_watchdog() {
    let server = RedisServer::start().await;
    let builder = patient(&server);
    let locks = builder.ttl(Duration::from_secs(3)).build().await.unwrap();
    let observe = async {
        assert_eq!(held("key").unwrap().depth(), 100);
        let start = std::time::Instant::now();
        let before = server.commandstats().await;
        let renewals = async || {
            let calls = server.calls_since(&before).await;
            let renewals = calls.get("evalsha").copied().unwrap_or(0);
            assert!(!calls.contains_key("hset"), "a depth was written");
            renewals
        };
        eventually(DEADLINE, "two renewals", async || renewals().await >= 2).await;
        let seen = renewals().await;
        // The first may be due at once; from then on a third of the TTL lies between two.
        let most = 2 + start.elapsed().as_secs();
        assert!(seen <= most, "{seen} renewals, at most {most}");
    };
    nest(&locks, 100, Box::pin(observe)).await;
    assert_eq!(server.ask("EXISTS key").await, "0");
}

/// What the release leaves behind sends nothing: the next lease of another key is renewed, and
/// nothing else is seen.
#[tokio::test]
async fn renewals_end_with_the_hold() {
    let server = RedisServer::start().await;
    let builder = patient(&server);
    let locks = builder.ttl(Duration::from_secs(2)).build().await.unwrap();
    // Ended in every way there is: body, guard, dropped guard, dropped body, nested.
    locks.with_lock("a", async {}).await.unwrap();
    let guard = locks.lock("b").await.unwrap();
    guard.release().await.unwrap();
    drop(locks.lock("c").await.unwrap());
    let inside = Barrier::new(2);
    let body = async {
        inside.wait().await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        _ = locks.with_lock("d", body) => unreachable!("its body never ends"),
        _ = inside.wait() => {}
    }
    let nested = async { locks.with_lock("e", async {}).await };
    locks.with_lock("e", nested).await.unwrap().unwrap();
    let gone = async || server.ask("EXISTS a b c d e").await == "0";
    eventually(DEADLINE, "all to be released", gone).await;

    let witness = locks
        .lock("witness")
        .ttl(Duration::from_secs(6))
        .await
        .unwrap();
    let before = server.commandstats().await;
    let renewed = async || server.calls_since(&before).await.contains_key("pexpire");
    // It is due after 2 s, that is three renewals of the others.
    eventually(DEADLINE, "the witness to be renewed", renewed).await;
    let calls = server.calls_since(&before).await;
    assert_eq!(calls.get("evalsha"), Some(&1), "{calls:?}");
    witness.release().await.unwrap();
}

/// More than are renewed at a time, all of which are due at once when the connection is lost.
#[tokio::test]
async fn a_lost_connection_costs_none_of_many_holds() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    let guards = (0..3_000).map(|number| locks.lock(number.to_string()).acquire());
    let guards = try_join_all(guards).await.unwrap();
    let before = server.commandstats().await;
    // The connection for commands is subscribed to forced releases.
    server.ask("CLIENT KILL TYPE pubsub").await;
    let verified = async || server.calls_since(&before).await.get("evalsha") >= Some(&3_000);
    eventually(DEADLINE, "each of them is verified", verified).await;
    assert!(guards.iter().all(|guard| !guard.held().is_lost()));
}

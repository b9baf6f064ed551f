//! A lock that counts only after replicas have it.

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use reentry::{LockError, LockRequest, Locks, LocksBuilder};

use crate::support::{DEADLINE, RedisServer, SentinelSet, eventually, patient, patient_at, within};

/// A time that is much longer than running replicas need.
const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(200);

fn builder(set: &SentinelSet) -> LocksBuilder {
    let url = format!("redis+sentinel://{}/orders", set.addresses());
    patient_at(url).wait(LONG)
}

/// Checks that enough replicas have this lock.
async fn is_had(request: LockRequest) {
    request.run(async {}).await.expect("replicas have it");
}

async fn primary(set: &SentinelSet) -> Locks {
    builder(set).build().await.expect("a primary")
}

/// Locks that count once these replicas have them.
async fn confirmed(set: &SentinelSet, replicas: u32, within: Duration) -> Locks {
    let locks = builder(set).confirm(replicas, within).build().await;
    locks.expect("a primary")
}

fn is_unconfirmed<T>(result: Result<T, LockError>) -> bool {
    let error = result.err();
    error.is_some_and(|error| {
        matches!(error, LockError::Unavailable { .. }) && error.is_unavailable()
    })
}

#[tokio::test]
async fn a_lock_that_replicas_do_not_have_is_given_back() {
    let set = SentinelSet::start().await;
    let locks = primary(&set).await;
    let all = confirmed(&set, 2, LONG).await;
    let soon_all = confirmed(&set, 2, SHORT).await;
    let one = confirmed(&set, 1, LONG).await;
    let soon_one = confirmed(&set, 1, SHORT).await;
    is_had(all.lock("order:42")).await;
    set.nodes[2].pause();
    assert!(is_unconfirmed(soon_all.lock("order:42").acquire().await));
    set.nodes[0].until_clean().await;
    is_had(one.lock("order:42")).await;
    set.nodes[1].pause();
    let refused = soon_one.lock("order:42").no_wait().acquire();
    assert!(is_unconfirmed(refused.await));
    set.nodes[0].until_clean().await;
    let both = ["order:1", "order:2"];
    assert!(is_unconfirmed(soon_all.lock_all(both).acquire().await));
    set.nodes[0].until_clean().await;
    is_had(locks.lock("order:42")).await;
    set.nodes[1].resume();
    set.nodes[2].resume();
    is_had(all.lock("order:42")).await;
    is_had(all.lock_all(both)).await;
}

#[tokio::test]
async fn a_lock_that_was_moved_here_counts_only_once_replicas_have_it() {
    let set = SentinelSet::start().await;
    let one = primary(&set).await;
    let other = confirmed(&set, 2, SHORT).await;
    let held = one.lock("order:42").await.expect("the lock");
    let waiting = tokio::spawn(async move { other.lock("order:42").acquire().await });
    let waits = async || {
        one.admin()
            .inspect("order:42")
            .await
            .is_ok_and(|it| it.is_some_and(|it| it.waiting_processes == 1))
    };
    eventually(DEADLINE, "the other one waits", waits).await;
    set.nodes[1].pause();
    held.release().await.expect("it was held");
    let moved = within(DEADLINE, "the waiter has its answer", waiting).await;
    assert!(is_unconfirmed(moved.expect("no panic")));
    set.nodes[0].until_clean().await;
}

#[tokio::test]
async fn a_renewal_that_replicas_do_not_have_is_not_believed() {
    let set = SentinelSet::start().await;
    let ttl = Duration::from_secs(3);
    let builder = builder(&set).ttl(ttl).confirm(2, Duration::from_secs(1));
    let locks = builder.build().await.expect("a primary");
    let held = locks.lock("order:42").await.expect("both have it");
    within(DEADLINE, "a renewal is confirmed", async {
        // The end of the lease shows that. Its remaining time also shrinks with each late response.
        let end = || Instant::now() + held.held().remaining();
        let before = end() + Duration::from_millis(100);
        let renewed = async || end() > before;
        eventually(DEADLINE, "it is renewed", renewed).await;
    })
    .await;
    set.nodes[1].pause();
    within(DEADLINE, "the lease ends", held.held().lost()).await;
    // The server still has it. Only this process does not consider it held.
    assert!(!set.nodes[0].leftovers().await.is_empty());
}

#[tokio::test]
async fn a_server_without_replicas_confirms_nothing() {
    let server = RedisServer::start().await;
    let locks = patient(&server).confirm(1, SHORT).build();
    let locks = locks.await.expect("a server");
    let hour = Duration::from_secs(3_600);
    // A lock that is not confirmed was not held, so it is given back whatever its `min_hold` is.
    for request in [
        locks.lock("order:42"),
        locks.lock("order:42").min_hold(hour),
        locks.lock_all(["order:1", "order:2"]).min_hold(hour),
    ] {
        assert!(is_unconfirmed(request.acquire().await));
        server.until_clean().await;
    }
    let long = Duration::from_secs(u64::MAX);
    for (replicas, within) in [(0, SHORT), (1, Duration::ZERO), (1, long)] {
        let refused = patient(&server).confirm(replicas, within).build_lazy();
        assert!(matches!(refused, Err(LockError::Misuse { .. })));
    }
}

/// The replicas are stopped while the callers arrive. The first one is no longer polled after that.
#[tokio::test]
async fn callers_share_a_wait_and_one_left_alone_delays_none() {
    let set = SentinelSet::start().await;
    let locks = confirmed(&set, 1, LONG).await;
    set.nodes[1].pause();
    set.nodes[2].pause();
    let mut left_alone = Box::pin(locks.lock("left alone").acquire());
    let awaits_replicas = async || {
        assert!((&mut left_alone).now_or_never().is_none());
        let clients = set.nodes[0].ask("INFO clients").await;
        clients.contains("blocked_clients:1")
    };
    eventually(DEADLINE, "the first one waits", awaits_replicas).await;
    let keys = || (0..100).map(|number| format!("order:{number}"));
    let calling = keys().map(|key| tokio::spawn(locks.lock(key).acquire()));
    let calling: Vec<_> = calling.collect();
    let have_asked = async || {
        let left = set.nodes[0].leftovers().await;
        keys().all(|key| left.contains(&key))
    };
    eventually(DEADLINE, "all have their locks", have_asked).await;
    set.nodes[1].resume();
    set.nodes[2].resume();
    for caller in calling {
        let acquired = within(DEADLINE, "a caller", caller).await;
        drop(acquired.expect("no panic").expect("a replica has it"));
    }
    let waits = set.nodes[0].commandstats().await["wait"];
    assert!(waits < 50, "{waits} for 100 callers");
    drop(left_alone);
}

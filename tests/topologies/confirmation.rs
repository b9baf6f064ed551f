//! A lock that counts only after replicas have it.

use std::time::{Duration, Instant};

use reentry::{LockError, LockRequest, Locks, LocksBuilder, Replicas};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

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
async fn confirmed(set: &SentinelSet, replicas: Replicas, within: Duration) -> Locks {
    let locks = builder(set).confirm(replicas, within).build().await;
    locks.expect("a primary")
}

fn is_unconfirmed<T>(result: Result<T, LockError>) -> bool {
    let error = result.err();
    error.is_some_and(|error| {
        matches!(error, LockError::Unconfirmed { .. }) && error.is_unavailable()
    })
}

/// Waits until the primary reports this about its replicas.
async fn until_replication(set: &SentinelSet, said: &str) {
    let says = async || set.nodes[0].ask("INFO replication").await.contains(said);
    eventually(DEADLINE, said, says).await;
}

/// Waits until no data of the locks remains.
async fn until_free(server: &RedisServer) {
    let is_free = async || server.leftovers().await.is_empty();
    eventually(DEADLINE, "the locks are free", is_free).await;
}

#[tokio::test]
async fn a_lock_that_replicas_do_not_have_is_given_back() {
    let set = SentinelSet::start().await;
    let locks = primary(&set).await;
    let all = confirmed(&set, Replicas::all(), LONG).await;
    let soon_all = confirmed(&set, Replicas::all(), SHORT).await;
    let one = confirmed(&set, Replicas::at_least(1), LONG).await;
    let soon_one = confirmed(&set, Replicas::at_least(1), SHORT).await;
    is_had(all.lock("order:42")).await;
    set.nodes[2].pause();
    assert!(is_unconfirmed(soon_all.lock("order:42").acquire().await));
    until_free(&set.nodes[0]).await;
    is_had(one.lock("order:42")).await;
    set.nodes[1].pause();
    let refused = soon_one.lock("order:42").no_wait().acquire();
    assert!(is_unconfirmed(refused.await));
    until_free(&set.nodes[0]).await;
    let both = ["order:1", "order:2"];
    assert!(is_unconfirmed(soon_all.lock_all(both).acquire().await));
    until_free(&set.nodes[0]).await;
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
    let other = confirmed(&set, Replicas::all(), SHORT).await;
    let held = one.lock("order:42").await.expect("the lock");
    let waiting = tokio::spawn(async move { other.lock("order:42").acquire().await });
    let waits = async || {
        one.inspect("order:42")
            .await
            .is_ok_and(|it| it.is_some_and(|it| it.waiting_processes == 1))
    };
    eventually(DEADLINE, "the other one waits", waits).await;
    set.nodes[1].pause();
    held.release().await.expect("it was held");
    let moved = within(DEADLINE, "the waiter has its answer", waiting).await;
    assert!(is_unconfirmed(moved.expect("no panic")));
    until_free(&set.nodes[0]).await;
}

#[tokio::test]
async fn a_renewal_that_replicas_do_not_have_is_not_believed() {
    let set = SentinelSet::start().await;
    let ttl = Duration::from_secs(3);
    let builder = builder(&set)
        .ttl(ttl)
        .confirm(Replicas::all(), Duration::from_secs(1));
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

/// This is like a failover, before the sentinels name the new primary. A process that connects then must also know that
/// this replica is missing.
#[tokio::test]
async fn a_replica_that_is_being_promoted_is_missed() {
    let set = SentinelSet::start().await;
    set.nodes[2].ask("REPLICAOF NO ONE").await;
    until_replication(&set, "connected_slaves:1").await;
    let all = confirmed(&set, Replicas::all(), SHORT).await;
    assert!(is_unconfirmed(all.lock("order:42").acquire().await));
    until_free(&set.nodes[0]).await;
    let one = confirmed(&set, Replicas::at_least(1), LONG).await;
    is_had(one.lock("order:42")).await;
}

/// Connects like `redis-cli --rdb` and `--replica`, which request the data, and have no address of their own.
#[tokio::test]
async fn a_backup_ends_no_confirmed_lock() {
    let set = SentinelSet::start().await;
    let locks = confirmed(&set, Replicas::all(), LONG).await;
    is_had(locks.lock("order:42")).await;
    let backup = TcpStream::connect(set.nodes[0].address()).await;
    let mut backup = backup.expect("the server runs");
    backup.write_all(b"SYNC\r\n").await.expect("it is open");
    until_replication(&set, "port=0,state=online").await;
    is_had(locks.lock("order:42")).await;
    let later = confirmed(&set, Replicas::all(), LONG).await;
    is_had(later.lock("order:42")).await;
    drop(backup);
    is_had(locks.lock("order:42")).await;
}

/// The connection that waits for the replicas ends, and there are fewer when another one is open.
#[tokio::test]
async fn a_replica_is_missed_over_another_connection() {
    let set = SentinelSet::start().await;
    // As long as running replicas need. It is waited for three times.
    let locks = confirmed(&set, Replicas::all(), LONG / 10).await;
    is_had(locks.lock("order:42")).await;
    set.nodes[2].stop();
    until_replication(&set, "connected_slaves:1").await;
    let clients = set.nodes[0].ask("CLIENT LIST TYPE normal").await;
    let waits = |client: &&str| client.contains(" cmd=wait") || client.contains(" cmd=info");
    for client in clients.lines().filter(waits) {
        let id = client.split(' ').next().unwrap_or_default();
        let kill = format!("CLIENT KILL {}", id.replace("id=", "ID "));
        // It may be the one that sends this request.
        let _ = set.nodes[0].try_ask(&kill).await;
    }
    for _ in 0..3 {
        assert!(is_unconfirmed(locks.lock("order:42").acquire().await));
    }
}

#[tokio::test]
async fn a_server_without_replicas_confirms_nothing() {
    let server = RedisServer::start().await;
    for replicas in [
        Replicas::all(),
        Replicas::at_least(1),
        Replicas::at_least(0),
    ] {
        let locks = patient(&server).confirm(replicas, SHORT).build();
        let locks = locks.await.expect("a server");
        assert!(is_unconfirmed(locks.lock("order:42").acquire().await));
        until_free(&server).await;
    }
    let long = Duration::from_secs(u64::MAX);
    for within in [Duration::ZERO, long] {
        let refused = patient(&server).confirm(Replicas::all(), within);
        let refused = refused.build_lazy();
        assert!(matches!(refused, Err(LockError::Config { .. })));
    }
}

#[tokio::test]
async fn a_leader_that_is_not_confirmed_waits_on() {
    let set = SentinelSet::start().await;
    let locks = confirmed(&set, Replicas::all(), DEADLINE).await;
    is_had(locks.lock("order:42")).await;
    let locks = confirmed(&set, Replicas::all(), SHORT).await;
    set.nodes[1].pause();
    let request = locks.lock("reports");
    let leading = tokio::spawn(request.lead(async |_| 42));
    let waited = async || set.nodes[0].commandstats().await.get("wait") >= Some(&3);
    eventually(DEADLINE, "it has tried more than once", waited).await;
    assert!(!leading.is_finished());
    set.nodes[1].resume();
    let led = within(DEADLINE, "it leads", leading).await;
    assert_eq!(led.expect("no panic").expect("both have it"), 42);
}

#[tokio::test]
async fn an_unconfirmed_lock_with_a_min_hold_is_given_back() {
    let set = SentinelSet::start().await;
    let locks = confirmed(&set, Replicas::at_least(2), SHORT).await;
    set.nodes[1].pause();
    let job = locks
        .lock("job:report")
        .min_hold(Duration::from_secs(3_600))
        .no_wait();
    assert!(is_unconfirmed(job.acquire().await));
    let several = locks
        .lock_all(["job:a", "job:b"])
        .min_hold(Duration::from_secs(3_600));
    assert!(is_unconfirmed(several.acquire().await));
    until_free(&set.nodes[0]).await;
}

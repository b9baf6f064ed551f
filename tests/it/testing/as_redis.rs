//! The server in memory shows what a real one shows: the same cases over both.

use std::future::pending;
use std::time::Duration;

use crate::support::stores::patient_at;
use crate::support::{Cut, DEADLINE, Proxy, RedisServer, eventually, within};
use reentry::testing::Server;
use reentry::{LockError, Locks, LocksBuilder, LostReason};
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);
const KEY: &str = "order:42";

/// Leases that no test outlives.
const FAR: Duration = Duration::from_secs(300);

/// Where a case takes place.
enum Ground {
    InMemory(Server),
    /// With a proxy, before one of the replicas.
    OnRedis(Box<RedisServer>, Proxy),
}

use Ground::{InMemory, OnRedis};

/// A replica that may be cut off, and one that is not.
type Replicas = (Locks, Locks);

impl Ground {
    async fn on_redis() -> Self {
        let server = RedisServer::start().await;
        let proxy = Proxy::start(server.port());
        OnRedis(Box::new(server), proxy)
    }

    /// They have taken locks already.
    async fn replicas(&self, options: impl Fn(LocksBuilder) -> LocksBuilder) -> Replicas {
        let (one, other) = match self {
            InMemory(server) => (server.builder(), server.builder()),
            OnRedis(server, proxy) => (patient_at(proxy.url()), patient_at(server.url())),
        };
        let locks = [one, other].map(|builder| options(builder).build_lazy().unwrap());
        for locks in &locks {
            locks.with_lock(KEY, async {}).await.unwrap();
        }
        locks.into()
    }

    async fn stop(&self) {
        match self {
            InMemory(server) => server.stop(),
            OnRedis(server, _) => {
                server.ask("SAVE").await;
                server.stop();
            }
        }
    }

    async fn start(&self) {
        match self {
            InMemory(server) => server.start(),
            OnRedis(server, _) => server.start_again().await,
        }
    }

    /// It is paused, and so can save nothing any more.
    fn kill(&self) {
        match self {
            InMemory(server) => server.stop(),
            OnRedis(server, _) => server.stop(),
        }
    }

    async fn restart_empty(&self) {
        match self {
            InMemory(server) => {
                server.stop();
                server.lose_data();
                server.start();
            }
            OnRedis(server, _) => server.restart_empty().await,
        }
    }

    fn pause(&self) {
        match self {
            InMemory(server) => server.pause(),
            OnRedis(server, _) => server.pause(),
        }
    }

    fn resume(&self) {
        match self {
            InMemory(server) => server.resume(),
            OnRedis(server, _) => server.resume(),
        }
    }

    async fn lose_data(&self) {
        match self {
            InMemory(server) => server.lose_data(),
            OnRedis(server, _) => drop(server.ask("FLUSHALL").await),
        }
    }

    fn partition(&self, locks: &Locks) {
        match self {
            InMemory(server) => server.partition(locks),
            OnRedis(_, proxy) => proxy.blackhole(),
        }
    }

    async fn heal(&self, locks: &Locks) {
        match self {
            InMemory(server) => server.heal(locks),
            OnRedis(_, proxy) => {
                proxy.heal().await;
                proxy.cut_all(Cut::Reset).await;
            }
        }
    }
}

macro_rules! on_both {
    ($($case:ident),+ $(,)?) => {
        mod in_memory {
            use super::*;

            $(#[tokio::test(start_paused = true)]
            async fn $case() {
                super::$case(InMemory(Server::new())).await;
            })+
        }

        mod on_redis {
            use super::*;

            $(#[tokio::test]
            async fn $case() {
                let case = async { super::$case(Ground::on_redis().await).await };
                within(3 * DEADLINE, stringify!($case), case).await;
            })+
        }
    };
}

on_both!(
    a_server_that_is_stopped_refuses_and_keeps_its_data,
    a_server_that_stands_still_leaves_one_outcome_open,
    what_is_under_way_ends_with_the_connection,
    a_replica_that_is_cut_off_is_alone_with_it,
    a_restart_without_data_is_noticed_at_once,
    lost_data_is_noticed_at_the_next_renewal,
    a_holder_outlives_no_silence_beyond_its_lease,
);

/// Both timeouts are over soon.
fn impatient(builder: LocksBuilder) -> LocksBuilder {
    let builder = builder.connect_timeout(SECOND).response_timeout(SECOND);
    builder.ttl(FAR)
}

/// Whether it is not known what has become of a request for the lock, which is not answered.
async fn is_outcome_unknown(locks: &Locks) -> bool {
    match locks.lock(KEY).no_wait().await {
        Err(LockError::Store { source, .. }) => source.is_outcome_unknown(),
        other => panic!("{other:?}"),
    }
}

async fn a_server_that_is_stopped_refuses_and_keeps_its_data(ground: Ground) {
    let (a, b) = ground.replicas(impatient).await;
    let _guard = a.lock(KEY).await.unwrap();
    ground.stop().await;
    // The end of a real connection is noticed a little later.
    while is_outcome_unknown(&b).await {}
    let waiting = b.lock(KEY).wait(SECOND / 2).acquire();
    assert!(waiting.await.unwrap_err().is_unavailable());
    ground.start().await;
    let is_held = async || matches!(b.inspect(KEY).await, Ok(Some(_)));
    eventually(DEADLINE, "an answer", is_held).await;
}

async fn a_server_that_stands_still_leaves_one_outcome_open(ground: Ground) {
    let (a, b) = ground.replicas(impatient).await;
    ground.pause();
    assert!(is_outcome_unknown(&a).await);
    assert!(!is_outcome_unknown(&a).await, "it was not sent");
    ground.resume();
    // What was executed late is undone.
    let start = Instant::now();
    b.with_lock(KEY, async {}).await.unwrap();
    assert!(start.elapsed() < DEADLINE);
}

async fn what_is_under_way_ends_with_the_connection(ground: Ground) {
    let patient = |builder: LocksBuilder| builder.response_timeout(FAR);
    let (a, _) = ground.replicas(patient).await;
    ground.pause();
    let asking = tokio::spawn(async move { is_outcome_unknown(&a).await });
    tokio::task::yield_now().await;
    ground.kill();
    assert!(asking.await.unwrap());
}

async fn a_replica_that_is_cut_off_is_alone_with_it(ground: Ground) {
    let (a, b) = ground.replicas(impatient).await;
    ground.partition(&a);
    assert!(is_outcome_unknown(&a).await);
    assert!(!is_outcome_unknown(&a).await, "it was not sent");
    b.with_lock(KEY, async {}).await.unwrap();
    ground.heal(&a).await;
    a.with_lock(KEY, async {}).await.unwrap();
}

async fn a_restart_without_data_is_noticed_at_once(ground: Ground) {
    let (a, _) = ground.replicas(|builder| builder.ttl(FAR)).await;
    let guard = a.lock(KEY).await.unwrap();
    ground.restart_empty().await;
    let lost = within(DEADLINE, "it notices", guard.held().lost()).await;
    assert_eq!(lost, LostReason::Gone);
}

async fn lost_data_is_noticed_at_the_next_renewal(ground: Ground) {
    let ttl = 6 * SECOND;
    let (a, _) = ground.replicas(|builder| builder.ttl(ttl)).await;
    let start = Instant::now();
    let guard = a.lock(KEY).await.unwrap();
    ground.lose_data().await;
    assert_eq!(guard.held().lost().await, LostReason::Gone);
    assert!(start.elapsed() >= ttl / 3);
}

async fn a_holder_outlives_no_silence_beyond_its_lease(ground: Ground) {
    let ttl = 2 * SECOND;
    let (a, b) = ground.replicas(|builder| builder.ttl(ttl)).await;
    let start = Instant::now();
    let body = a.with_lock(KEY, async {
        ground.pause();
        pending::<()>().await;
    });
    let Err(LockError::Lost { reason, .. }) = body.await else {
        panic!("not lost");
    };
    assert_eq!(reason, LostReason::Unconfirmed);
    assert!(start.elapsed() >= ttl * 98 / 100);
    ground.resume();
    b.with_lock(KEY, async {}).await.unwrap();
}

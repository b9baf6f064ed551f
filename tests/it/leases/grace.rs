//! The time between the end of a lease for its holder and its expiry in the store.

use std::future::pending;
use std::time::Duration;

use crate::support::told::lost;
use reentry::testing::Server;
use reentry::{LockError, Locks, LostReason};
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
const KEY: &str = "order:42";

/// Two replicas with leases of 12 s, and a grace of 3 s for the requests that a body has sent.
fn replicas(server: &Server) -> [Locks; 2] {
    [(); 2].map(|()| {
        let builder = server.builder().ttl(12 * SECOND).grace(3 * SECOND);
        builder.wait(60 * SECOND).build_lazy().unwrap()
    })
}

#[tokio::test(start_paused = true)]
async fn a_body_ends_so_long_before_another_one_can_begin() {
    let server = Server::new();
    let [cut_off, other] = replicas(&server);
    let body = async {
        server.partition(&cut_off);
        pending::<()>().await;
    };
    let begun = Instant::now();
    let lost = async {
        let ended = cut_off.with_lock(KEY, body).await;
        (lost(ended).1, begun.elapsed())
    };
    let entered = async {
        sleep(SECOND).await;
        other
            .with_lock(KEY, async { begun.elapsed() })
            .await
            .unwrap()
    };
    let ((reason, ended), entered) = tokio::join!(lost, entered);
    assert_eq!((reason, ended), (LostReason::Expired, 9 * SECOND));
    assert!(entered >= 12 * SECOND, "{entered:?}");
}

/// A lock that moves has a short lease at first, and the grace is added to it.
#[tokio::test(start_paused = true)]
async fn a_lock_that_has_moved_is_kept_and_renewed() {
    let server = Server::new();
    let [one, other] = replicas(&server);
    let guard = one.lock(KEY).await.unwrap();
    let next = tokio::spawn(other.lock(KEY).acquire());
    sleep(5 * SECOND).await;
    guard.release().await.unwrap();
    let guard = next.await.unwrap().unwrap();
    assert!(guard.held().remaining() > SECOND, "{:?}", guard.held());
    sleep(30 * SECOND).await;
    assert!(!guard.held().is_lost());
    assert!(guard.held().remaining() <= 9 * SECOND);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_grace_above_a_third_of_the_lease_is_rejected() {
    let builder = || Locks::builder("memory:").grace(3 * SECOND);
    assert!(builder().ttl(9 * SECOND).build().await.is_ok());
    let short = builder().ttl(8 * SECOND).build().await;
    assert!(matches!(short, Err(LockError::Misuse { .. })), "{short:?}");
    let locks = builder().ttl(9 * SECOND).build().await.unwrap();
    let brief = locks.lock(KEY).max_hold(5 * SECOND).await;
    assert!(matches!(brief, Err(LockError::Misuse { .. })), "{brief:?}");
}

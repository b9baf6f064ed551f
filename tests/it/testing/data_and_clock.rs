//! A server in memory that loses its data, or whose clock is stepped, and the promises that remain.

use std::future::pending;
use std::time::Duration;

use reentry::testing::Server;
use reentry::{FencingToken, LockError, Locks, LostReason};
use tokio::join;
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
const KEY: &str = "order:42";
const TTL: Duration = Duration::from_secs(30);

async fn token(locks: &Locks) -> FencingToken {
    let body = async { reentry::held(KEY).unwrap().fencing_token() };
    locks.with_lock(KEY, body).await.unwrap()
}

/// P1 is broken until the holder sends its next request. P11 is not.
#[tokio::test(start_paused = true)]
async fn a_clock_stepped_forward_ends_leases_and_tokens_grow() {
    let server = Server::new();
    let (a, b) = (server.locks(), server.locks());
    let first = a.lock(KEY).await.unwrap();
    server.step_clock_forward(TTL / 2);
    assert!(b.lock(KEY).no_wait().await.unwrap_err().is_busy());
    server.step_clock_forward(TTL / 2);
    let second = b.lock(KEY).no_wait().await.unwrap();
    assert!(second.held().fencing_token() > first.held().fencing_token());
    assert_eq!(first.held().lost().await, LostReason::Deleted);
}

/// P1, P5: the deadline is local, and the store keeps the lock for longer.
#[tokio::test(start_paused = true)]
async fn a_clock_stepped_back_keeps_the_others_out_for_longer() {
    let server = Server::new();
    let (a, b) = (server.locks(), server.locks());
    let start = Instant::now();
    let cut_off = a.with_lock(KEY, async {
        server.partition(&a);
        server.step_clock_back(10 * SECOND);
        pending::<()>().await;
    });
    let waiting = async {
        tokio::task::yield_now().await;
        drop(b.lock(KEY).await.unwrap());
        start.elapsed()
    };
    let (lost, entered) = join!(cut_off, waiting);
    assert!(matches!(lost, Err(LockError::Lost { .. })), "{lost:?}");
    let earliest = TTL + 10 * SECOND;
    assert!(
        (earliest..earliest + 2 * SECOND).contains(&entered),
        "{entered:?}"
    );
}

/// P11: the clock is set back by no more than the time since the last acquisition.
#[tokio::test(start_paused = true)]
async fn tokens_grow_though_the_clock_is_stepped_back_by_less_than_the_time_since() {
    let server = Server::new();
    let (a, b) = (server.locks(), server.locks());
    let mut last = token(&a).await;
    for locks in [&b, &a, &b] {
        sleep(11 * SECOND).await;
        server.step_clock_back(10 * SECOND);
        let next = token(locks).await;
        assert!(next > last);
        last = next;
    }
    server.step_clock_back(10 * SECOND);
    assert!(token(&a).await < last, "as P11 says");
}

/// The clock is set back by any time: nothing panics, and the locks work.
#[tokio::test(start_paused = true)]
async fn a_step_ends_after_ten_years() {
    let server = Server::new();
    let locks = server.locks();
    for _ in 0..2 {
        server.step_clock_back(Duration::MAX);
        let early = token(&locks).await;
        server.step_clock_forward(Duration::MAX);
        let late = token(&locks).await;
        let years = (late.as_i64() - early.as_i64()) / (365 * 24 * 3600 * 1_000_000);
        assert_eq!(years, 20);
    }
}

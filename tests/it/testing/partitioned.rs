//! A replica that is cut off from the server in memory, while the others go on.

use std::cell::Cell;
use std::future::pending;
use std::time::Duration;

use reentry::testing::Server;
use reentry::{LockError, Locks, LostReason, OnLost};
use tokio::join;
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
const KEY: &str = "order:42";
const TTL: Duration = Duration::from_secs(30);

/// P1, P5, P6, P11.
#[tokio::test(start_paused = true)]
async fn a_body_is_dropped_at_its_deadline_and_the_next_one_enters_when_the_lease_has_ended() {
    let server = Server::new();
    let (a, b) = (server.locks(), server.locks());
    let start = Instant::now();
    let token = Cell::new(None);
    let cut_off = async {
        let body = async {
            token.set(reentry::current().map(|held| held.fencing_token()));
            server.partition(&a);
            pending::<()>().await;
        };
        let lost = a.with_lock(KEY, body).await.unwrap_err();
        (lost, start.elapsed())
    };
    let next = async {
        let guard = b.lock(KEY).await.unwrap();
        (guard.held().fencing_token(), start.elapsed())
    };
    let ((lost, dropped), (next, entered)) = join!(cut_off, next);
    assert!(lost.is_lost(), "{lost:?}");
    assert!(dropped < TTL, "{dropped:?}");
    assert!((TTL..TTL + SECOND).contains(&entered), "{entered:?}");
    assert!(token.get() < Some(next));
}

#[tokio::test(start_paused = true)]
async fn the_others_go_on_meanwhile() {
    let server = Server::new();
    let (a, b, c) = (server.locks(), server.locks(), server.locks());
    server.partition(&a);
    let start = Instant::now();
    for locks in [&b, &c, &b] {
        locks.with_lock(KEY, async {}).await.unwrap();
    }
    let guard = b.lock(KEY).await.unwrap();
    let waiting = tokio::spawn(c.lock(KEY).acquire());
    tokio::task::yield_now().await;
    drop(guard);
    drop(waiting.await.unwrap().unwrap());
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_is_never_executed() {
    let server = Server::new();
    let (a, b) = (server.locks(), server.locks());
    server.partition(&a);
    let Err(LockError::Store { source, .. }) = a.lock(KEY).no_wait().await else {
        panic!("an answer");
    };
    assert!(source.is_outcome_unknown(), "it cannot know");
    assert!(b.inspect(KEY).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_is_healed_takes_the_lock_again() {
    let server = Server::new();
    let a = server.locks();
    server.partition(&a);
    // A clone is the same replica.
    let waiting = tokio::spawn(a.clone().lock(KEY).acquire());
    sleep(20 * SECOND).await;
    assert!(!waiting.is_finished());
    server.heal(&a.clone());
    let start = Instant::now();
    drop(waiting.await.unwrap().unwrap());
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_kept_over_a_partition_that_is_shorter_than_its_lease() {
    let server = Server::new();
    let (a, b) = (server.locks(), server.locks());
    let body = a.with_lock(KEY, async {
        for _ in 0..5 {
            server.partition(&a);
            sleep(TTL / 2).await;
            server.heal(&a);
            sleep(TTL / 2).await;
        }
        b.lock(KEY).no_wait().await.unwrap_err().is_contended()
    });
    assert!(body.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_was_taken_away_meanwhile_is_lost_as_soon_as_it_is_healed() {
    let server = Server::new();
    let (a, b) = (server.locks(), server.locks());
    let guard = a.lock(KEY).await.unwrap();
    server.partition(&a);
    assert!(b.force_release(KEY).await.unwrap());
    sleep(SECOND).await;
    assert!(!guard.held().is_lost(), "it cannot know");
    server.heal(&a);
    let start = Instant::now();
    assert_eq!(guard.held().lost().await, LostReason::Gone);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// The lock moves to a waiter that cannot be told. It goes on after two heartbeats (P9).
#[tokio::test(start_paused = true)]
async fn a_message_to_it_is_lost_and_its_turn_passes() {
    let server = Server::new();
    let (a, b, c) = (server.locks(), server.locks(), server.locks());
    let wait = |locks: &Locks| tokio::spawn(locks.lock(KEY).acquire());
    let guard = b.lock(KEY).await.unwrap();
    let cut_off = wait(&a);
    sleep(SECOND / 10).await;
    let behind = wait(&c);
    sleep(SECOND / 10).await;
    server.partition(&a);
    guard.release().await.unwrap();
    let start = Instant::now();
    let guard = behind.await.unwrap().unwrap();
    let waited = start.elapsed();
    assert!(
        (SECOND..=2 * SECOND + SECOND / 10).contains(&waited),
        "{waited:?}"
    );
    assert!(!cut_off.is_finished(), "it was told");
    server.heal(&a);
    sleep(SECOND / 10).await;
    // It stands in the queue again.
    let released = Instant::now();
    guard.release().await.unwrap();
    drop(cut_off.await.unwrap().unwrap());
    assert_eq!(released.elapsed(), Duration::ZERO);
}

/// A process that is killed sends nothing any more, and what it was told is lost with it.
#[tokio::test(start_paused = true)]
async fn a_replica_that_is_killed_keeps_its_lock_until_the_lease_ends() {
    let server = Server::new();
    let (a, b) = (server.locks(), server.locks());
    let start = Instant::now();
    let killed = tokio::spawn(a.with_lock(KEY, pending::<()>()));
    tokio::task::yield_now().await;
    server.partition(&a);
    killed.abort();
    drop(a);
    b.with_lock(KEY, async {}).await.unwrap();
    let waited = start.elapsed();
    assert!((TTL..TTL + SECOND).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_keeps_running_sees_the_loss() {
    let server = Server::new();
    let a = server.locks();
    let request = a.lock(KEY).on_lost(OnLost::KeepRunning);
    let body = request.run(async {
        server.partition(&a);
        reentry::held(KEY).unwrap().lost().await
    });
    assert_eq!(body.await.unwrap(), LostReason::Unconfirmed);
}

/// It does not notice that its connections end, nor that the server is back.
#[tokio::test(start_paused = true)]
async fn a_restart_meanwhile_is_noticed_when_it_is_healed() {
    let server = Server::new();
    let a = server.locks();
    let guard = a.lock(KEY).await.unwrap();
    server.partition(&a);
    server.stop();
    server.lose_data();
    server.start();
    sleep(SECOND).await;
    assert!(!guard.held().is_lost(), "it cannot know");
    server.heal(&a);
    let start = Instant::now();
    assert_eq!(guard.held().lost().await, LostReason::Gone);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// It was sent before, and is executed; the answer does not come through.
#[tokio::test(start_paused = true)]
async fn an_answer_is_lost_as_well() {
    let server = Server::new();
    let (a, b) = (server.locks(), server.locks());
    server.pause();
    let start = Instant::now();
    let asking = tokio::spawn(a.lock(KEY).no_wait().acquire());
    tokio::task::yield_now().await;
    server.partition(&a);
    server.resume();
    assert!(asking.await.unwrap().unwrap_err().is_unavailable());
    assert_eq!(start.elapsed(), SECOND, "the response timeout");
    assert!(b.inspect(KEY).await.unwrap().is_some(), "it was executed");
    server.heal(&a);
    drop(b.lock(KEY).wait(2 * SECOND).await.expect("it was released"));
}

#[test]
#[should_panic = "this `Locks` is not one of this server"]
fn another_servers_locks_cannot_be_cut_off() {
    Server::new().partition(&Server::new().locks());
}

#[test]
#[should_panic = "this `Locks` is not one of this server"]
fn locks_of_no_server_cannot_be_healed() {
    Server::new().heal(&Locks::in_memory());
}

//! `min_hold`: a lock that is held for a minimum time, so that a job runs at most once in a period.

use std::time::Duration;

use crate::support::{RedisServer, patient, processes};
use redis::{AsyncCommands, cmd};
use reentry::{LockError, Locks, locked};
use tokio::time::{Instant, sleep};

const KEY: &str = "job";
const HOUR: Duration = Duration::from_secs(3_600);
const SECOND: Duration = Duration::from_secs(1);

async fn is_free(locks: &Locks) -> bool {
    locks.inspect(KEY).await.unwrap().is_none()
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_once_in_a_period_however_often_it_is_tried() {
    let locks = Locks::in_memory();
    let mut runs = Vec::new();
    let start = Instant::now();
    for _ in 0..40 {
        let job = locks.lock(KEY).min_hold(HOUR).no_wait();
        match job.run(async { runs.push(start.elapsed()) }).await {
            Ok(()) => {}
            Err(error) => assert!(error.is_busy(), "{error}"),
        }
        sleep(HOUR / 10).await;
    }
    let gaps = runs.windows(2).map(|pair| pair[1] - pair[0]);
    assert_eq!(gaps.collect::<Vec<_>>(), [HOUR, HOUR, HOUR]);
}

/// This is so however the body ends.
#[tokio::test(start_paused = true)]
async fn it_holds_for_bodies_that_are_dropped_or_panic_and_for_guards() {
    for end in ["dropped", "panics", "guard", "aborted", "closed"] {
        let locks = Locks::builder("memory:").build().await.unwrap();
        let request = locks.lock(KEY).min_hold(HOUR);
        let body = async move {
            match end {
                "panics" => panic!("on purpose"),
                "aborted" | "closed" => std::future::pending().await,
                _ => {}
            }
        };
        match end {
            "guard" => request.acquire().await.unwrap().release().await.unwrap(),
            "dropped" => drop(request.acquire().await.unwrap()),
            "closed" => {
                let body = tokio::spawn(request.run(body));
                tokio::task::yield_now().await;
                let observer = locks.close(SECOND).await;
                assert!(observer.is_clean(), "{observer}");
                assert!(body.await.unwrap().is_err());
                continue;
            }
            _ => {
                let body = tokio::spawn(request.run(body));
                tokio::task::yield_now().await;
                body.abort();
                assert!(body.await.is_err());
            }
        }
        sleep(HOUR - SECOND).await;
        assert!(!is_free(&locks).await, "{end}");
        sleep(2 * SECOND).await;
        assert!(is_free(&locks).await, "{end}");
    }
}

/// It is not handed off, neither in memory nor in the store.
#[tokio::test(start_paused = true)]
async fn those_who_wait_get_in_when_it_is_over() {
    let locks = Locks::builder("memory:");
    let locks = locks.wait(Duration::MAX).build().await.unwrap();
    let start = Instant::now();
    let job = locks.lock(KEY).min_hold(HOUR);
    let first = tokio::spawn(job.run(async {}));
    tokio::task::yield_now().await;
    let second = locks.with_lock(KEY, async { start.elapsed() });
    let entered = second.await.unwrap();
    first.await.unwrap().unwrap();
    assert!((HOUR..=HOUR + SECOND).contains(&entered), "{entered:?}");
}

#[tokio::test(start_paused = true)]
async fn a_nested_entry_leaves_it_to_the_outermost() {
    let locks = Locks::in_memory();
    // It is not kept either if the body takes longer.
    let job = locks.lock(KEY).min_hold(HOUR);
    job.run(sleep(2 * HOUR)).await.unwrap();
    assert!(is_free(&locks).await);
    let inner = locks.lock(KEY).min_hold(HOUR);
    let outer = locks.with_lock(KEY, inner.run(async {}));
    outer.await.unwrap().unwrap();
    assert!(is_free(&locks).await);
    let outer = locks.lock(KEY).min_hold(HOUR);
    let nested = outer.run(locks.with_lock(KEY, async {}));
    nested.await.unwrap().unwrap();
    assert!(!is_free(&locks).await);
}

#[tokio::test(start_paused = true)]
async fn each_of_several_locks_is_kept() {
    let locks = Locks::in_memory();
    let both = locks.lock_all([KEY, "other"]).min_hold(HOUR);
    both.run(async {}).await.unwrap();
    for (pause, stands) in [(HOUR - SECOND, true), (2 * SECOND, false)] {
        sleep(pause).await;
        for key in [KEY, "other"] {
            assert_eq!(locks.inspect(key).await.unwrap().is_some(), stands, "{key}");
        }
    }
}

#[tokio::test]
async fn what_contradicts_it_is_refused() {
    let locks = Locks::in_memory();
    let hourly = || locks.lock(KEY).min_hold(HOUR);
    for request in [hourly().max_hold(HOUR / 2), hourly().read()] {
        let refused = request.run(async {}).await;
        assert!(
            matches!(refused, Err(LockError::Misuse { .. })),
            "{refused:?}"
        );
    }
    hourly().max_hold(HOUR).run(async {}).await.unwrap();
}

#[locked("job:{id}", min_hold = "1h", wait = "none")]
async fn hourly(id: u32) -> Result<u32, LockError> {
    Ok(id)
}

#[tokio::test(start_paused = true)]
async fn the_attribute_has_it_too() {
    let locks = Locks::in_memory();
    let twice = locks.scope(async { (hourly(1).await, hourly(1).await) });
    let (first, second) = twice.await;
    assert_eq!(first.unwrap(), 1);
    assert!(second.unwrap_err().is_busy());
}

/// Three processes that try at the same time, again and again.
#[tokio::test]
async fn of_several_processes_one_runs_the_job() {
    let server = RedisServer::start().await;
    let all: [Locks; 3] = processes(&patient(&server)).await;
    let mut runs = 0;
    for _ in 0..3 {
        for locks in &all {
            let job = locks.lock(KEY).min_hold(HOUR).no_wait();
            let nested = locks.with_lock(KEY, async {});
            runs += u32::from(job.run(nested).await.is_ok());
        }
    }
    assert_eq!(runs, 1);
    let left = server.ask(&format!("PTTL {KEY}")).await;
    let left = Duration::from_millis(left.parse().unwrap());
    assert!(left > HOUR / 2 && left <= HOUR, "{left:?}");
    assert_eq!(server.key_count().await, 1, "the lock alone");
}

/// Whatever ends the attempt, the locks that it had acquired are free immediately.
#[tokio::test(start_paused = true)]
async fn several_locks_that_are_not_all_taken_are_not_kept() {
    let locks = Locks::in_memory();
    let elsewhere = locks.lock("other").await.unwrap();
    let both = || locks.lock_all([KEY, "other"]).min_hold(HOUR).wait(SECOND);
    let late = both().run(async {}).await.unwrap_err();
    assert!(late.is_busy(), "{late}");
    let dropped = tokio::time::timeout(SECOND / 2, both().run(async {})).await;
    assert!(dropped.is_err());
    elsewhere.release().await.unwrap();
    sleep(SECOND / 100).await;
    assert!(is_free(&locks).await);
    both().run(async {}).await.unwrap();
    assert!(!is_free(&locks).await);
}

/// Another server has replaced the first one, and does not know that the lock was released. Returns how long the lock
/// is held there after the next request of the process that has released it. A token is set before.
async fn at_the_next_server(token: Option<&str>) -> Option<Duration> {
    let server = RedisServer::start().await;
    let locks = patient(&server).ttl(2 * HOUR).build().await.unwrap();
    let job = locks.lock(KEY).min_hold(HOUR).acquire().await.unwrap();
    let mut connection = server.connection().await;
    let mut dump = cmd("DUMP");
    let dump: Vec<u8> = dump.arg(KEY).query_async(&mut connection).await.unwrap();
    job.release().await.unwrap();
    let mut restore = cmd("RESTORE");
    restore.arg(KEY).arg(7_200_000).arg(dump).arg("REPLACE");
    restore.exec_async(&mut connection).await.unwrap();
    if let Some(token) = token {
        let () = connection.hset(KEY, "mode", token).await.unwrap();
    }
    server.ask("REPLICAOF 127.0.0.1 1").await;
    server.ask("REPLICAOF NO ONE").await;
    server.kill_command_connections().await;
    locks.with_lock("beside", async {}).await.unwrap();
    let left: i64 = server.ask("PTTL job").await.parse().unwrap();
    u64::try_from(left).ok().map(Duration::from_millis)
}

#[tokio::test]
async fn the_next_server_is_told_how_long_the_lock_stands() {
    let left = at_the_next_server(None).await.unwrap();
    assert!(left <= HOUR, "{left:?}");
    // That time is over by then.
    assert_eq!(at_the_next_server(Some("1 0")).await, None);
}

//! `min_hold`: a lock that is held for a minimum time, so that a job runs at most once in a period.

use std::thread;
use std::time::Duration;

use crate::support::runtime::runtime;
use crate::support::{DEADLINE, RedisServer, eventually, patient, patient_at, processes};
use reentry::Locks;
use reentry::testing::Server;
use tokio::time::{Instant, sleep};

const KEY: &str = "job";
const HOUR: Duration = Duration::from_secs(3_600);
const SECOND: Duration = Duration::from_secs(1);

async fn is_free(locks: &Locks) -> bool {
    locks.admin().inspect(KEY).await.unwrap().is_none()
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
    let gaps: Vec<_> = gaps.collect();
    assert_eq!(gaps.len(), 3);
    // A try in the moment of its end may come first.
    let is_next = |gap: &Duration| [HOUR, HOUR + HOUR / 10].contains(gap);
    assert!(gaps.iter().all(is_next), "{gaps:?}");
}

/// This is so however the body ends.
#[tokio::test(start_paused = true)]
async fn min_hold_applies_to_dropped_and_panicking_bodies() {
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

/// Callers of the same process, and of another one.
#[tokio::test(start_paused = true)]
async fn waiters_enter_as_soon_as_min_hold_is_over() {
    let server = Server::new();
    let [here, elsewhere] = [server.locks(), server.locks()];
    for waiting in [&here, &elsewhere] {
        let start = Instant::now();
        let job = here.lock(KEY).min_hold(HOUR);
        job.run(async {}).await.unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO);
        let waits = waiting.lock(KEY).wait(2 * HOUR);
        let entered = waits.run(async { start.elapsed() }).await.unwrap();
        let latest = HOUR + Duration::from_millis(20);
        assert!((HOUR..latest).contains(&entered), "{entered:?}");
        assert!(here.lock(KEY).no_wait().await.is_ok());
    }
}

/// The lock is renewed like any other, so its loss is noticed.
#[tokio::test(start_paused = true)]
async fn a_forced_release_ends_min_hold() {
    let locks = Locks::in_memory();
    let job = locks.lock(KEY).min_hold(HOUR);
    job.run(async {}).await.unwrap();
    sleep(HOUR / 2).await;
    assert!(!is_free(&locks).await);
    assert!(locks.admin().force_release(KEY).await.unwrap());
    assert!(locks.lock(KEY).no_wait().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn close_waits_for_min_hold_or_leaves_the_lease() {
    let server = Server::new();
    for (limit, is_over) in [(HOUR + SECOND, true), (SECOND, false)] {
        let [locks, observer] = [server.locks(), server.locks()];
        let start = Instant::now();
        locks.lock(KEY).min_hold(HOUR).run(async {}).await.unwrap();
        let report = locks.close(limit).await;
        assert!(report.is_clean(), "{report}");
        let expected = if is_over { HOUR } else { limit };
        let took = start.elapsed();
        assert!((expected..expected + SECOND).contains(&took), "{took:?}");
        assert_eq!(is_free(&observer).await, is_over);
        sleep(HOUR - 3 * SECOND).await;
        assert_eq!(is_free(&observer).await, is_over);
        sleep(3 * SECOND).await;
        assert!(is_free(&observer).await);
    }
}

#[tokio::test(start_paused = true)]
async fn min_hold_counts_for_the_outermost_entry() {
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

/// Whatever ends the attempt, the locks that it had acquired are free immediately.
#[tokio::test(start_paused = true)]
async fn min_hold_does_not_apply_to_an_incomplete_lock_all() {
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

/// The runtime of the holder ends with its process.
#[tokio::test]
async fn min_hold_of_an_ended_process_lasts_as_long_as_its_lease() {
    let server = RedisServer::start().await;
    let url = server.url();
    let ends = || {
        runtime().block_on(async {
            let locks = patient_at(&url).build().await.unwrap();
            locks.lock(KEY).min_hold(HOUR).run(async {}).await.unwrap();
        });
    };
    thread::scope(|scope| scope.spawn(ends).join().unwrap());
    let left: u64 = server.ask(&format!("PTTL {KEY}")).await.parse().unwrap();
    assert!(Duration::from_millis(left) > HOUR / 2, "{left}");
}

/// A lock that moves to a process usually has a short lease until its first renewal.
#[tokio::test]
async fn min_hold_of_a_handed_off_lock_counts_from_its_beginning() {
    let server = RedisServer::start().await;
    let [other, locks] = processes(&patient(&server)).await;
    let holder = other.lock(KEY).await.unwrap();
    let lease = async {
        let left: u64 = server.ask(&format!("PTTL {KEY}")).await.parse().unwrap();
        Duration::from_millis(left)
    };
    let job = locks.lock(KEY).min_hold(HOUR).run(lease);
    let (left, ()) = tokio::join!(job, async {
        let waits = async || {
            let info = other.admin().inspect(KEY).await.unwrap();
            info.is_some_and(|info| info.waiting_processes == 1)
        };
        eventually(DEADLINE, "it waits", waits).await;
        holder.release().await.unwrap();
    });
    assert!(left.unwrap() > HOUR / 2);
}

//! The machine is suspended while locks are held. In that time tokio's clock stops, and the server's clock does not.

use std::cell::Cell;
use std::future::pending;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use crate::base::error::{LockError, LostReason};
use crate::base::suspension::suspend;
use crate::{Locks, OnLost, held};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const KEY: &str = "order:42";

fn lost(error: &LockError) -> Option<LostReason> {
    match error {
        LockError::Lost { reason, .. } => Some(*reason),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_waits_ends_at_the_next_look_of_the_schedule() {
    let locks = Locks::in_memory();
    let begun = Instant::now();
    let body = async {
        sleep(SECOND / 2).await;
        suspend(HOUR);
        pending::<()>().await;
    };
    let error = locks.with_lock(KEY, body).await.unwrap_err();
    assert_eq!(lost(&error), Some(LostReason::Unconfirmed));
    assert!(begun.elapsed() <= 2 * SECOND, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_polled_first_makes_no_further_step() {
    let locks = Locks::in_memory();
    let steps = Cell::new(0);
    let body = async {
        suspend(HOUR);
        loop {
            yield_now().await;
            steps.set(steps.get() + 1);
        }
    };
    let error = locks.with_lock(KEY, body).await.unwrap_err();
    assert_eq!(
        (lost(&error), steps.get()),
        (Some(LostReason::Unconfirmed), 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_that_keeps_running_is_told_when_it_asks() {
    let locks = Locks::in_memory();
    let request = locks.lock(KEY).on_lost(OnLost::KeepRunning);
    let asked = request.run(async {
        let held = held(KEY).unwrap();
        suspend(HOUR);
        (held.is_lost(), held.remaining())
    });
    assert_eq!(asked.await.unwrap(), (true, Duration::ZERO));
    let guard = locks.lock(KEY).await.unwrap();
    suspend(HOUR);
    assert!(guard.held().is_lost());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_longer_is_renewed_at_once() {
    let locks = Locks::in_memory();
    let guard = locks.lock(KEY).ttl(30 * SECOND).await.unwrap();
    suspend(15 * SECOND);
    let left = guard.held().remaining();
    assert!(left <= 15 * SECOND && left >= 14 * SECOND, "{left:?}");
    sleep(SECOND / 1_000).await;
    assert!(guard.held().remaining() >= 29 * SECOND);
    assert!(!guard.held().is_lost());
}

#[tokio::test(start_paused = true)]
async fn a_loss_that_comes_sooner_now_is_seen_in_time() {
    let locks = Locks::in_memory();
    // It is never renewed.
    let request = locks.lock(KEY).ttl(30 * SECOND).max_hold(30 * SECOND);
    let begun = Instant::now();
    let body = async {
        // The body has waited once, so there is a task that waits for its loss.
        sleep(SECOND / 2).await;
        suspend(20 * SECOND);
        pending::<()>().await;
    };
    let error = request.run(body).await.unwrap_err();
    assert!(lost(&error).is_some(), "{error:?}");
    assert!(begun.elapsed() < 11 * SECOND, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_taken_afterwards_is_not_concerned() {
    let locks = Locks::in_memory();
    let _other = locks.lock("other").await.unwrap();
    suspend(HOUR);
    let body = async { yield_now().await };
    locks.with_lock(KEY, body).await.unwrap();
}

//! The renewals of holds over a store that counts them, and that can be made to lose its connection.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::advance;

use self::counting::Counting;
use super::*;
use crate::base::key::LockKey;
use crate::base::sync::Mutex;
use crate::support::{DEADLINE, eventually};
use crate::{LockError, Locks, LostReason};

mod counting;
mod overload;
mod readers;
mod several_keys;
mod together_and_spread;

const SECOND: Duration = Duration::from_secs(1);
const MOMENT: Duration = Duration::from_millis(1);
const TTL: Duration = Duration::from_secs(30);

fn alive() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

#[tokio::test(start_paused = true)]
async fn each_hold_is_renewed_after_a_third_of_its_own_ttl() -> Result<(), LockError> {
    let store = Counting::new();
    let locks = store.locks();
    let mut guards = Vec::new();
    for number in 0..30 {
        let ttl = [3 * SECOND, 30 * SECOND, 300 * SECOND][number % 3];
        guards.push(locks.lock(number.to_string()).ttl(ttl).acquire().await?);
        advance(MOMENT).await;
    }
    // Holds with one TTL are renewed together. Each renewal is late by a tick of the timer, from which the next one
    // counts.
    let together = store.together_within(300 * SECOND).await;
    let renewed = together.concat().len();
    let expected = 10 * (300 + 30 + 3);
    assert!((expected - 30..=expected).contains(&renewed), "{renewed}");
    // The remaining hold continues to be renewed after some have ended.
    guards.truncate(1);
    let renewed = store.renewed_within(30 * SECOND).await;
    assert!((29..=30).contains(&renewed), "{renewed}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_task_ends_within_a_second_of_the_last_hold() -> Result<(), LockError> {
    let store = Counting::new();
    let locks = store.locks();
    let before = alive();
    for _ in 0..3 {
        for _ in 0..1_000 {
            locks.with_lock("short", async {}).await?;
            assert!(alive() <= before + 1, "{}", alive());
        }
        let guard = locks.lock("long").acquire().await?;
        crate::base::timer::sleep(100 * SECOND).await;
        assert_eq!(alive(), before + 1);
        guard.release().await?;
        crate::base::timer::sleep(SECOND).await;
        tokio::task::yield_now().await;
        assert_eq!(alive(), before);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_hold_ends_its_renewal_in_flight() -> Result<(), LockError> {
    let store = Counting::new();
    let locks = store.locks();
    let before = alive();
    let guard = locks.lock("key").acquire().await?;
    store.is_silent.store(true, Relaxed);
    assert!(store.renewed_within(TTL / 3 + SECOND / 2).await > 0);
    assert_eq!(alive(), before + 2);
    guard.release().await?;
    assert_eq!(store.renewed_within(TTL).await, 0);
    assert_eq!(alive(), before);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_disconnect_has_each_hold_verified_once() -> Result<(), LockError> {
    let store = Counting::new();
    let locks = store.locks();
    let mut guards = Vec::new();
    for number in 0..100 {
        guards.push(locks.lock(number.to_string()).acquire().await?);
    }
    assert_eq!(store.renewed_within(SECOND).await, 0);
    let verified = async |span| store.together_within(span).await.concat().len();
    store.disconnect();
    // The verifications are spread over the next period.
    assert_eq!(verified(SECOND / 2).await, 100);
    // A connection that is lost all the time costs each hold 20 renewals per second.
    let mut renewed = 0;
    for _ in 0..1_000 {
        store.disconnect();
        renewed += verified(MOMENT).await;
    }
    assert!((1_500..=2_100).contains(&renewed), "{renewed}");
    // The last disconnect was followed by a verification.
    assert_eq!(verified(SECOND / 2).await, 100);
    Ok(())
}

/// The loss of a lock on the server is noticed together with the loss of the connection.
#[tokio::test(start_paused = true)]
async fn a_disconnect_has_the_loss_noticed() -> Result<(), LockError> {
    let store = Counting::new();
    let locks = store.locks();
    let guard = locks.lock("key").acquire().await?;
    advance(SECOND).await;
    assert!(locks.admin().force_release("key").await?);
    store.disconnect();
    let began = Instant::now();
    assert_eq!(guard.held().lost().await, LostReason::Deleted);
    assert!(began.elapsed() <= MOMENT);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_disconnect_during_the_acquisition_verifies_the_hold() -> Result<(), LockError> {
    let store = Counting::new();
    let locks = store.locks();
    // This is tested with a schedule that already knows of the connection, and with one that does not.
    for has_hold in [false, true] {
        let other = match has_hold {
            true => Some(locks.lock("other").acquire().await?),
            false => None,
        };
        assert_eq!(store.renewed_within(SECOND).await, 0);
        store.has_lost_connection.store(true, Relaxed);
        let guard = locks.lock("key").acquire().await?;
        store.has_lost_connection.store(false, Relaxed);
        let renewed = store.renewed_within(SECOND).await;
        assert_eq!(renewed, if has_hold { 2 } else { 1 });
        drop((guard, other));
        crate::base::timer::sleep(3 * SECOND).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn depths_that_follow_in_the_background_leave_no_task() -> Result<(), LockError> {
    let store = Counting::new();
    let locks = store.locks();
    let guard = locks.lock("key").acquire().await?;
    let before = alive();
    let nested = || locks.lock("key");
    let body = async {
        for _ in 0..100 {
            nested().run(async {}).await?;
        }
        let _inner = nested().acquire().await?;
        assert!(alive() <= before + 1, "{}", alive());
        let caught_up = async || {
            let info = locks.admin().inspect("key").await;
            info.is_ok_and(|info| info.is_some_and(|info| info.holders[0].depth == 2))
        };
        eventually(DEADLINE, "the depth in the store", caught_up).await;
        tokio::task::yield_now().await;
        assert_eq!(alive(), before);
        Ok::<(), LockError>(())
    };
    guard.scope(body).await??;
    assert!(store.changed.load(Relaxed) < 10, "many changes at once");
    guard.release().await
}

/// A hold of a runtime that has ended is no longer renewed. The holds of the others are.
#[test]
fn each_runtime_has_its_own_schedule() {
    let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
    let (first, next) = (runtime(), runtime());
    let store = Counting::new();
    let locks = store.locks();
    let short = locks.lock("first").ttl(3 * SECOND / 10).acquire();
    let ends = first.block_on(short).unwrap();
    drop(first);
    next.block_on(async {
        let stays = locks.lock("next").ttl(3 * SECOND).await.unwrap();
        let lost = ends.held().lost();
        let lost = crate::support::within(DEADLINE, "the end of the lease", lost).await;
        assert_eq!(lost, LostReason::Expired);
        let is_renewed = async || store.renewed.load(Relaxed) > 0;
        eventually(DEADLINE, "the other one is renewed", is_renewed).await;
        assert!(!stays.held().is_lost());
        stays.release().await.unwrap();
        drop(ends.release().await);
    });
}

//! `#[locked]`: the `Locks` and the options with which a call acquires its lock.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::support::told::lost;
use reentry::{LockError, Locks, LostReason, OnLost, held, locked};
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);

struct Shop {
    locks: Locks,
    shared: &'static str,
}

impl Shop {
    const TTL: Duration = Duration::from_secs(5);

    #[locked("shop:{self.shared}", locks = self.locks, ttl = Self::TTL)]
    async fn by_field(&self) -> Result<bool, LockError> {
        Ok(held("shop:a").is_some_and(|held| held.remaining() <= Self::TTL))
    }

    #[locked(key = self.shared, locks = &self.locks)]
    async fn by_reference(&self) -> Result<bool, LockError> {
        Ok(self.locks.admin().inspect(self.shared).await?.is_some())
    }
}

#[locked("{id}", locks = locks)]
async fn by_arc(id: u32, locks: Arc<Locks>) -> Result<bool, LockError> {
    Ok(locks.admin().inspect("1").await?.is_some())
}

#[locked("{id}", locks = locks)]
async fn by_mut(id: u32, locks: &mut Locks) -> Result<bool, LockError> {
    Ok(locks.admin().inspect("1").await?.is_some())
}

static LOCKS: LazyLock<Locks> = LazyLock::new(Locks::in_memory);

#[locked("{id}", locks = *LOCKS)]
async fn by_static(id: u32) -> Result<bool, LockError> {
    Ok(held("1").is_some())
}

#[tokio::test]
async fn the_locks_may_be_behind_a_pointer() {
    let mut locks = Locks::in_memory();
    assert!(by_static(1).await.unwrap());
    assert!(by_arc(1, Arc::new(locks.clone())).await.unwrap());
    assert!(by_mut(1, &mut locks).await.unwrap());
}

mod company {
    pub(super) use reentry as locks;
}

#[locked("{id}", crate = company::locks)]
async fn by_another_name(id: u32, _by: &str) -> Result<bool, LockError> {
    Ok(held(id.to_string()).is_some())
}

#[locked("{id}", crate = self::company::locks, held = lock)]
async fn by_a_path(id: u32) -> Result<u32, LockError> {
    Ok(id + lock.depth())
}

#[tokio::test]
async fn the_crate_may_have_another_name() {
    let locks = Locks::in_memory();
    assert!(locks.scope(by_another_name(1, "cron")).await.unwrap());
    assert_eq!(locks.scope(by_a_path(1)).await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_named_locks_come_before_those_in_scope() {
    let shop = Shop {
        locks: Locks::in_memory(),
        shared: "a",
    };
    assert!(shop.by_field().await.unwrap());
    let other = Locks::in_memory();
    assert!(other.scope(shop.by_field()).await.unwrap());
    assert!(other.scope(shop.by_reference()).await.unwrap());
}

#[locked("options:{id}", wait = "none")]
async fn impatient(id: u32) -> Result<(), LockError> {
    sleep(SECOND).await;
    Ok(())
}

#[locked("options:{id}", wait = "250ms")]
async fn patient(id: u32) -> Result<(), LockError> {
    Ok(())
}

#[locked("options:{id}", wait = "forever")]
async fn persistent(id: u32) -> Result<(), LockError> {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn waiting_is_as_the_arguments_say() {
    let locks = Locks::in_memory();
    let all = async { tokio::join!(impatient(1), impatient(1), patient(1), persistent(1)) };
    let (first, second, third, fourth) = locks.scope(all).await;
    assert!(first.is_ok() && fourth.is_ok());
    assert!(matches!(second, Err(LockError::Busy { .. })), "{second:?}");
    assert!(matches!(third, Err(LockError::Busy { .. })), "{third:?}");
}

#[locked("held:{id}", ttl = "10s", max_hold = "1m30s")]
async fn limited(id: u32, seconds: u64) -> Result<u64, LockError> {
    sleep(Duration::from_secs(seconds)).await;
    Ok(seconds)
}

#[locked("held:{id}", max_hold = Duration::from_secs(60), on_lost = OnLost::KeepRunning)]
async fn stubborn(id: u32, seconds: u64) -> Result<u64, LockError> {
    sleep(Duration::from_secs(seconds)).await;
    Ok(seconds)
}

#[tokio::test(start_paused = true)]
async fn a_hold_ends_at_max_hold_and_on_lost_decides_about_the_body() {
    let locks = Locks::in_memory();
    assert_eq!(locks.scope(limited(1, 80)).await.unwrap(), 80);
    let late = locks.scope(limited(1, 100)).await;
    assert_eq!(lost(late).1, LostReason::MaxHold);
    assert_eq!(locks.scope(stubborn(1, 70)).await.unwrap(), 70);
}

//! `#[locked(…, read)]`: a function that shares its lock.

use crate::support::in_memory;
use reentry::{LockError, Locks, held, locked};

#[locked("report:{year}", read, locks = locks)]
async fn read(locks: &Locks, year: u32) -> Result<bool, LockError> {
    let held = held(format!("report:{year}")).expect("the lock");
    Ok(held.is_shared())
}

#[locked("report:{one}", "report:{other}", locks = locks, read)]
async fn read_both(locks: &Locks, one: u32, other: u32) -> Result<[bool; 2], LockError> {
    Ok([read(locks, one).await?, read(locks, other).await?])
}

in_memory!(
    a_reader_shares_its_lock,
    a_reader_of_several_keys_shares_each_of_them,
);

async fn a_reader_shares_its_lock(locks: Locks) {
    let guard = locks.lock("report:2026").read().await.unwrap();
    assert!(read(&locks, 2026).await.unwrap());
    guard.release().await.unwrap();
}

async fn a_reader_of_several_keys_shares_each_of_them(locks: Locks) {
    let guard = locks.lock("report:2026").read().await.unwrap();
    let modes = read_both(&locks, 2025, 2026).await.unwrap();
    assert_eq!(modes, [true; 2]);
    guard.release().await.unwrap();
}

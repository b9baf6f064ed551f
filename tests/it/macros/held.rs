//! `#[locked(…, held = lock)]`: the body has access to its lock under a name.

use crate::support::in_memory;
use async_trait::async_trait;
use reentry::{FencingToken, LockError, Locks, locked};

#[locked("order:{id}", locks = locks, held = lock)]
async fn ship(locks: &Locks, id: u64) -> Result<(String, FencingToken), LockError> {
    let token = invoice(locks, id, lock.fencing_token()).await?;
    Ok((lock.key().to_owned(), token))
}

/// Acquires the same lock.
#[locked("order:{id}", held = lock, locks = locks)]
async fn invoice(locks: &Locks, id: u64, token: FencingToken) -> Result<FencingToken, LockError> {
    assert_eq!((lock.depth(), lock.fencing_token()), (2, token));
    Ok(lock.fencing_token())
}

#[async_trait]
trait Warehouse {
    async fn count(&self, id: u64) -> Result<(u64, u32), LockError>;
}

struct Shelves(Locks);

#[async_trait]
impl Warehouse for Shelves {
    #[locked("stock:{id}", locks = &self.0, held = lock)]
    async fn count(&self, id: u64) -> Result<(u64, u32), LockError> {
        Ok((id, lock.depth()))
    }
}

in_memory!(
    the_body_has_its_lock_under_the_name,
    a_method_of_a_trait_has_it_too,
);

async fn the_body_has_its_lock_under_the_name(locks: Locks) {
    let (key, token) = ship(&locks, 42).await.unwrap();
    assert_eq!(key, "order:42");
    assert!(u64::from(token) > 0);
}

async fn a_method_of_a_trait_has_it_too(locks: Locks) {
    let shelves = Shelves(locks);
    assert_eq!(shelves.count(7).await.unwrap(), (7, 1));
}

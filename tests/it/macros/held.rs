//! `#[locked(…, held = lock)]`: the body has access to its lock under a name.

use crate::support::on_both_stores;
use async_trait::async_trait;
use reentry::__admin::Ids as _;
use reentry::{FencingToken, LockError, Locks, current, locked};

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

/// Acquires another lock inside.
#[locked("stock:{id}", locks = locks, held = stock)]
async fn pick(locks: &Locks, id: u64) -> Result<String, LockError> {
    let inner = locks.with_lock("shelf", async {
        current().map(|lock| lock.key().to_owned())
    });
    assert_eq!(inner.await?.as_deref(), Some("shelf"));
    let innermost = current().map(|lock| lock.hold_id());
    assert_eq!(innermost, Some(stock.hold_id()));
    Ok(stock.key().to_owned())
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

on_both_stores!(
    the_body_has_its_lock_under_the_name,
    it_is_the_lock_of_that_function,
    a_method_of_a_trait_has_it_too,
    there_is_none_outside,
);

async fn the_body_has_its_lock_under_the_name(locks: Locks) {
    let (key, token) = ship(&locks, 42).await.unwrap();
    assert_eq!(key, "order:42");
    assert!(u64::from(token) > 0);
}

async fn it_is_the_lock_of_that_function(locks: Locks) {
    assert_eq!(pick(&locks, 7).await.unwrap(), "stock:7");
}

async fn a_method_of_a_trait_has_it_too(locks: Locks) {
    let shelves = Shelves(locks);
    assert_eq!(shelves.count(7).await.unwrap(), (7, 1));
}

async fn there_is_none_outside(locks: Locks) {
    assert!(current().is_none());
    let guard = locks.lock("key").await.unwrap();
    assert!(current().is_none());
    let inside = guard.scope(async { current().map(|lock| lock.key().to_owned()) });
    assert_eq!(inside.await.unwrap().as_deref(), Some("key"));
}

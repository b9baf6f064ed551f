//! How a service tests what it does when its locks fail: a handler of two replicas, and the tests of it.
//!
//! `cargo test --example service_tests --features test-util` runs the tests. They take no time, since they run on paused
//! time, and need no Redis.
//!
//! `cargo run --example service_tests --features test-util` ships an order, with `REDIS_URL=redis://127.0.0.1:6379` on a
//! server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reentry::{FencingToken, LockError, Locks, LocksBuilder};
use tokio::time::sleep;

/// One replica of the service.
#[derive(Clone)]
struct Service {
    locks: Locks,
    warehouse: Arc<Warehouse>,
    /// How long it takes to pack a parcel.
    packing: Duration,
}

/// What all replicas share, beside the locks: the parcels, each with the token that it was sent under.
#[derive(Default)]
struct Warehouse(Mutex<BTreeMap<u64, FencingToken>>);

impl Warehouse {
    /// Sends a parcel, once. A stale token is refused by a real one; see the example `fenced_writes`.
    fn send(&self, order: u64, token: FencingToken) {
        let mut parcels = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parcels.entry(order).or_insert(token);
    }

    fn sent(&self, order: u64) -> Option<FencingToken> {
        let parcels = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parcels.get(&order).copied()
    }
}

impl Service {
    /// A replica over these locks, wherever they live.
    fn new(locks: LocksBuilder, warehouse: &Arc<Warehouse>) -> Result<Self, LockError> {
        let locks = locks.prefix("shop:").ttl(Duration::from_secs(8));
        Ok(Self {
            locks: locks.wait(Duration::from_secs(5)).build_lazy()?,
            warehouse: Arc::clone(warehouse),
            packing: Duration::from_secs(3),
        })
    }

    /// `POST /orders/{order}/parcel`. Returns the status of the response.
    async fn ship(&self, order: u64) -> u16 {
        let section = self.locks.with_lock(format!("order:{order}"), async {
            if let (None, Some(lock)) = (self.warehouse.sent(order), reentry::current()) {
                sleep(self.packing).await;
                self.warehouse.send(order, lock.fencing_token());
            }
        });
        match section.await {
            Ok(()) => 204,
            Err(error) => status(&error),
        }
    }
}

/// As the table at `LockError` says.
fn status(error: &LockError) -> u16 {
    if error.is_contended() || error.is_deadlock() {
        409
    } else if error.is_unavailable() || error.is_closed() {
        503
    } else {
        500
    }
}

#[tokio::main]
async fn main() -> Result<(), LockError> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "memory:".to_owned());
    let service = Service::new(Locks::builder().url(url), &Arc::default())?;
    println!("order 42: {}", service.ship(42).await);
    Ok(())
}

#[cfg(test)]
mod tests {
    use reentry::testing::Server;
    use tokio::join;
    use tokio::time::Instant;

    use super::*;

    /// Two replicas of the service, and their server.
    fn replicas() -> Result<(Server, Service, Service), LockError> {
        let (server, warehouse) = (Server::new(), Arc::default());
        let replica = || Service::new(server.builder(), &warehouse);
        let (one, other) = (replica()?, replica()?);
        Ok((server, one, other))
    }

    #[tokio::test(start_paused = true)]
    async fn an_order_is_shipped_once() -> Result<(), LockError> {
        let (_server, one, other) = replicas()?;
        let start = Instant::now();
        assert_eq!(join!(one.ship(42), other.ship(42)), (204, 204));
        assert_eq!(start.elapsed(), one.packing, "the second one finds it sent");
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn an_order_that_is_kept_for_long_is_a_conflict() -> Result<(), LockError> {
        let (_server, one, other) = replicas()?;
        let _stuck = one.locks.lock("order:42").await?;
        assert_eq!(other.ship(42).await, 409);
        assert_eq!(other.ship(43).await, 204);
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn without_its_store_the_service_is_unavailable() -> Result<(), LockError> {
        let (server, one, _other) = replicas()?;
        server.stop();
        assert_eq!(one.ship(42).await, 503);
        server.start();
        assert_eq!(one.ship(42).await, 204);
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_without_an_answer_is_the_same_and_keeps_no_lock() -> Result<(), LockError> {
        let (server, one, other) = replicas()?;
        assert_eq!(one.ship(1).await, 204);
        server.pause();
        assert_eq!(one.ship(42).await, 503);
        // What was sent is executed now, when no caller waits for it any more.
        server.resume();
        assert_eq!(other.ship(42).await, 204);
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_outage_is_not_noticed() -> Result<(), LockError> {
        let (server, one, _other) = replicas()?;
        let outage = async {
            sleep(one.packing / 3).await;
            server.stop();
            sleep(one.packing / 3).await;
            server.start();
        };
        assert_eq!(join!(one.ship(42), outage).0, 204);
        Ok(())
    }

    /// The body is dropped at the deadline of its lease, before the other replica can enter.
    #[tokio::test(start_paused = true)]
    async fn a_replica_that_is_cut_off_sends_nothing_late() -> Result<(), LockError> {
        let (server, one, other) = replicas()?;
        let slow = Service {
            packing: Duration::from_secs(60),
            ..one
        };
        let next = async {
            sleep(Duration::from_secs(1)).await;
            server.partition(&slow.locks);
            assert_eq!(other.ship(42).await, 409, "the lease has not ended");
            other.ship(42).await
        };
        assert_eq!(join!(slow.ship(42), next), (500, 204));
        server.heal(&slow.locks);
        assert_eq!(slow.ship(42).await, 204, "it finds it sent");
        Ok(())
    }

    /// As by SIGKILL: nothing leaves the replica any more, not even the release of its locks.
    #[tokio::test(start_paused = true)]
    async fn another_replica_takes_over_from_one_that_has_died() -> Result<(), LockError> {
        let (server, one, other) = replicas()?;
        let locks = one.locks.clone();
        let dies = tokio::spawn(async move { one.ship(42).await });
        sleep(Duration::from_secs(1)).await;
        server.partition(&locks);
        dies.abort();
        assert_eq!(other.ship(42).await, 409, "the lease has not ended");
        assert_eq!(other.ship(42).await, 204);
        Ok(())
    }

    /// The store forgets who is inside. What the lock guards goes by the greater token.
    #[tokio::test(start_paused = true)]
    async fn after_lost_data_the_later_one_has_the_greater_token() -> Result<(), LockError> {
        let (server, one, other) = replicas()?;
        let first = one.locks.lock("order:42").await?;
        server.lose_data();
        assert_eq!(other.ship(42).await, 204);
        assert!(other.warehouse.sent(42) > Some(first.held().fencing_token()));
        Ok(())
    }
}

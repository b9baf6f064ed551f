//! Faults while a lock moves. No failure on the way leaves the lock without an expiry, or makes a release that was
//! executed look rejected. Whatever can be done without memory is done.

use std::time::Duration;

use super::super::world::{
    FULL, GRANT, MINUTE, UNANSWERED, World, acquire_request, field_of, release_request, some_hold,
    some_waiter,
};
use super::ask;
use crate::base::error::{FailureClass, StoreError};
use crate::base::id::HoldId;
use crate::store::{
    Acquire, AcquireRequest, ForceRelease, Presence, QueueEntry, ReleaseKind, ReleaseRequest,
    SeenHolders,
};

const TTL: Duration = MINUTE.saturating_mul(9);

/// A lock that is held, one process that waits for it, and one that comes next.
struct Queue {
    holder: HoldId,
    head: (HoldId, QueueEntry),
    next: (HoldId, QueueEntry),
}

impl Queue {
    async fn form(world: &World) -> Self {
        let queue = Self {
            holder: some_hold(),
            head: some_waiter(),
            next: some_waiter(),
        };
        world.take(queue.holder, TTL).await;
        world.wait(queue.head.0, TTL, queue.head.1).await;
        queue
    }

    fn acquire_request(&self) -> AcquireRequest {
        let entry = Some(self.next.1);
        AcquireRequest {
            entry,
            ..acquire_request(self.next.0, TTL)
        }
    }

    fn release_request(&self, end: ReleaseKind) -> ReleaseRequest {
        ReleaseRequest {
            inbox: self.next.1.inbox,
            ..release_request(self.holder, end)
        }
    }

    /// Ends the hold of the holder by force.
    async fn force(&self, world: &World) -> Result<Vec<Vec<u8>>, StoreError> {
        let (key, seen) = (world.key.clone(), self.seen());
        world.store.ask(ForceRelease { key, seen }).await
    }

    fn seen(&self) -> SeenHolders {
        let (fields, token) = (vec![field_of(self.holder)], None);
        SeenHolders { fields, token }
    }
}

async fn step(world: &World, queue: &Queue, step: &str) -> Result<(), StoreError> {
    let (store, key) = (&world.store, &world.key);
    match step {
        "short release" => store
            .release(key, queue.release_request(ReleaseKind::Short))
            .await
            .map(drop),
        "release" => store
            .release(key, queue.release_request(FULL))
            .await
            .map(drop),
        "force" => queue.force(world).await.map(drop),
        "leave" => {
            let (hold, entry) = queue.head;
            let request = ReleaseRequest {
                inbox: entry.inbox,
                ..release_request(hold, FULL)
            };
            store.release(key, request).await.map(drop)
        }
        _ => {
            let (key, request) = (key.clone(), queue.acquire_request());
            store.ask(Acquire { key, request }).await.map(drop)
        }
    }
}

#[tokio::test]
async fn a_lock_moves_also_where_nothing_may_be_published() {
    let world = World::on_redis().await;
    for deny in ["-publish", "resetchannels"] {
        for of in ["short release", "release", "force", "ask"] {
            let () = ask(&world, "ACL SETUSER default +@all allchannels").await;
            let () = ask(&world, "FLUSHALL").await;
            let queue = Queue::form(&world).await;
            if of == "ask" {
                world.pass(TTL + MINUTE).await;
            }
            let () = ask(&world, &format!("ACL SETUSER default {deny}")).await;
            let outcome = step(&world, &queue, of).await;
            assert!(outcome.is_ok(), "{of} with {deny}: {outcome:?}");
            let (head, _) = queue.head;
            assert!(world.is_held(head, GRANT).await, "{of} with {deny}");
        }
    }
}

#[tokio::test]
async fn a_full_server_still_moves_its_locks() {
    let world = World::on_redis().await;
    for of in ["short release", "release", "force", "leave"] {
        let () = ask(&world, "CONFIG SET maxmemory 0").await;
        let () = ask(&world, "FLUSHALL").await;
        let queue = Queue::form(&world).await;
        let () = ask(&world, "CONFIG SET maxmemory 1").await;
        let outcome = step(&world, &queue, of).await;
        assert!(outcome.is_ok(), "{of}: {outcome:?}");
        let (holder, lease) = match of {
            "leave" => (queue.holder, TTL),
            _ => (queue.head.0, GRANT),
        };
        assert!(world.is_held(holder, lease).await, "{of}");
        assert_eq!(world.waiting().await, 0, "{of}");
    }
}

#[tokio::test]
async fn a_full_server_still_moves_a_lock_that_has_expired() {
    let world = World::on_redis().await;
    let queue = Queue::form(&world).await;
    let second = some_waiter();
    world.wait(second.0, TTL, second.1).await;
    world.pass(TTL + MINUTE).await;
    let () = ask(&world, "CONFIG SET maxmemory 1").await;
    world.acquire(some_hold(), TTL).await;
    assert!(world.is_held(queue.head.0, GRANT).await);
    world.pass(GRANT + MINUTE).await;
    world.queue(second.0, TTL, second.1).await;
    assert!(world.is_held(second.0, TTL).await);
}

#[tokio::test]
async fn no_process_enters_the_queue_of_a_full_server() {
    let world = World::on_redis().await;
    let queue = Queue::form(&world).await;
    let () = ask(&world, "CONFIG SET maxmemory 1").await;
    let outcome = step(&world, &queue, "wait").await;
    assert_eq!(
        outcome.map_err(|error| error.failure_class()),
        Err(FailureClass::NotExecuted)
    );
    assert!(world.is_held(queue.holder, TTL).await);
    assert_eq!(world.waiting().await, 1);
    assert!(world.server().immortal().await.is_empty());
}

#[tokio::test]
async fn a_release_that_cannot_move_the_lock_is_a_release() {
    let world = World::on_redis().await;
    let after = [
        "exists",
        "zrange",
        "zscore",
        "zadd",
        "zrem",
        "zremrangebyscore",
        "hget",
        "hset",
        "hdel",
        "hexists",
        "pexpire",
        "pttl",
        "time",
        "publish",
    ];
    for denied in after {
        for of in ["short release", "release", "force", "alone"] {
            let () = ask(&world, "ACL SETUSER default +@all").await;
            let () = ask(&world, "FLUSHALL").await;
            let queue = Queue::form(&world).await;
            if of == "alone" {
                world.leave(queue.head.0, queue.head.1.inbox).await;
            }
            let deny = format!("ACL SETUSER default +@all -{denied}");
            let () = ask(&world, &deny).await;
            let ended = match of {
                // They begin with a read command.
                "force" | "short release" if denied == "hexists" => continue,
                "force" => {
                    let forced = queue.force(&world).await;
                    forced.map(|ended| !ended.is_empty())
                }
                _ => {
                    let end = match of {
                        "alone" => FULL,
                        "release" => ReleaseKind::Full(UNANSWERED),
                        _ => ReleaseKind::Short,
                    };
                    let request = queue.release_request(end);
                    let released = world.store.release(&world.key, request).await;
                    released.map(|released| released == Presence::Present)
                }
            };
            assert_eq!(ended.ok(), Some(true), "{of} without {denied}");
            let () = ask(&world, "ACL SETUSER default +@all").await;
            let held: bool = ask(&world, &format!("HEXISTS app:order {}", queue.holder)).await;
            assert!(!held, "{of} without {denied}");
        }
    }
}

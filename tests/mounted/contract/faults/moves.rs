//! Faults while a lock moves. No failure on the way leaves the lock without an expiry, or makes a release that was
//! executed look rejected. Whatever can be done without memory is done.

use super::super::requests::{Cast, TTL};
use super::super::world::{
    FULL, GRANT, MINUTE, UNANSWERED, World, release_request, some_hold, some_waiter,
};
use super::ask;
use crate::base::error::FailureClass;
use crate::store::{ForceRelease, Presence, ReleaseKind, ReleaseRequest};

/// A lock that is held, and one process that waits for it.
async fn waited_for(world: &World) -> Cast {
    let () = ask(world, "FLUSHALL").await;
    Cast::form(world, "waited for").await
}

#[tokio::test]
async fn a_lock_moves_also_where_nothing_may_be_published() {
    let world = World::on_redis().await;
    for deny in ["-publish", "resetchannels"] {
        for of in ["release", "release all", "force", "wait"] {
            let () = ask(&world, "ACL SETUSER default +@all allchannels").await;
            let cast = waited_for(&world).await;
            if of == "wait" {
                world.pass(TTL + MINUTE).await;
            }
            let () = ask(&world, &format!("ACL SETUSER default {deny}")).await;
            let outcome = cast.send(&world, of).await;
            assert!(outcome.is_ok(), "{of} with {deny}: {outcome:?}");
            let (head, _) = cast.waiter;
            assert!(world.is_held(head, GRANT).await, "{of} with {deny}");
        }
    }
}

#[tokio::test]
async fn a_full_server_still_moves_its_locks() {
    let world = World::on_redis().await;
    for of in ["release", "release all", "force", "leave"] {
        let () = ask(&world, "CONFIG SET maxmemory 0").await;
        let cast = waited_for(&world).await;
        let () = ask(&world, "CONFIG SET maxmemory 1").await;
        let outcome = cast.send(&world, of).await;
        assert!(outcome.is_ok(), "{of}: {outcome:?}");
        let (holder, lease) = match of {
            "leave" => (cast.holder, TTL),
            _ => (cast.waiter.0, GRANT),
        };
        assert!(world.is_held(holder, lease).await, "{of}");
        assert_eq!(world.waiting().await, 0, "{of}");
    }
}

#[tokio::test]
async fn a_full_server_still_moves_a_lock_that_has_expired() {
    let world = World::on_redis().await;
    let cast = waited_for(&world).await;
    let second = some_waiter();
    world.wait(second.0, TTL, second.1).await;
    world.pass(TTL + MINUTE).await;
    let () = ask(&world, "CONFIG SET maxmemory 1").await;
    world.acquire(some_hold(), TTL).await;
    assert!(world.is_held(cast.waiter.0, GRANT).await);
    world.pass(GRANT + MINUTE).await;
    world.queue(second.0, TTL, second.1).await;
    assert!(world.is_held(second.0, TTL).await);
}

#[tokio::test]
async fn no_process_enters_the_queue_of_a_full_server() {
    let world = World::on_redis().await;
    let cast = waited_for(&world).await;
    let () = ask(&world, "CONFIG SET maxmemory 1").await;
    let outcome = cast.send(&world, "wait").await;
    let class = outcome.map_err(|error| error.failure_class());
    assert_eq!(class, Err(FailureClass::NotExecuted));
    assert!(world.is_held(cast.holder, TTL).await);
    assert_eq!(world.waiting().await, 1);
    assert!(world.server().immortal().await.is_empty());
}

/// Otherwise the lock would move to it later.
#[tokio::test]
async fn a_waiter_whose_place_stays_has_not_left() {
    let world = World::on_redis().await;
    let (hold, entry) = waited_for(&world).await.waiter;
    let () = ask(&world, "CONFIG SET min-replicas-to-write 1").await;
    let request = ReleaseRequest {
        inbox: entry.inbox,
        ..release_request(hold, FULL)
    };
    let left = world.store.release(&world.key, request).await;
    let class = left.map_err(|error| error.failure_class());
    assert_eq!(class, Err(FailureClass::NotExecuted));
    let () = ask(&world, "CONFIG SET min-replicas-to-write 0").await;
    assert_eq!(world.waiting().await, 1);
    assert_eq!(world.leave(hold, entry.inbox).await, Presence::Gone);
    assert_eq!(world.waiting().await, 0);
}

#[tokio::test]
async fn a_release_that_cannot_move_the_lock_is_a_release() {
    const AFTER: &str = "exists zrange zscore zadd zrem zremrangebyscore hget hset hdel hexists \
                         pexpire pttl time publish";
    let world = World::on_redis().await;
    for denied in AFTER.split(' ') {
        for of in ["short release", "release", "force", "alone"] {
            // They begin with a read command.
            if denied == "hexists" && matches!(of, "force" | "short release") {
                continue;
            }
            let () = ask(&world, "ACL SETUSER default +@all").await;
            let Cast { holder, waiter, .. } = waited_for(&world).await;
            if of == "alone" {
                world.leave(waiter.0, waiter.1.inbox).await;
            }
            let (key, seen) = (world.key.clone(), world.seen().await);
            let deny = format!("ACL SETUSER default +@all -{denied}");
            let () = ask(&world, &deny).await;
            let end = match of {
                "alone" => FULL,
                "release" => ReleaseKind::Full(UNANSWERED),
                _ => ReleaseKind::Short,
            };
            let ended = if of == "force" {
                let forced = world.store.ask(ForceRelease { key, seen }).await;
                forced.map(|ended| !ended.is_empty())
            } else {
                let released = world.store.release(&key, release_request(holder, end));
                let released = released.await;
                released.map(|released| released == Presence::Present)
            };
            assert_eq!(ended.ok(), Some(true), "{of} without {denied}");
            let () = ask(&world, "ACL SETUSER default +@all").await;
            let held: bool = ask(&world, &format!("HEXISTS app:order {holder}")).await;
            assert!(!held, "{of} without {denied}");
        }
    }
}

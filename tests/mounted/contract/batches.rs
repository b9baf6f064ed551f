//! Short requests that travel together. The tests check the number of calls, and that each request has its own outcome.

use futures_util::FutureExt;
use futures_util::future::{join_all, join3, join4};

use super::readers::{share_request, shared_release};
use super::server::Server;
use super::world::{
    MINUTE, UNANSWERED, World, acquire_request, entry_of, field_of, holder as seen, near,
    release_request, some_hold,
};
use crate::base::id::{FencingToken, HoldId, InboxId};
use crate::base::key::LockKey;
use crate::store::{
    Acquire, AcquireReply, AcquireRequest, AcquireShared, Inspect, Presence, ReleaseKind, Store,
};
use crate::support::{DEADLINE, within};

/// Runs each `async fn claim(world: World)` as a test, over a store whose short requests travel in batches.
macro_rules! with_batches {
    ($($claim:ident),+ $(,)?) => {
        mod on_redis {
            $(#[tokio::test]
            async fn $claim() {
                let server = super::Server::start().await.with_batches();
                let world = super::World::on(server).await;
                super::within(super::DEADLINE, stringify!($claim), super::$claim(world)).await;
            })+
        }
    };
}

with_batches!(
    requests_that_are_made_at_once_are_one_call,
    each_request_of_a_batch_has_its_own_outcome,
    requests_for_one_lock_in_a_batch_follow_each_other,
    a_token_grows_in_a_batch_although_the_clock_was_set_back,
    the_last_readers_of_a_lock_leave_by_one_call,
    the_lock_lasts_as_long_as_the_readers_that_a_batch_leaves_in_it,
    each_reader_of_a_batch_has_its_own_outcome,
    a_caller_that_leaves_before_the_batch_is_sent_makes_no_request,
    a_caller_that_leaves_later_takes_its_answer_from_no_other,
);

fn key(number: usize) -> LockKey {
    LockKey::new("app:", &format!("order:{number}")).expect("a valid key")
}

async fn acquire(store: &Store, key: &LockKey, hold: HoldId) -> AcquireReply {
    let (key, request) = (key.clone(), acquire_request(hold, MINUTE));
    store
        .ask(Acquire { key, request })
        .await
        .expect("an answer")
}

async fn release(store: &Store, key: &LockKey, hold: HoldId) -> Presence {
    let released = store.release(key, release_request(hold, ReleaseKind::Short));
    released.await.expect("an answer")
}

/// The number of script calls that the server has executed.
async fn calls(world: &World) -> u64 {
    commands(world, &["evalsha", "eval"]).await
}

/// The number of these commands that the server has executed.
async fn commands(world: &World, names: &[&str]) -> u64 {
    let stats = world.server().process().commandstats().await;
    names.iter().filter_map(|name| stats.get(*name)).sum()
}

fn is_held(reply: &AcquireReply) -> bool {
    matches!(
        reply,
        AcquireReply::Held {
            is_contended: false,
            ..
        }
    )
}

async fn requests_that_are_made_at_once_are_one_call(world: World) {
    let locks: Vec<_> = (0..40).map(|number| (key(number), some_hold())).collect();
    // The script is known afterwards.
    acquire(&world.store, &key(99), some_hold()).await;
    let before = calls(&world).await;
    let acquired = locks
        .iter()
        .map(|(key, hold)| acquire(&world.store, key, *hold));
    let acquired = join_all(acquired).await;
    assert!(acquired.iter().all(is_held), "{acquired:?}");
    let taken = calls(&world).await;
    let released = locks
        .iter()
        .map(|(key, hold)| release(&world.store, key, *hold));
    let released = join_all(released).await;
    assert!(released.iter().all(|it| *it == Presence::Present));
    // 32 and 8.
    assert_eq!((taken - before, calls(&world).await - taken), (2, 2));
}

async fn each_request_of_a_batch_has_its_own_outcome(world: World) {
    let store = &world.store;
    let [held, waited, odd, buried, free] = [0, 1, 2, 3, 4].map(key);
    let (holder, waiter, wanted) = (some_hold(), some_hold(), some_hold());
    assert!(is_held(&acquire(store, &held, holder).await));
    // The lock moves to the process that waits.
    assert!(is_held(&acquire(store, &waited, holder).await));
    wait(store, &waited, waiter).await;
    world.server().set(odd.as_str(), "a text").await;
    let bury = release_request(wanted, ReleaseKind::Full(UNANSWERED));
    store.release(&buried, bury).await.expect("an answer");
    let before = calls(&world).await;

    let acquired = [&held, &odd, &buried, &free].map(|key| {
        let (key, request) = (key.clone(), acquire_request(wanted, MINUTE));
        store.ask(Acquire { key, request })
    });
    let (acquired, released, gone) = join3(
        join_all(acquired),
        release(store, &waited, holder),
        release(store, &free, some_hold()),
    )
    .await;
    assert!(
        matches!(&acquired[0], Ok(AcquireReply::Busy { .. })),
        "{acquired:?}"
    );
    assert!(acquired[1].is_err(), "{acquired:?}");
    assert!(
        matches!(&acquired[2], Ok(AcquireReply::Ended)),
        "{acquired:?}"
    );
    assert!(acquired[3].as_ref().is_ok_and(is_held), "{acquired:?}");
    assert_eq!(released, Presence::Present);
    assert_eq!(gone, Presence::Gone);
    // These are the batch, and separately each request that has changed nothing in it. The lock has moved in it.
    assert_eq!(calls(&world).await - before, 1 + 4);
    let inspected = store.ask(Inspect::of(&waited)).await.expect("an answer");
    let inspected = inspected.expect("a lock that is held");
    assert_eq!(inspected.holders, [seen(waiter, 1)]);
}

async fn requests_for_one_lock_in_a_batch_follow_each_other(world: World) {
    let store = &world.store;
    let [holder, next, late] = [(); 3].map(|()| some_hold());
    assert!(is_held(&acquire(store, &key(0), holder).await));
    // The scripts are known afterwards.
    assert!(!is_held(&acquire(store, &key(0), some_hold()).await));
    let before = calls(&world).await;
    let (released, taken, busy) = join3(
        release(store, &key(0), holder),
        acquire(store, &key(0), next),
        acquire(store, &key(0), late),
    )
    .await;
    assert_eq!(released, Presence::Present);
    assert!(is_held(&taken), "{taken:?}");
    assert!(matches!(busy, AcquireReply::Busy { .. }), "{busy:?}");
    // The batch, and separately the acquire that did not get the lock.
    assert_eq!(calls(&world).await - before, 2);
    let inspected = store.ask(Inspect::of(&key(0))).await.expect("an answer");
    let inspected = inspected.expect("a lock that is held");
    assert_eq!(inspected.holders, [seen(next, 1)]);
    assert!(inspected.remaining.is_some_and(|it| near(it, MINUTE)));
}

async fn a_token_grows_in_a_batch_although_the_clock_was_set_back(world: World) {
    let (holder, next) = (some_hold(), some_hold());
    world.take(holder, MINUTE).await;
    wait(&world.store, &world.key, next).await;
    let ahead = 9_000_000_000_000_000;
    let mut connection = world.server().connection.clone();
    let mut set = redis::cmd("HSET");
    set.arg(world.key.as_str()).arg("mode").arg("9000000000 0");
    set.exec_async(&mut connection).await.expect("an answer");
    let released = release(&world.store, &world.key, holder).await;
    assert_eq!(released, Presence::Present);
    let moved = world.inspect().await.expect("a lock that has moved");
    assert_eq!(moved.holders, [seen(next, 1)]);
    assert!(moved.token > Some(FencingToken(ahead)), "{:?}", moved.token);
}

async fn wait(store: &Store, key: &LockKey, hold: HoldId) {
    let (key, entry) = (key.clone(), Some(entry_of(InboxId::new())));
    let request = AcquireRequest {
        entry,
        ..acquire_request(hold, MINUTE)
    };
    let reply = store.ask(Acquire { key, request }).await;
    assert!(matches!(reply, Ok(AcquireReply::Busy { .. })), "{reply:?}");
}

async fn leave(store: &Store, key: &LockKey, hold: HoldId) -> Presence {
    let left = store.release(key, shared_release(hold, ReleaseKind::Short));
    left.await.expect("an answer")
}

async fn leave_together(world: &World, holds: &[HoldId]) -> Vec<Presence> {
    let left = holds
        .iter()
        .map(|hold| leave(&world.store, &world.key, *hold));
    join_all(left).await
}

async fn the_last_readers_of_a_lock_leave_by_one_call(world: World) {
    // The scripts are known afterwards.
    acquire(&world.store, &key(99), some_hold()).await;
    assert_eq!(world.inspect().await, None);
    for (readers, expected) in [(2, 1), (16, 1), (40, 2)] {
        let holds: Vec<_> = (0..readers).map(|_| some_hold()).collect();
        for (at, hold) in (1..).zip(&holds) {
            world.read(&[*hold], at * MINUTE).await;
        }
        let before = calls(&world).await;
        let left = leave_together(&world, &holds).await;
        assert_eq!(left, vec![Presence::Present; readers]);
        // 32 and 8.
        assert_eq!(calls(&world).await - before, expected);
        assert_eq!(world.inspect().await, None);
        // If readers remain in the line, no lock is taken in a batch.
        assert!(is_held(&acquire(&world.store, &world.key, holds[0]).await));
        release(&world.store, &world.key, holds[0]).await;
        assert_eq!(calls(&world).await - before, expected + 3);
    }
}

async fn the_lock_lasts_as_long_as_the_readers_that_a_batch_leaves_in_it(world: World) {
    let readers: Vec<_> = [9, 2, 7, 5, 8, 1]
        .into_iter()
        .map(|minutes| (some_hold(), minutes * MINUTE))
        .collect();
    for (hold, lease) in &readers {
        world.read(&[*hold], *lease).await;
    }
    acquire(&world.store, &key(99), some_hold()).await;
    let (stays, leaves): (Vec<_>, Vec<_>) = readers
        .into_iter()
        .partition(|(_, lease)| [2 * MINUTE, 5 * MINUTE].contains(lease));
    let [stays, leaves] = [stays, leaves].map(|it| it.into_iter().map(|(hold, _)| hold));
    let (stays, leaves): (Vec<_>, Vec<_>) = (stays.collect(), leaves.collect());
    let steps = ["evalsha", "hdel", "zrem"];
    let before = commands(&world, &steps).await;
    let left = leave_together(&world, &leaves).await;
    assert_eq!(left, [Presence::Present; 4]);
    // They leave in one step.
    assert_eq!(commands(&world, &steps).await - before, 3);
    assert!(world.is_read_by(&stays).await);
    let remaining = world.remaining().await;
    assert!(near(remaining, 5 * MINUTE), "{remaining:?}");
}

async fn each_reader_of_a_batch_has_its_own_outcome(world: World) {
    let store = &world.store;
    let [read, odd, held, free] = [0, 1, 2, 3].map(key);
    let [one, two, waiter, stays, leaves, holder] = [(); 6].map(|()| some_hold());
    // The scripts are known afterwards.
    world.release_shared(some_hold(), InboxId::new()).await;
    assert!(is_held(&acquire(store, &held, holder).await));
    world.read(&[one, two], MINUTE).await;
    wait(store, &world.key, waiter).await;
    let share = |key: &LockKey, holds: &[HoldId]| AcquireShared {
        key: key.clone(),
        request: share_request(holds, MINUTE, None),
    };
    world.send(share(&read, &[stays, leaves])).await;
    // Its reader is still in the line, so that the script reads the lock.
    world.send(share(&odd, &[holder])).await;
    world.server().set(odd.as_str(), "a text").await;
    let before = calls(&world).await;

    let fails = store.release(&odd, shared_release(holder, ReleaseKind::Short));
    let readers = [
        (&world.key, one),
        (&read, leaves),
        (&read, some_hold()),
        (&world.key, two),
    ];
    let readers = readers.map(|(key, hold)| leave(store, key, hold));
    let (acquired, failed, left, released) = join4(
        acquire(store, &free, some_hold()),
        fails,
        join_all(readers),
        release(store, &held, holder),
    )
    .await;
    let [present, gone] = [Presence::Present, Presence::Gone];
    assert_eq!(left, [present, present, gone, present]);
    assert!(is_held(&acquired), "{acquired:?}");
    assert!(failed.is_err(), "{failed:?}");
    assert_eq!(released, present);
    // These are the batch, and separately the reader of odd data, the one that is gone, and the first of the two behind
    // which a process waits. The second one has moved the lock.
    assert_eq!(calls(&world).await - before, 1 + 3);
    let inspected = world.inspect().await.expect("a lock that has moved on");
    assert_eq!(inspected.holders, [seen(waiter, 1)]);
    let inspected = store.ask(Inspect::of(&read)).await.expect("an answer");
    let inside = inspected.expect("a lock that is shared").holders;
    let inside: Vec<_> = inside.into_iter().map(|it| it.field).collect();
    assert_eq!(inside, [field_of(stays)]);
}

async fn a_caller_that_leaves_before_the_batch_is_sent_makes_no_request(world: World) {
    let (store, left, taken) = (&world.store, key(0), key(1));
    let mut leaving = Box::pin(acquire(store, &left, some_hold()));
    assert!(leaving.as_mut().now_or_never().is_none());
    drop(leaving);
    assert!(is_held(&acquire(store, &taken, some_hold()).await));
    let lock = store.ask(Inspect::of(&left)).await.expect("an answer");
    assert_eq!(lock, None);
}

async fn a_caller_that_leaves_later_takes_its_answer_from_no_other(world: World) {
    let store = &world.store;
    let [left, others @ ..] = [0, 1, 2, 3].map(key);
    let mut leaving = Box::pin(acquire(store, &left, some_hold()));
    assert!(leaving.as_mut().now_or_never().is_none());
    let others = others.iter().map(|key| acquire(store, key, some_hold()));
    let others = join_all(others);
    // The batch is in flight.
    tokio::task::yield_now().await;
    drop(leaving);
    assert!(others.await.iter().all(is_held));
}

//! Short requests that travel together: how many calls they make, and that each has its own outcome.

use futures_util::FutureExt;
use futures_util::future::{join_all, join3};

use super::server::Server;
use super::world::{
    MINUTE, UNANSWERED, World, acquire_request, entry_of, holder as seen, near, release_request,
    some_hold,
};
use crate::base::id::{HoldId, InboxId};
use crate::base::key::LockKey;
use crate::store::{
    Acquire, AcquireReply, AcquireRequest, End, Inspect, Presence, QueueEntry, ReleaseReply, Store,
};
use crate::support::{DEADLINE, within};

fn key(number: usize) -> LockKey {
    LockKey::new("app:", &format!("order:{number}")).expect("a valid key")
}

/// A store whose short requests travel in batches.
async fn world() -> World {
    World::on(Server::start().await.with_batches()).await
}

async fn acquire(store: &Store, key: &LockKey, hold: HoldId) -> AcquireReply {
    let (key, request) = (key.clone(), acquire_request(hold, MINUTE));
    store
        .ask(Acquire { key, request })
        .await
        .expect("an answer")
}

async fn release(store: &Store, key: &LockKey, hold: HoldId) -> ReleaseReply {
    let released = store.release(key, release_request(hold, End::Short));
    released.await.expect("an answer")
}

/// How many calls of scripts the server has executed.
async fn calls(world: &World) -> u64 {
    let stats = world.server().process().commandstats().await;
    ["evalsha", "eval"]
        .iter()
        .filter_map(|name| stats.get(*name))
        .sum()
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

#[tokio::test]
async fn requests_that_are_made_at_once_are_one_call() {
    let case = async {
        let world = world().await;
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
        assert!(released.iter().all(|it| it.presence == Presence::Present));
        // 32 and 8.
        assert_eq!((taken - before, calls(&world).await - taken), (2, 2));
    };
    within(DEADLINE, "the case", case).await;
}

/// A lock that may be requested in a batch, and how it ends.
#[tokio::test]
async fn each_request_of_a_batch_has_its_own_outcome() {
    let case = async {
        let world = world().await;
        let store = &world.store;
        let [held, waited, odd, buried, free] = [0, 1, 2, 3, 4].map(key);
        let (holder, waiter, wanted) = (some_hold(), some_hold(), some_hold());
        assert!(is_held(&acquire(store, &held, holder).await));
        // The lock moves to the process that waits.
        assert!(is_held(&acquire(store, &waited, holder).await));
        wait(store, &waited, waiter).await;
        world.server().set(odd.as_str(), "a text").await;
        let bury = release_request(wanted, End::Full(UNANSWERED));
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
        assert_eq!(released.presence, Presence::Present);
        assert_eq!(gone.presence, Presence::Gone);
        // The batch, and each request alone that has changed nothing in it.
        assert_eq!(calls(&world).await - before, 1 + 5);
        let inspected = store.ask(Inspect::of(&waited)).await.expect("an answer");
        let inspected = inspected.expect("a lock that is held");
        assert_eq!(inspected.holders, [seen(waiter, 1)]);
    };
    within(DEADLINE, "the case", case).await;
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

#[tokio::test]
async fn locks_of_different_terms_are_taken_by_different_calls() {
    let case = async {
        let world = world().await;
        let store = &world.store;
        let inbox = InboxId::new();
        let told = Some(QueueEntry {
            tells: true,
            ..entry_of(inbox)
        });
        let terms = [
            (MINUTE, None),
            (2 * MINUTE, None),
            (MINUTE, told),
            (MINUTE, None),
        ];
        acquire(store, &key(99), some_hold()).await;
        let before = calls(&world).await;
        let acquired = terms.iter().enumerate().map(|(number, &(ttl, entry))| {
            let request = AcquireRequest {
                hold: some_hold(),
                ttl,
                entry,
            };
            let key = key(number);
            store.ask(Acquire { key, request })
        });
        let acquired = join_all(acquired).await;
        assert!(acquired.iter().flatten().all(is_held), "{acquired:?}");
        assert_eq!(calls(&world).await - before, 3);
        for (number, (ttl, entry)) in terms.into_iter().enumerate() {
            let lock = store
                .ask(Inspect::of(&key(number)))
                .await
                .expect("an answer");
            let remaining = lock.and_then(|lock| lock.remaining).expect("a lease");
            assert!(near(remaining, ttl), "{remaining:?}");
            let token = world.server().field(key(number).as_str(), "token").await;
            let id = str::from_utf8(inbox.id()).expect("a text");
            assert_eq!(token.ends_with(id), entry.is_some(), "{token}");
        }
    };
    within(DEADLINE, "the case", case).await;
}

#[tokio::test]
async fn a_caller_that_leaves_before_the_batch_is_sent_makes_no_request() {
    let case = async {
        let world = world().await;
        let (store, left, taken) = (&world.store, key(0), key(1));
        let mut leaving = Box::pin(acquire(store, &left, some_hold()));
        assert!(leaving.as_mut().now_or_never().is_none());
        drop(leaving);
        assert!(is_held(&acquire(store, &taken, some_hold()).await));
        let lock = store.ask(Inspect::of(&left)).await.expect("an answer");
        assert_eq!(lock, None);
    };
    within(DEADLINE, "the case", case).await;
}

#[tokio::test]
async fn a_caller_that_leaves_later_takes_its_answer_from_no_other() {
    let case = async {
        let world = world().await;
        let store = &world.store;
        let [left, others @ ..] = [0, 1, 2, 3].map(key);
        let mut leaving = Box::pin(acquire(store, &left, some_hold()));
        assert!(leaving.as_mut().now_or_never().is_none());
        let others = others.iter().map(|key| acquire(store, key, some_hold()));
        let others = join_all(others);
        // The batch is on its way.
        tokio::task::yield_now().await;
        drop(leaving);
        assert!(others.await.iter().all(is_held));
    };
    within(DEADLINE, "the case", case).await;
}

#[tokio::test]
async fn no_batch_names_two_slots_of_a_cluster() {
    let case = async {
        let world = World::on(Server::start_cluster().await.with_batches()).await;
        let locks: Vec<_> = (0..16).map(|number| (key(number), some_hold())).collect();
        let acquired = locks
            .iter()
            .map(|(key, hold)| acquire(&world.store, key, *hold));
        assert!(join_all(acquired).await.iter().all(is_held));
        let released = locks
            .iter()
            .map(|(key, hold)| release(&world.store, key, *hold));
        let released = join_all(released).await;
        assert!(released.iter().all(|it| it.presence == Presence::Present));
    };
    within(DEADLINE, "the case", case).await;
}

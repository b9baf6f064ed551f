//! Readers, writers and the line: the order of their turns.

use super::super::world::{GRANT, MINUTE, World, entry_of, near, some_hold, some_waiter};
use super::TTL;
use crate::base::id::InboxId;
use crate::store::{Presence, QueueEntry};

on_every_store!(
    the_last_reader_moves_the_lock_on,
    a_reader_behind_a_writer_waits,
    readers_behind_a_writer_enter_together,
    a_process_is_told_once_of_all_its_readers,
    a_writer_that_leaves_lets_the_readers_behind_it_in,
    a_writer_that_died_lets_the_readers_behind_it_in,
    a_reader_that_never_claims_is_removed_after_its_grant,
    a_reader_leaves_its_place_to_the_others_of_its_process,
    tokens_grow_across_readers,
);

async fn the_last_reader_moves_the_lock_on(world: World) {
    let [one, two] = [some_hold(), some_hold()];
    let (writer, entry) = some_waiter();
    world.read(&[one, two], TTL).await;
    world.wait(writer, TTL, entry).await;
    world.release_shared(one, InboxId::new()).await;
    assert!(world.is_read_by(&[two]).await);
    world.release_shared(two, InboxId::new()).await;
    assert!(world.is_held(writer, GRANT).await);
}

async fn a_reader_behind_a_writer_waits(world: World) {
    let (writer, entry) = some_waiter();
    let (late, place) = some_waiter();
    let reader = some_hold();
    world.read(&[reader], TTL).await;
    world.wait(writer, TTL, entry).await;
    world.read_later(&[late], place).await;
    assert!(world.is_read_by(&[reader]).await);
    // It repeats its request again and again.
    world.read_later(&[late], place).await;
    world.release_shared(reader, InboxId::new()).await;
    assert!(world.is_held(writer, GRANT).await);
    world.leave(writer, entry.inbox).await;
    assert!(world.is_read_by(&[late]).await);
}

async fn readers_behind_a_writer_enter_together(world: World) {
    let writer = some_hold();
    let [first, second] = [some_waiter(), some_waiter()];
    let (next, entry) = some_waiter();
    let (last, place) = some_waiter();
    world.take(writer, TTL).await;
    world.read_later(&[first.0], first.1).await;
    world.read_later(&[second.0], second.1).await;
    world.wait(next, TTL, entry).await;
    world.read_later(&[last], place).await;
    world.release(writer).await;
    assert!(world.is_read_by(&[first.0, second.0]).await);
    assert_eq!(world.waiting().await, 2);
}

async fn a_process_is_told_once_of_all_its_readers(world: World) {
    let writer = some_hold();
    let holds = [some_hold(), some_hold(), some_hold()];
    let mut inbox = world.inbox().await;
    world.take(writer, TTL).await;
    world.read_later(&holds, entry_of(inbox.id)).await;
    world.release(writer).await;
    let told = world.received(&mut inbox).await;
    assert_eq!(told.len(), 1);
    assert_eq!((&told[0].holds[..], told[0].lease), (&holds[..], GRANT));
    assert_eq!(told[0].token, world.seen().await.token.expect("a token"));
    // They are inside, and repeat their request because no message arrived.
    world.read(&holds, TTL).await;
    assert!(
        world
            .readers()
            .await
            .iter()
            .all(|(_, left)| near(*left, TTL))
    );
    assert!(world.received(&mut inbox).await.is_empty());
}

async fn a_writer_that_leaves_lets_the_readers_behind_it_in(world: World) {
    let reader = some_hold();
    let (writer, entry) = some_waiter();
    let (late, mut inbox) = (some_hold(), world.inbox().await);
    world.read(&[reader], TTL).await;
    world.wait(writer, TTL, entry).await;
    world.read_later(&[late], entry_of(inbox.id)).await;
    assert_eq!(world.leave(writer, entry.inbox).await, Presence::Gone);
    assert!(world.is_read_by(&[reader, late]).await);
    assert_eq!(world.received(&mut inbox).await[0].holds[..], [late]);
}

async fn a_writer_that_died_lets_the_readers_behind_it_in(world: World) {
    let reader = some_hold();
    let (writer, entry) = some_waiter();
    let life = 3 * MINUTE;
    let (late, place) = some_waiter();
    world.read(&[reader], TTL).await;
    world.wait(writer, TTL, QueueEntry { life, ..entry }).await;
    world.read_later(&[late], place).await;
    world.pass(4 * MINUTE).await;
    world.keep(&[reader], TTL).await;
    assert!(world.is_read_by(&[reader, late]).await);
}

async fn a_reader_that_never_claims_is_removed_after_its_grant(world: World) {
    let [writer, other] = [some_hold(), some_hold()];
    let (reader, entry) = some_waiter();
    world.take(writer, TTL).await;
    world.read_later(&[reader], entry).await;
    world.release(writer).await;
    world.read(&[other], TTL).await;
    assert!(world.is_read_by(&[reader, other]).await);
    world.pass(GRANT + MINUTE).await;
    world.keep(&[other], TTL).await;
    assert!(world.is_read_by(&[other]).await);
}

async fn a_reader_leaves_its_place_to_the_others_of_its_process(world: World) {
    let writer = some_hold();
    let [one, two] = [some_hold(), some_hold()];
    let (_, entry) = some_waiter();
    world.take(writer, TTL).await;
    world.read_later(&[one, two], entry).await;
    assert_eq!(world.release_shared(one, entry.inbox).await, Presence::Gone);
    assert_eq!(world.waiting().await, 1);
    world.release(writer).await;
    assert!(world.is_read_by(&[two]).await);
    world.release_shared(two, entry.inbox).await;
    assert_eq!(world.inspect().await, None);
}

async fn tokens_grow_across_readers(world: World) {
    let mut last = world.take(some_hold(), MINUTE).await;
    world.force_release(world.seen().await).await;
    for round in 0..4 {
        let hold = some_hold();
        let token = world.read(&[hold], TTL).await;
        assert!(token > last, "{round}");
        let (writer, entry) = some_waiter();
        world.wait(writer, TTL, entry).await;
        world.release_shared(hold, InboxId::new()).await;
        let moved = world.seen().await.token.expect("a token");
        assert!(moved > token, "{round}");
        world.leave(writer, entry.inbox).await;
        last = moved;
    }
}

//! On Redis: values of another type, scripts that fail halfway, and a server without memory.

use redis::{FromRedisValue, cmd};

use super::readers::{share_request, shared_release};
use super::requests::{BESIDE, Cast};
use super::world::{
    GRANT, MINUTE, NESTED, World, acquire_request, near, release_request, some_hold, some_waiter,
};
use crate::base::error::FailureClass;
use crate::base::id::HoldId;
use crate::base::options::Mode;
use crate::store::{
    Acquire, AcquireReply, AcquireShared, DepthChange, Presence, ReleaseKind, Residue,
};
use crate::support::{DEADLINE, within};

mod moves;
mod rights;
mod several;

#[tokio::test]
async fn no_request_goes_over_a_connection_that_was_lost() {
    let world = World::on_redis().await;
    world.take(some_hold(), MINUTE).await;
    let mut disconnects = world.store.generations();
    // Besides the connection of the store there may be one that has not ended yet, from the wait for the server.
    assert!(ask::<i64>(&world, "CLIENT KILL TYPE normal").await >= 1);
    let noticed = within(DEADLINE, "the loss is noticed", disconnects.changed());
    noticed.await.expect("a store");
    let request = acquire_request(some_hold(), MINUTE);
    let key = world.key.clone();
    let acquired = world.store.ask(Acquire { key, request }).await;
    assert!(
        matches!(acquired, Ok(AcquireReply::Busy { .. })),
        "{acquired:?}"
    );
}

/// One command of the test itself.
async fn ask<T: FromRedisValue>(world: &World, command: &str) -> T {
    let mut words = command.split(' ');
    let mut connection = world.server().connection.clone();
    let mut command = cmd(words.next().expect("a command"));
    let answer = command.arg(words.collect::<Vec<_>>());
    answer
        .query_async(&mut connection)
        .await
        .expect("an answer")
}

fn change(hold: HoldId) -> DepthChange {
    DepthChange {
        hold,
        mode: Mode::Exclusive,
        target: 2,
        seq: 1,
        ttl: 5 * MINUTE,
        lengthen: true,
    }
}

#[tokio::test]
async fn a_foreign_type_at_the_lock_is_an_error_and_stays_as_it_is() {
    let world = World::on_redis().await;
    let cast = Cast::form(&world, "free").await;
    let () = ask(&world, "SET app:order precious").await;
    for request in cast.requests(&world) {
        let class = request.answer.await.map_err(|error| error.failure_class());
        let is_rejected = matches!(class, Err(class) if class.is_rejected());
        let is_right = is_rejected || BESIDE.contains(&request.name);
        assert!(is_right, "{}: {class:?}", request.name);
        assert_eq!(ask::<String>(&world, "GET app:order").await, "precious");
        assert_eq!(ask::<i64>(&world, "PTTL app:order").await, -1);
    }
}

#[tokio::test]
async fn a_full_server_takes_no_lock_and_still_keeps_and_frees_one() {
    let world = World::on_redis().await;
    let (hold, late) = (some_hold(), some_hold());
    world.take(hold, MINUTE).await;
    let () = ask(&world, "CONFIG SET maxmemory 1").await;
    assert_eq!(world.renew(hold, 3 * MINUTE).await, Presence::Present);
    assert!(near(world.remaining().await, 3 * MINUTE));
    assert_eq!(world.depth(hold, 2, 1).await, Presence::Present);
    assert_eq!(world.depth(hold, 3, 1).await, Presence::Present);
    assert_eq!(world.holders().await, [(hold.to_string(), 2)]);
    assert!(world.server().immortal().await.is_empty());
    assert_eq!(world.bury(hold).await, Presence::Present);
    assert_eq!(world.bury(late).await, Presence::Gone);
    let request = acquire_request(some_hold(), MINUTE);
    let key = world.key.clone();
    let full = world.store.ask(Acquire { key, request }).await;
    let class = full.map_err(|error| error.failure_class());
    assert_eq!(class, Err(FailureClass::NotExecuted));

    let () = ask(&world, "CONFIG SET maxmemory 0").await;
    assert_eq!(world.inspect().await, None);
    for ended in [hold, late] {
        assert_eq!(world.acquire(ended, MINUTE).await, AcquireReply::Ended);
    }
}

#[tokio::test]
async fn a_full_server_lets_no_reader_in_and_still_keeps_and_frees_those_inside() {
    let world = World::on_redis().await;
    let holds = [some_hold(), some_hold()];
    let (writer, entry) = some_waiter();
    world.read(&holds, 3 * MINUTE).await;
    world.wait(writer, MINUTE, entry).await;
    let () = ask(&world, "CONFIG SET maxmemory 1").await;
    let request = share_request(&[some_hold()], MINUTE, None);
    let key = world.key.clone();
    let full = world.store.ask(AcquireShared { key, request }).await;
    assert!(full.is_ok_and(|replies| matches!(replies[..], [AcquireReply::Busy { .. }])));
    assert_eq!(world.keep(&holds, 9 * MINUTE).await, []);
    assert!(near(world.remaining().await, 9 * MINUTE));
    let (unanswered, nested) = (true, true);
    let end = ReleaseKind::Full(Residue { unanswered, nested });
    let buried = |hold| shared_release(hold, end);
    let late = some_hold();
    assert_eq!(world.end(buried(late)).await, Presence::Gone);
    for hold in holds {
        assert_eq!(world.end(buried(hold)).await, Presence::Present);
    }
    assert!(world.is_held(writer, GRANT).await);
    let () = ask(&world, "CONFIG SET maxmemory 0").await;
    world.leave(writer, entry.inbox).await;
    for hold in [holds[0], holds[1], late] {
        let request = share_request(&[hold], MINUTE, None);
        let key = world.key.clone();
        let replies = world.store.ask(AcquireShared { key, request }).await;
        assert_eq!(replies.ok(), Some(vec![AcquireReply::Ended]));
    }
}

#[tokio::test]
async fn a_server_that_forgot_the_scripts_is_told_them_again() {
    let world = World::on_redis().await;
    let hold = some_hold();
    for _ in 0..2 {
        let () = ask(&world, "SCRIPT FLUSH").await;
        world.take(hold, MINUTE).await;
        let () = ask(&world, "SCRIPT FLUSH").await;
        assert_eq!(world.change(change(hold)).await, Presence::Present);
        let () = ask(&world, "SCRIPT FLUSH").await;
        assert_eq!(world.renew(hold, MINUTE).await, Presence::Present);
        let () = ask(&world, "SCRIPT FLUSH").await;
        assert_eq!(world.holders().await, [(hold.to_string(), 2)]);
        let () = ask(&world, "SCRIPT FLUSH").await;
        let request = release_request(hold, ReleaseKind::Full(NESTED));
        assert_eq!(world.end(request).await, Presence::Present);
    }
}

//! The cost of spawned work for the server, and when the lock that it keeps passes to the next waiter.

use crate::support::rig::KEY;
use crate::support::{
    DEADLINE, RedisServer, Turns, connect, depths, processes, unhurried, waiters, within,
};
use reentry::__admin::Ids as _;
use reentry::{FutureExt, Locks, held};
use tokio::sync::oneshot;
use tokio::task::{JoinSet, yield_now};

/// After this, every script is loaded.
async fn warmed_up(locks: &Locks) {
    let nested = async { locks.with_lock(KEY, async {}).await };
    locks.with_lock(KEY, nested).await.unwrap().unwrap();
}

#[tokio::test]
async fn spawned_work_costs_no_request() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    warmed_up(&locks).await;
    let before = server.commandstats().await;
    let mut tasks = JoinSet::new();
    let body = async {
        for _ in 0..10 {
            tasks.spawn(yield_now().in_current_call());
        }
        reentry::spawn_blocking(|| {}).await.unwrap().unwrap();
        while tasks.join_next().await.is_some() {}
    };
    locks.with_lock(KEY, body).await.unwrap();
    assert_eq!(server.count_since(&before, "evalsha").await, 2);

    // The last child releases. Its entry, together with the members, changes nothing.
    let before = server.commandstats().await;
    let (go_on, may_go_on) = oneshot::channel::<()>();
    let nested = locks.clone();
    let body = async {
        let child = async move {
            may_go_on.await.unwrap();
            nested.with_lock(KEY, yield_now()).await.unwrap();
        };
        tasks.spawn(child.in_current_call());
    };
    locks.with_lock(KEY, body).await.unwrap();
    assert_eq!(server.count_since(&before, "evalsha").await, 1);
    go_on.send(()).unwrap();
    tasks.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(server.count_since(&before, "evalsha").await, 2);
    assert_eq!(server.ask(&format!("EXISTS {KEY}")).await, "0");
}

/// A waiter of the same process joins, the parent leaves, and then its last member.
#[tokio::test]
async fn the_last_spawned_work_hands_the_lock_off() {
    let server = RedisServer::start().await;
    let [locks] = processes(&unhurried(&server)).await;
    warmed_up(&locks).await;
    let mut turns = Turns::default();
    let (go_on, may_go_on) = oneshot::channel::<()>();
    let body = async {
        let child = reentry::spawn(async move { may_go_on.await.unwrap() });
        turns.come(&locks, "next").await;
        (child, held(KEY).unwrap())
    };
    let (child, first) = locks.with_lock(KEY, body).await.unwrap();
    assert_eq!(waiters(&locks, KEY).await, Some(1));
    assert_eq!(depths(&locks, KEY).await, [1]);
    assert!(turns.so_far().is_empty() && first.depth() == 1);
    let before = server.commandstats().await;
    go_on.send(()).unwrap();
    let ended = within(DEADLINE, "the child ends", child).await;
    ended.unwrap().unwrap();
    let seen = turns.all().await;
    assert_eq!(seen.len(), 1);
    assert!(seen[0].token > first.fencing_token());
    assert_eq!(seen[0].hold, first.hold_id());
    // The one request is the release of the next turn.
    assert_eq!(server.count_since(&before, "evalsha").await, 1);
}

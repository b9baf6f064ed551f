//! P9 while the connection that carries the messages dies again and again, or does not come back: the
//! waiters ask meanwhile, and their heartbeat, which is longer than a test, delays none of them.

use std::time::Duration;

use crate::support::rig::KEY;
use crate::support::{
    Action, Cut, DEADLINE, Direction::ToServer, Proxy, RedisServer, Turns, eventually,
    patient_over_pool, processes, queued, until_queued, waiters,
};
use reentry::{Locks, LocksBuilder};

const HEARTBEAT: Duration = Duration::from_secs(60);

/// A process in strict order, so that each of its waiters has the lock by a message, or by asking.
fn process(server: &RedisServer) -> LocksBuilder {
    let builder = patient_over_pool(server)
        .ttl(10 * HEARTBEAT)
        .heartbeat(HEARTBEAT);
    builder.local_handoffs(0).wait_forever()
}

/// So many waiters in each of the two.
async fn crowd(server: &RedisServer, [one, other]: &[Locks; 2], each: usize) -> Turns {
    let mut turns = Turns::default();
    for number in 0..each {
        for locks in [one, other] {
            turns.request(locks.lock(KEY), &number.to_string());
        }
    }
    for locks in [one, other] {
        let wait = async || waiters(locks, KEY).await == Some(each);
        eventually(DEADLINE, "all of them wait", wait).await;
    }
    until_queued(server, 2).await;
    turns
}

async fn until_subscribed(server: &RedisServer, count: usize) {
    let open = async || server.subscriptions().await.len() == count;
    eventually(DEADLINE, &format!("{count} inboxes are open"), open).await;
}

/// Refuses subscriptions from now on, and ends those that there are.
async fn silence(server: &RedisServer) {
    server.ask("ACL SETUSER default -subscribe").await;
    server.kill_inboxes().await;
}

/// Their drivers are in the pause of a heartbeat when the inboxes die.
#[tokio::test]
async fn waiters_get_in_though_their_inboxes_die_and_do_not_come_back() {
    let server = RedisServer::start().await;
    let crowded = processes::<2>(&process(&server)).await;
    let [holder] = processes(&process(&server)).await;
    let guard = holder.lock(KEY).await.unwrap();
    let mut turns = crowd(&server, &crowded, 3).await;
    until_subscribed(&server, 2).await;
    silence(&server).await;
    guard.release().await.unwrap();
    assert_eq!(turns.all().await.len(), 6);
    assert!(server.subscriptions().await.is_empty());
}

#[tokio::test]
async fn waiters_get_in_though_every_subscription_is_cut_before_it_is_confirmed() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port());
    proxy.on_every(ToServer, b"SUBSCRIBE", Action::CutAtAnswer(Cut::Reset));
    let crowded = processes::<2>(&process(&server).url(proxy.url())).await;
    let [holder] = processes(&process(&server)).await;
    let guard = holder.lock(KEY).await.unwrap();
    let mut turns = crowd(&server, &crowded, 3).await;
    proxy.wait_for_hits(2).await;
    guard.release().await.unwrap();
    assert_eq!(turns.all().await.len(), 6);
}

/// The lock moves while the inbox is dead: the waiter asks when the inbox is back, and is told of
/// the next one.
#[tokio::test]
async fn waiters_are_told_again_when_the_inbox_is_back() {
    let server = RedisServer::start().await;
    let [one, other] = processes(&process(&server)).await;
    let mut turns = Turns::default();
    let guard = other.lock(KEY).await.unwrap();
    turns.request(one.lock(KEY), "by asking");
    until_queued(&server, 1).await;
    until_subscribed(&server, 1).await;
    silence(&server).await;
    guard.release().await.unwrap();
    assert_eq!(turns.names().await, ["by asking"]);

    server.ask("ACL SETUSER default +subscribe").await;
    let guard = other.lock(KEY).await.unwrap();
    turns.request(one.lock(KEY), "by a message");
    until_subscribed(&server, 1).await;
    until_queued(&server, 1).await;
    let before = server.commandstats().await;
    guard.release().await.unwrap();
    assert_eq!(turns.all().await.len(), 2);
    let calls = server.calls_since(&before).await;
    assert_eq!(calls.get("publish"), Some(&1), "{calls:?}");
}

/// As fast as they can be killed, over a hundred turns.
#[tokio::test]
async fn turns_go_on_while_every_inbox_is_killed_as_soon_as_it_stands() {
    let server = RedisServer::start().await;
    let crowded = processes::<2>(&process(&server)).await;
    let [holder] = processes(&process(&server)).await;
    let guard = holder.lock(KEY).await.unwrap();
    let mut turns = crowd(&server, &crowded, 50).await;
    let mut killed = 0;
    let kills = async {
        loop {
            killed += server.kill_inboxes().await;
            tokio::task::yield_now().await;
        }
    };
    let all = async {
        guard.release().await.unwrap();
        turns.all().await.len()
    };
    let count = tokio::select! {
        count = all => count,
        () = kills => unreachable!("they do not end"),
    };
    assert_eq!(count, 100);
    assert!(killed >= 2, "{killed}");
    assert_eq!(queued(&server).await, 0);
}

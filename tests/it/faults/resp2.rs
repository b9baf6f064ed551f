//! P9 and the renewals in RESP2, when a connection is cut: that for commands, those for messages, or all of them.

use std::time::Duration;

use crate::support::rig::KEY;
use crate::support::{
    DEADLINE, RedisServer, Turns, eventually, patient_at, processes, queued, servers_in_resp2,
    until_queued, within,
};
use reentry::{LockGuard, Locks, LocksBuilder};
use tokio::join;

/// A time that is longer than a test, so that it lets no waiter in.
const HEARTBEAT: Duration = Duration::from_secs(60);

fn unhurried_at(url: &str) -> LocksBuilder {
    let builder = patient_at(url).ttl(10 * HEARTBEAT).__heartbeat(HEARTBEAT);
    builder.turns(0).wait(Duration::MAX)
}

async fn until_subscribed(server: &RedisServer, count: usize) {
    let open = async || server.subscriptions().await.len() == count;
    eventually(DEADLINE, "the inboxes are open", open).await;
}

/// A holder, and a waiter in another process that has an inbox.
async fn held_and_wanted(server: &RedisServer, url: &str) -> (LockGuard, Turns, [Locks; 2]) {
    let [holder, waiter] = processes(&unhurried_at(url)).await;
    let guard = holder.lock(KEY).await.unwrap();
    let mut turns = Turns::default();
    turns.request(waiter.lock(KEY), "waiter");
    until_queued(server, 1).await;
    until_subscribed(server, 2).await;
    (guard, turns, [holder, waiter])
}

#[tokio::test]
async fn a_connection_for_commands_that_is_cut_is_replaced() {
    for (server, url) in servers_in_resp2().await {
        let locks = patient_at(&*url).build().await.unwrap();
        let nested = async {
            server.kill_other_connections().await;
            locks.with_lock(KEY, async { 6 * 7 }).await
        };
        let output = within(DEADLINE, "the body", locks.with_lock(KEY, nested)).await;
        assert_eq!(output.unwrap().unwrap(), 42);
        server.kill_other_connections().await;
        let guard = within(
            DEADLINE,
            "a lock",
            locks.lock(KEY).wait(Duration::MAX).acquire(),
        );
        guard.await.unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn an_inbox_that_is_cut_is_made_anew_and_brings_messages() {
    for (server, url) in servers_in_resp2().await {
        let (guard, mut turns, _locks) = held_and_wanted(&server, &url).await;
        let subscribed = async || server.commandstats().await.get("subscribe").copied();
        let before = subscribed().await;
        server.kill_message_connections().await;
        let anew = async || subscribed().await >= before.map(|count| count + 2);
        eventually(DEADLINE, "two subscriptions are made anew", anew).await;
        until_subscribed(&server, 2).await;
        guard.release().await.unwrap();
        assert_eq!(turns.names().await, ["waiter"]);
        assert_eq!(queued(&server).await, 0);
    }
}

/// The message that the lock has moved finds no subscription. The waiter sends a request when its inbox is open again.
#[tokio::test]
async fn no_wake_is_lost_while_an_inbox_is_away() {
    for (server, url) in servers_in_resp2().await {
        let (guard, mut turns, _locks) = held_and_wanted(&server, &url).await;
        server.ask("ACL SETUSER default -subscribe").await;
        server.kill_message_connections().await;
        guard.release().await.unwrap();
        server.ask("ACL SETUSER default +subscribe").await;
        assert_eq!(turns.names().await, ["waiter"]);
    }
}

#[tokio::test]
async fn turns_go_on_while_all_connections_are_cut_again_and_again() {
    for (server, url) in servers_in_resp2().await {
        let crowded = processes::<2>(&unhurried_at(&url)).await;
        let mut turns = Turns::default();
        for number in 0..25 {
            for locks in &crowded {
                turns.request(locks.lock(KEY), &number.to_string());
            }
        }
        let cuts = async {
            for _ in 0..20 {
                server.kill_message_connections().await;
                server.kill_other_connections().await;
            }
        };
        let (count, ()) = join!(async { turns.all().await.len() }, cuts);
        assert_eq!(count, 50);
    }
}

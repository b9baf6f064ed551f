//! P9, when a connection is cut: that for commands, those for messages, or all of them.

use std::time::Duration;

use crate::support::rig::KEY;
use crate::support::{
    DEADLINE, RedisServer, Turns, eventually, held_and_wanted, only_by_events, patient, processes,
    within,
};
use tokio::join;

#[tokio::test]
async fn a_connection_for_commands_that_is_cut_is_replaced() {
    let server = RedisServer::start().await;
    let locks = patient(&server).build().await.unwrap();
    let nested = async {
        server.kill_command_connections().await;
        locks.with_lock(KEY, async { 6 * 7 }).await
    };
    let output = within(DEADLINE, "the body", locks.with_lock(KEY, nested)).await;
    assert_eq!(output.unwrap().unwrap(), 42);
    server.kill_command_connections().await;
    let guard = locks.lock(KEY).wait(Duration::MAX).acquire();
    let guard = within(DEADLINE, "a lock", guard).await;
    guard.unwrap().release().await.unwrap();
}

/// The message that the lock has moved finds no subscription. The waiter sends a request when its inbox is open again.
#[tokio::test]
async fn no_wake_is_lost_while_an_inbox_is_away() {
    let server = RedisServer::start().await;
    let builder = only_by_events(&server).turns(0);
    let (guard, mut turns, _locks) = held_and_wanted(&server, &builder).await;
    let open = async || server.subscriptions().await.len() == 2;
    eventually(DEADLINE, "the inboxes are open", open).await;
    server.ask("ACL SETUSER default -subscribe").await;
    server.kill_inboxes().await;
    guard.release().await.unwrap();
    server.ask("ACL SETUSER default +subscribe").await;
    assert_eq!(turns.names().await, ["waiter"]);
}

#[tokio::test]
async fn turns_go_on_while_all_connections_are_cut_again_and_again() {
    let server = RedisServer::start().await;
    let crowded = processes::<2>(&only_by_events(&server).turns(0)).await;
    let mut turns = Turns::default();
    for number in 0..25 {
        for locks in &crowded {
            turns.request(locks.lock(KEY), &number.to_string());
        }
    }
    let cuts = async {
        for _ in 0..20 {
            server.kill_inboxes().await;
            server.ask("CLIENT KILL TYPE normal").await;
        }
    };
    let (count, ()) = join!(async { turns.all().await.len() }, cuts);
    assert_eq!(count, 50);
}

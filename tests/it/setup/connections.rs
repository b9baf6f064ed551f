//! The connections of a process: one for commands, and one for messages. Both use RESP2, which every server and proxy has.

use crate::support::{DEADLINE, RedisServer, eventually, held_and_wanted, only_by_events};

#[tokio::test]
async fn a_process_has_two_and_a_waiter_is_woken_by_a_message() {
    let server = RedisServer::start().await;
    let builder = only_by_events(&server);
    let (guard, mut turns, _locks) = held_and_wanted(&server, &builder).await;
    server.until_listening(2).await;
    // Each of the two has sent one request, and the waiter one more when its inbox was open.
    let asked = async || server.commandstats().await.get("evalsha") >= Some(&3);
    eventually(DEADLINE, "the waiter has asked", asked).await;
    let settled = async || clients(&server, "pubsub").await == 2;
    eventually(DEADLINE, "two connections bring messages", settled).await;
    let settled = async || clients(&server, "normal").await == 2;
    eventually(DEADLINE, "two are for commands", settled).await;
    let before = server.commandstats().await;
    assert_eq!(before.get("hello"), None, "{before:?}");
    guard.release().await.unwrap();
    assert_eq!(turns.names().await, ["waiter"]);
    let calls = server.calls_since(&before).await;
    assert_eq!(
        calls.get("evalsha"),
        Some(&2),
        "the two releases: {calls:?}"
    );
}

/// The number of connections of a type, without the one that sends this request.
async fn clients(server: &RedisServer, of_type: &str) -> usize {
    let clients = server.ask(&format!("CLIENT LIST TYPE {of_type}")).await;
    let clients = clients.lines();
    let others = clients.filter(|it| !it.is_empty() && !it.contains("cmd=client"));
    others.count()
}

/// A proxy without messages delivers none, so the waiters send requests. It may not know `HELLO` either.
#[tokio::test]
async fn waiters_get_in_where_there_are_no_messages() {
    let without = ["HELLO", "SUBSCRIBE"].map(|name| ["--rename-command", name, ""]);
    let server = RedisServer::start_with(&without.concat()).await;
    let builder = only_by_events(&server);
    let (guard, mut turns, _locks) = held_and_wanted(&server, &builder).await;
    guard.release().await.unwrap();
    assert_eq!(turns.names().await, ["waiter"]);
}

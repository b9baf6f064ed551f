//! The connections of a process: one for commands, and one for messages. Both use RESP2, which every server and proxy has.

use futures_util::future::join_all;

use crate::support::{
    DEADLINE, RedisServer, eventually, held_and_wanted, only_by_events, processes, within,
};

#[tokio::test]
async fn a_process_has_two_connections_and_gets_messages() {
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
async fn waiters_enter_where_messages_are_not_allowed() {
    let without = ["HELLO", "SUBSCRIBE"].map(|name| ["--rename-command", name, ""]);
    let server = RedisServer::start_with(&without.concat()).await;
    let builder = only_by_events(&server);
    let (guard, mut turns, _locks) = held_and_wanted(&server, &builder).await;
    guard.release().await.unwrap();
    assert_eq!(turns.names().await, ["waiter"]);
}

/// P7: hundreds of queues need no more than one does, and nothing of them is left.
#[tokio::test]
async fn hundreds_of_queues_share_two_connections() {
    const KEYS: usize = 200;
    let server = RedisServer::start().await;
    let [holder, waiter] = processes(&only_by_events(&server)).await;
    let keys = || (0..KEYS).map(|number| format!("order:{number}"));
    let guards = join_all(keys().map(|key| holder.lock(key).acquire())).await;
    let waiting = keys().map(|key| tokio::spawn(waiter.with_lock(key, async {})));
    let waiting: Vec<_> = waiting.collect();
    // Each lock has a hash, and each line has two more keys.
    let queued = async || server.key_count().await == 3 * KEYS;
    eventually(DEADLINE, "a queue at each lock", queued).await;
    for guard in guards {
        guard.unwrap().release().await.unwrap();
    }
    for entered in within(DEADLINE, "all have their turns", join_all(waiting)).await {
        entered.unwrap().unwrap();
    }
    // Each process listens to its inbox, and to the releases by force.
    let calls = server.commandstats().await;
    assert!(calls["subscribe"] <= 4, "{calls:?}");
    let empty = async || server.key_count().await == 0;
    eventually(DEADLINE, "no key is left", empty).await;
}

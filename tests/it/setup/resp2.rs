//! Locks without RESP3: the server has no `HELLO`, or the URL asks for RESP2.

use std::future::pending;
use std::time::Duration;

use crate::support::rig::KEY;
use crate::support::{
    DEADLINE, RedisServer, Turns, WITHOUT_HELLO, eventually, patient_at, processes,
    servers_in_resp2, until_queued, within,
};
use reentry::{LockError, Locks, LocksBuilder};

/// A time that is longer than a test, so that it lets no waiter in.
const HEARTBEAT: Duration = Duration::from_secs(60);

fn unhurried_at(url: &str) -> LocksBuilder {
    let builder = patient_at(url).ttl(10 * HEARTBEAT).__heartbeat(HEARTBEAT);
    builder.wait(Duration::MAX)
}

/// There are as many connections as in RESP3.
#[tokio::test]
async fn a_waiter_is_woken_by_a_message() {
    for (server, url) in servers_in_resp2().await {
        let [holder, waiter] = processes(&unhurried_at(&url)).await;
        let guard = holder.lock(KEY).await.unwrap();
        let mut turns = Turns::default();
        turns.request(waiter.lock(KEY), "waiter");
        until_queued(&server, 1).await;
        server.until_listening(2).await;
        // Each of the two has sent one request, and the waiter one more when its inbox was open.
        let asked = async || server.commandstats().await.get("evalsha") >= Some(&3);
        eventually(DEADLINE, "the waiter has asked", asked).await;
        let settled = async || clients(&server, "pubsub").await == 2;
        eventually(DEADLINE, "two connections bring messages", settled).await;
        let settled = async || clients(&server, "normal").await == 2;
        eventually(DEADLINE, "two are for commands", settled).await;
        let before = server.commandstats().await;
        assert_eq!(before.get("hello"), None);
        guard.release().await.unwrap();
        assert_eq!(turns.names().await, ["waiter"]);
        let calls = server.calls_since(&before).await;
        assert_eq!(
            calls.get("evalsha"),
            Some(&2),
            "the two releases: {calls:?}"
        );
    }
}

/// The number of connections of a type, without the one that sends this request.
async fn clients(server: &RedisServer, of_type: &str) -> usize {
    let clients = server.ask(&format!("CLIENT LIST TYPE {of_type}")).await;
    let clients = clients.lines();
    let others = clients.filter(|it| !it.is_empty() && !it.contains("cmd=client"));
    others.count()
}

#[tokio::test]
async fn a_holder_is_told_at_once_that_its_lock_was_taken_away() {
    for (server, url) in servers_in_resp2().await {
        let [holder, operator] = processes(&unhurried_at(&url)).await;
        let guard = holder.lock(KEY).await.unwrap();
        server.until_listening(1).await;
        assert!(operator.admin().force_release(KEY).await.unwrap());
        within(DEADLINE, "the holder is told", guard.held().lost()).await;
    }
}

/// The address of a server with a user and its password.
fn login(server: &RedisServer, login: &str, query: &str) -> String {
    format!("redis://{login}@{}{query}", server.address())
}

#[tokio::test]
async fn a_user_logs_in_with_the_password_of_the_url() {
    for options in [&WITHOUT_HELLO[..], &[]] {
        let server = RedisServer::start_with(options).await;
        server.ask("ACL SETUSER locker on >right ~* &* +@all").await;
        server.ask("ACL SETUSER default -@all +client|list").await;
        let query = if options.is_empty() {
            "/2?protocol=resp2"
        } else {
            "/2"
        };
        let locks = patient_at(login(&server, "locker:right", query));
        let [holder, waiter] = processes(&locks.wait(Duration::MAX)).await;
        let guard = holder.lock(KEY).await.unwrap();
        let waiting = tokio::spawn(waiter.lock(KEY).acquire());
        let known = async || {
            let clients = server.ask("CLIENT LIST").await;
            let of_user = clients.lines().filter(|it| it.contains("user=locker"));
            let (messages, commands): (Vec<_>, Vec<_>) =
                of_user.partition(|it| it.contains("cmd=subscribe"));
            let is_named = |it: &&str| it.contains("name=it-") && it.contains("db=2");
            commands.len() == 2 && commands.iter().all(is_named) && messages.len() == 2
        };
        eventually(DEADLINE, "all connections are of the user", known).await;
        guard.release().await.unwrap();
        let next = within(DEADLINE, "the waiter enters", waiting).await;
        drop(next.unwrap().unwrap());

        let wrong = patient_at(login(&server, "locker:wrong", query));
        let refused = wrong.build().await;
        assert!(
            matches!(refused, Err(LockError::Misuse { .. })),
            "{refused:?}"
        );
    }
}

/// A proxy without messages delivers none, so the waiters send requests.
#[tokio::test]
async fn waiters_get_in_where_there_are_no_messages() {
    let without = [&WITHOUT_HELLO[..], &["--rename-command", "SUBSCRIBE", ""]].concat();
    let server = RedisServer::start_with(&without).await;
    let [holder, waiter] = processes(&unhurried_at(&server.url())).await;
    let guard = holder.lock(KEY).await.unwrap();
    let mut turns = Turns::default();
    turns.request(waiter.lock(KEY), "waiter");
    until_queued(&server, 1).await;
    guard.release().await.unwrap();
    assert_eq!(turns.names().await, ["waiter"]);
}

/// A holder that sends nothing until its next renewal.
async fn idle(locks: &Locks) -> Result<(), LockError> {
    locks.with_lock(KEY, pending::<()>()).await
}

#[tokio::test]
async fn an_idle_holder_notices_a_restart_without_data() {
    for (server, url) in servers_in_resp2().await {
        let [holder, looker] = processes(&unhurried_at(&url)).await;
        let body = tokio::spawn(async move { idle(&holder).await });
        let held = async || looker.admin().inspect(KEY).await.unwrap().is_some();
        eventually(DEADLINE, "the lock is held", held).await;
        server.until_listening(1).await;
        server.restart_empty().await;
        let ended = within(DEADLINE, "the body is dropped", body).await.unwrap();
        assert!(matches!(ended, Err(LockError::Lost { .. })), "{ended:?}");
    }
}

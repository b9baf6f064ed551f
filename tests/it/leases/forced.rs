//! P6 when an operator takes a lock away: its holder is notified immediately, in whichever process it is.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use redis::{AsyncCommands, cmd};
use reentry::testing::Server;
use reentry::{LockError, Locks, LostReason};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::support::rig::KEY;
use crate::support::runtime::runtime;
use crate::support::told::lost;
use crate::support::{DEADLINE, RedisServer, eventually, patient, processes, within};

/// A TTL so long that a renewal, which would also find the loss, is not due within the test.
const TTL: Duration = Duration::from_secs(3_600);

/// A body that holds the lock, and never ends.
async fn hold_for_ever(holder: &Locks) -> JoinHandle<Result<(), LockError>> {
    let inside = Arc::<Notify>::default();
    let entered = Arc::clone(&inside);
    let body = tokio::spawn(holder.with_lock(KEY, async move {
        entered.notify_one();
        pending::<()>().await;
    }));
    inside.notified().await;
    body
}

async fn is_dropped(body: JoinHandle<Result<(), LockError>>) {
    let ended = within(DEADLINE, "the body is dropped", body).await.unwrap();
    assert_eq!(lost(ended), (KEY.to_owned(), LostReason::Deleted));
}

#[tokio::test]
async fn a_body_in_another_process_is_dropped_before_the_next_renewal() {
    let server = RedisServer::start().await;
    let [holder, operator] = processes(&patient(&server).ttl(TTL)).await;
    let body = hold_for_ever(&holder).await;
    server.until_listening(1).await;
    assert!(operator.admin().force_release(KEY).await.unwrap());
    is_dropped(body).await;
}

/// The lock was handed to a caller in memory, which has not been polled since.
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_not_entered_yet_is_lost_as_well() {
    let server = Server::new();
    let [locks, elsewhere] = [server.locks(), server.locks()];
    let first = locks.lock(KEY).await.unwrap();
    let mut second = pin!(locks.with_lock(KEY, async { unreachable!("it is lost") }));
    assert!((&mut second).now_or_never().is_none());
    // Long enough for a token of its own.
    tokio::time::sleep(Duration::from_millis(10)).await;
    first.release().await.unwrap();
    assert!(locks.admin().force_release(KEY).await.unwrap());
    let there = elsewhere.lock(KEY).try_acquire().await.unwrap();
    let ended: Result<(), LockError> = second.await;
    assert_eq!(lost(ended), (KEY.to_owned(), LostReason::Deleted));
    assert!(!there.unwrap().held().is_lost());
}

#[tokio::test]
async fn a_process_that_has_lost_its_connection_listens_again() {
    let server = RedisServer::start().await;
    let [holder, operator] = processes(&patient(&server).ttl(TTL)).await;
    let guard = holder.lock(KEY).await.unwrap();
    operator.with_lock("beside", async {}).await.unwrap();
    server.until_listening(2).await;
    assert_eq!(server.kill_command_connections().await, 2);
    // The hold is verified over a new connection.
    operator.with_lock("beside", async {}).await.unwrap();
    server.until_listening(2).await;
    assert!(!guard.held().is_lost());
    assert!(operator.admin().force_release(KEY).await.unwrap());
    within(DEADLINE, "it is told", guard.held().lost()).await;
}

/// A server that runs a script for too long rejects the subscription, and nothing else that a connection needs.
#[tokio::test]
async fn a_process_that_connects_to_a_busy_server_listens_afterwards() {
    let server = RedisServer::start().await;
    let locks = patient(&server).ttl(TTL).build().await.unwrap();
    server.ask("CONFIG SET lua-time-limit 1").await;
    let mut endless = server.connection().await;
    let mut script = cmd("EVAL");
    script.arg("while true do end").arg(0);
    let endless = tokio::spawn(async move { script.exec_async(&mut endless).await });
    let is_busy = async || server.try_ask("PING").await.is_err();
    eventually(DEADLINE, "the server is busy", is_busy).await;
    let holder = patient(&server).ttl(TTL).build_lazy().unwrap();
    // It is not connected while the server executes nothing.
    let early = holder.ping().await;
    assert!(early.unwrap_err().is_unavailable());
    server.ask("SCRIPT KILL").await;
    endless.await.unwrap().unwrap_err();
    let body = hold_for_ever(&holder).await;
    server.until_listening(1).await;
    assert!(locks.admin().force_release(KEY).await.unwrap());
    is_dropped(body).await;
}

/// Both connections were opened by a runtime that ends. The next request opens one for commands, and the holds of the
/// other runtime open the inbox.
#[test]
fn a_forced_release_arrives_although_the_inbox_runtime_ended() {
    let first = Runtime::new().unwrap();
    let next = runtime();
    let server = next.block_on(RedisServer::start());
    let locks = patient(&server).ttl(TTL).build_lazy().unwrap();
    first.block_on(async {
        locks.with_lock("first", async {}).await.unwrap();
        server.until_listening(1).await;
    });
    let guard = next.block_on(async { locks.lock(KEY).await.unwrap() });
    drop(first);
    next.block_on(async {
        server.until_listening(0).await;
        // This is no lock, so it opens no inbox itself.
        let connected = async || locks.ping().await.is_ok();
        eventually(DEADLINE, "another connection", connected).await;
        server.until_listening(1).await;
        assert!(locks.admin().force_release(KEY).await.unwrap());
        within(DEADLINE, "it is told", guard.held().lost()).await;
    });
}

/// The permissions for it are not more than those for the inbox, and locks do not depend on them.
#[tokio::test]
async fn a_process_that_may_not_subscribe_has_its_locks() {
    let server = RedisServer::start().await;
    server.ask("ACL SETUSER default -subscribe").await;
    let [holder, operator] = processes(&patient(&server).ttl(Duration::from_secs(3))).await;
    let guard = holder.lock(KEY).await.unwrap();
    assert!(operator.admin().force_release(KEY).await.unwrap());
    within(DEADLINE, "a renewal finds it", guard.held().lost()).await;
    assert_eq!(server.listeners().await, 0);
}

/// This is the statement of docs/reliability.md about users who do not trust each other.
#[tokio::test]
async fn a_forged_end_is_believed_and_lets_no_caller_in_beside_the_holder() {
    let server = RedisServer::start().await;
    let [holder, other] = processes(&patient(&server).ttl(TTL)).await;
    let body = hold_for_ever(&holder).await;
    server.until_listening(1).await;
    let hold = &other.admin().inspect(KEY).await.unwrap().unwrap().holders[0].hold_id;
    let forged = format!("forced {hold} {KEY}");
    let mut connection = server.connection().await;
    let _: () = connection
        .publish("reentry:inbox:all", forged)
        .await
        .unwrap();
    is_dropped(body).await;
    // The lock is released, so the next caller has it before the lease expires.
    let next = within(DEADLINE, "it is free", other.lock(KEY).acquire()).await;
    next.unwrap().release().await.unwrap();
}

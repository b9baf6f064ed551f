//! The permissions with which connections are checked.

use std::time::Duration;

use deadpool_redis::{Config, Runtime};
use reentry::Locks;

use super::{Ground, KEY, all_but};
use crate::support::{DEADLINE, eventually, patient, patient_at, within};

/// The commands with which the pool checks a connection after a silence. Without them it opens another one instead.
const CHECKING: [&str; 2] = ["+ping", "+unwatch"];

#[tokio::test]
async fn a_connection_that_fell_silent_is_checked_where_the_user_may_and_replaced_elsewhere() {
    let ground = Ground::start().await;
    for checking in [&CHECKING[..], &[]] {
        let permissions = [&all_but("+ping")[..], checking].concat();
        ground.permit(&permissions).await;
        let pool = Config::from_url(ground.url())
            .create_pool(Some(Runtime::Tokio1))
            .unwrap();
        drop(pool.get().await.unwrap());
        let before = ground.proxy.connections();
        let builder = Locks::builder_with_pool(pool).response_timeout(DEADLINE);
        let locks = builder.build().await.unwrap();
        locks.with_lock(KEY, async {}).await.unwrap();
        let replaced = u64::from(checking.is_empty());
        assert_eq!(ground.proxy.connections() - before, replaced);
    }
}

/// A waiter that finds its lock without a message makes the process check the subscription. A rejection of its `PING`
/// shows too that the connection works.
#[tokio::test]
async fn a_check_that_is_rejected_is_answered() {
    for missing in ["nothing", "+ping"] {
        let ground = Ground::start().await;
        ground.permit(&all_but(missing)).await;
        let builder = patient_at(ground.url()).wait(Duration::MAX);
        let locks = builder.__heartbeat(Duration::from_millis(50));
        let locks = locks.build().await.unwrap();
        let others = patient(&ground.server).build().await.unwrap();
        let _theirs = others.lock(KEY).await.unwrap();
        let waiting = tokio::spawn(locks.lock(KEY).acquire());
        // As long as another caller waits, the process subscribes.
        let _also_theirs = others.lock("order:43").await.unwrap();
        let also_waiting = tokio::spawn(locks.lock("order:43").acquire());
        let is_subscribed = async || !ground.server.subscriptions().await.is_empty();
        eventually(DEADLINE, "a subscription", is_subscribed).await;
        ground.server.reset_stats().await;
        // The first requests may follow from the subscription. The others are sent because they are due.
        let asks_in_time = async || {
            let calls = ground.server.commandstats().await;
            calls.get("evalsha").is_some_and(|count| *count > 8)
        };
        eventually(DEADLINE, "requests at heartbeats", asks_in_time).await;
        let before = ground.proxy.connections();
        ground.server.ask(&format!("DEL {KEY}")).await;
        let entered = within(DEADLINE, "the waiter enters", waiting).await;
        let is_checked = async || {
            ground
                .server
                .ask("INFO commandstats")
                .await
                .contains("cmdstat_ping:")
        };
        eventually(DEADLINE, "a check", is_checked).await;
        assert_eq!(ground.proxy.connections(), before);
        drop(entered.unwrap().unwrap());
        also_waiting.abort();
    }
}

//! P1 when a message is forged by a user who knows what only the keys of the lock contain. It is believed until the
//! next request. Messages that are lost, late, repeated or false are tested in `src/base/lease_times.rs` and the
//! simulation.

use std::time::Duration;

use crate::support::rig::KEY;
use crate::support::{DEADLINE, RedisServer, eventually, patient, processes, until_queued, within};
use redis::{AsyncCommands, cmd};

/// The greatest token that is believed.
const GREATEST: u64 = (1 << 53) - 1;

/// This is the statement of docs/reliability.md about users who do not trust each other.
#[tokio::test]
async fn a_forged_message_is_believed_until_the_first_renewal() {
    let short = Duration::from_secs(3);
    let server = RedisServer::start().await;
    let [waiting, other] = processes(&patient(&server).ttl(short)).await;
    let holder = other.lock(KEY).await.unwrap();
    server.until_listening(1).await;
    let others = server.subscriptions().await;
    let (enter, entered) = tokio::sync::watch::channel(None);
    let body = waiting.with_lock(KEY, async move {
        let token = reentry::held(KEY).unwrap().fencing_token();
        enter.send(Some(token)).unwrap();
        std::future::pending::<()>().await;
    });
    let forged = tokio::spawn(body);
    until_queued(&server, 1).await;
    server.until_listening(2).await;
    let mut inboxes = server.subscriptions().await;
    inboxes.retain(|inbox| !others.contains(inbox));
    let inbox = inboxes.remove(0);
    let mut connection = server.connection().await;
    let key = format!("reentry:entries:{{{KEY}}}:{KEY}");
    let entries: Vec<String> = connection.hvals(key).await.unwrap();
    let hold = entries[0].split(' ').nth(1).unwrap();
    // It is sent repeatedly, because it must be later than the last answer that the waiter has had.
    let forge = async || {
        let mut connection = server.connection().await;
        let time = cmd("TIME").query_async(&mut connection).await;
        let (seconds, micros): (u64, u64) = time.unwrap();
        let time = seconds * 1_000_000 + micros;
        let message = format!("{hold} {GREATEST} {time} 3600000 {KEY}");
        let () = connection.publish(&inbox, message).await.unwrap();
        entered.borrow().is_some()
    };
    eventually(DEADLINE, "it enters", forge).await;
    assert_eq!(entered.borrow().map(u64::from), Some(GREATEST));
    let lost = within(DEADLINE, "the loss", forged).await.unwrap();
    assert!(lost.unwrap_err().is_lost());
    holder.release().await.unwrap();
}

//! P9 when the connection that delivers the messages dies, hangs, is cut or is rejected. It is opened again, no caller
//! waits for it, and in the meantime the waiters send requests.

use std::time::Duration;

use crate::support::Direction::ToClient;
use crate::support::rig::{KEY, RESPONSE_TIMEOUT};
use crate::support::{
    Action, DEADLINE, Proxy, RedisServer, Turns, eventually, patient_at, processes, queued,
    until_queued, until_waiting,
};
use reentry::{Locks, LocksBuilder};

/// A time that is longer than a test, so that it lets no waiter in.
const HEARTBEAT: Duration = Duration::from_secs(60);

/// Only a message of a subscription contains this.
const MESSAGE: &[u8] = b"$7\r\nmessage\r\n";

/// A process in strict order. Each of its waiters gets the lock by a message, or by its own request.
fn process(url: String) -> LocksBuilder {
    let builder = patient_at(url).ttl(10 * HEARTBEAT);
    builder.__heartbeat(HEARTBEAT).turns(0).wait(Duration::MAX)
}

/// The number of waiters in each of the two.
async fn crowd(server: &RedisServer, [one, other]: &[Locks; 2], each: usize) -> Turns {
    let mut turns = Turns::default();
    for number in 0..each {
        for locks in [one, other] {
            turns.request(locks.lock(KEY), &number.to_string());
        }
    }
    for locks in [one, other] {
        until_waiting(locks, KEY, each).await;
    }
    until_queued(server, 2).await;
    turns
}

async fn until_subscribed(server: &RedisServer, count: usize) {
    let open = async || server.subscriptions().await.len() == count;
    eventually(DEADLINE, &format!("{count} inboxes are open"), open).await;
}

/// Their drivers are in the pause of a heartbeat when the inboxes die.
#[tokio::test]
async fn waiters_enter_although_their_inboxes_stay_closed() {
    let server = RedisServer::start().await;
    let crowded = processes::<2>(&process(server.url())).await;
    let [holder] = processes(&process(server.url())).await;
    let guard = holder.lock(KEY).await.unwrap();
    let mut turns = crowd(&server, &crowded, 3).await;
    until_subscribed(&server, 3).await;
    // From now on no further ones can open, and the present ones end.
    server.ask("ACL SETUSER default -subscribe").await;
    server.kill_inboxes().await;
    guard.release().await.unwrap();
    assert_eq!(turns.all().await.len(), 6);
    assert!(server.subscriptions().await.is_empty());
}

/// They are killed as fast as possible, over a hundred turns.
#[tokio::test]
async fn turns_continue_while_every_inbox_is_killed_when_it_opens() {
    let server = RedisServer::start().await;
    let crowded = processes::<2>(&process(server.url())).await;
    let [holder] = processes(&process(server.url())).await;
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

/// A connection that is open and delivers nothing. An unanswered PING shows it, and meanwhile the heartbeat brings the
/// lock.
#[tokio::test]
async fn a_silent_inbox_is_noticed_and_opened_again() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port());
    let heartbeat = Duration::from_millis(500);
    let at = |url| patient_at(url).ttl(HEARTBEAT).__heartbeat(heartbeat);
    let [other] = processes(&at(server.url())).await;
    let builder = at(proxy.url()).wait(DEADLINE);
    let [waiting] = processes(&builder.response_timeout(RESPONSE_TIMEOUT)).await;
    let guard = other.lock(KEY).await.unwrap();
    let mut turns = Turns::default();
    let mut first = turns.stay(waiting.lock(KEY), "first");
    until_queued(&server, 1).await;
    turns.come(&waiting, "behind").await;
    until_subscribed(&server, 2).await;
    // Each of the two has sent one request, and the waiter one more when its process knew of the inbox.
    let asked = async || server.commandstats().await.get("evalsha") >= Some(&3);
    eventually(DEADLINE, "the process knows", asked).await;
    let before = server.commandstats().await;
    proxy.on_next(ToClient, MESSAGE, Action::Hold);
    guard.release().await.unwrap();
    first.entered().await;
    let anew = async || server.count_since(&before, "subscribe").await > 0;
    eventually(DEADLINE, "the inbox is made anew", anew).await;
    first.leave();
    assert_eq!(turns.all().await.len(), 2);

    // The new one delivers messages.
    let guard = other.lock(KEY).await.unwrap();
    proxy.on_every(ToClient, MESSAGE, Action::Record);
    turns.request(waiting.lock(KEY), "third");
    until_queued(&server, 1).await;
    guard.release().await.unwrap();
    assert_eq!(turns.all().await.len(), 3);
    assert_eq!(proxy.recorded().len(), 1);
}

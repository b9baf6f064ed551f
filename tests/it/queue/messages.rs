//! P1 and P9 where the messages misbehave: one that is lost, late, repeated or false lets no waiter in that
//! has no lease, and keeps no waiter out for longer than until it asks again. One that is forged by a user
//! who knows what only the lock's own keys say is believed until the next request.

use std::time::Duration;

use crate::support::rig::KEY;
use crate::support::turns::TTL;
use crate::support::{
    Action, DEADLINE, Direction::ToClient, Direction::ToServer, Proxy, RedisServer, Turns,
    eventually, patient, until_queued, within,
};
use futures_util::StreamExt;
use redis::{AsyncCommands, Client, cmd};
use reentry::{Locks, LocksBuilder};

/// What only a message of a subscription contains.
const MESSAGE: &[u8] = b"$7\r\nmessage\r\n";

/// A process whose connections pass a proxy, and one that is not disturbed.
struct Ground {
    server: RedisServer,
    proxy: Proxy,
    waiting: Locks,
    other: Locks,
    turns: Turns,
}

impl Ground {
    async fn start(heartbeat: Duration) -> Ground {
        Ground::build(|builder| builder.ttl(TTL).heartbeat(heartbeat)).await
    }

    async fn build(options: impl Fn(LocksBuilder) -> LocksBuilder) -> Ground {
        let server = RedisServer::start().await;
        let proxy = Proxy::start(server.port());
        let waiting = options(patient(&server)).url(proxy.url()).build().await;
        let other = options(patient(&server)).build().await;
        Ground {
            waiting: waiting.unwrap(),
            other: other.unwrap(),
            server,
            proxy,
            turns: Turns::default(),
        }
    }

    /// The channel of the waiting process, once it is open.
    async fn inbox(&self) -> String {
        let open = async || self.server.subscriptions().await.len() == 1;
        eventually(DEADLINE, "the inbox is open", open).await;
        self.server.subscriptions().await.remove(0)
    }
}

#[tokio::test]
async fn a_waiter_enters_without_the_message_that_was_lost() {
    let mut ground = Ground::start(Duration::from_millis(500)).await;
    ground.proxy.on_every(ToClient, MESSAGE, Action::Lose);
    for round in 1..=3 {
        let guard = ground.other.lock(KEY).await.unwrap();
        ground.turns.request(ground.waiting.lock(KEY), "waiter");
        until_queued(&ground.server, 1).await;
        ground.inbox().await;
        guard.release().await.unwrap();
        assert_eq!(ground.turns.all().await.len(), round);
    }
    assert!(ground.proxy.hits() >= 1);
}

/// The whole process is cut off while its grant passes, and finds the message when it is back.
#[tokio::test]
async fn a_message_that_comes_after_its_lease_lets_no_waiter_in() {
    let mut ground = Ground::start(Duration::from_secs(1)).await;
    let guard = ground.other.lock(KEY).await.unwrap();
    let before = ground.server.commandstats().await;
    let mut late = ground.turns.stay(ground.waiting.lock(KEY), "late");
    // When it came and when its inbox was open: it must not ask while the lock moves, since a waiter that
    // is known to ask has a whole lease.
    let asked_twice = async || {
        let calls = ground.server.calls_since(&before).await;
        calls.get("evalsha") == Some(&2)
    };
    eventually(DEADLINE, "it has asked twice", asked_twice).await;
    ground.proxy.hold(ToClient);
    ground.proxy.hold(ToServer);
    guard.release().await.unwrap();
    ground.proxy.wait_until_held(ToClient, MESSAGE).await;
    let mut other = ground.turns.stay(ground.other.lock(KEY), "other");
    other.entered().await;
    ground.proxy.release(ToClient);
    ground.proxy.release(ToServer);
    // It has asked again, and stands in the queue.
    until_queued(&ground.server, 1).await;
    assert!(!late.has_entered());
    other.leave();
    late.entered().await;
    late.leave();
    let turns = ground.turns.all().await;
    assert_eq!(turns[0].name, "other");
    assert!(turns[0].token < turns[1].token);
}

/// It comes while its hold is inside, and when that has left and others of the process wait.
#[tokio::test]
async fn a_message_for_a_hold_that_has_entered_by_asking_is_ignored() {
    let mut ground = Ground::start(Duration::from_millis(500)).await;
    for while_inside in [true, false] {
        let guard = ground.other.lock(KEY).await.unwrap();
        let mut first = ground.turns.stay(ground.waiting.lock(KEY), "first");
        until_queued(&ground.server, 1).await;
        ground.inbox().await;
        ground.proxy.on_next(ToClient, MESSAGE, Action::Hold);
        guard.release().await.unwrap();
        first.entered().await;
        if while_inside {
            ground.proxy.release(ToClient);
        }
        first.leave();
        ground.turns.all().await;
        let guard = ground.other.lock(KEY).await.unwrap();
        let mut second = ground.turns.stay(ground.waiting.lock(KEY), "second");
        until_queued(&ground.server, 1).await;
        ground.proxy.release(ToClient);
        // The answer to a request that came after the message shows that it was read.
        let before = ground.server.commandstats().await;
        let asked = async || {
            let calls = ground.server.calls_since(&before).await;
            calls.get("evalsha").is_some_and(|&calls| calls >= 2)
        };
        eventually(DEADLINE, "it asks again", asked).await;
        assert!(!second.has_entered());
        guard.release().await.unwrap();
        second.entered().await;
        second.leave();
        let turns = ground.turns.all().await;
        assert!(turns.is_sorted_by(|a, b| a.token < b.token), "{turns:?}");
    }
}

#[tokio::test]
async fn a_message_that_is_repeated_or_false_lets_no_waiter_in() {
    let mut ground = Ground::start(Duration::from_secs(20)).await;
    let guard = ground.other.lock(KEY).await.unwrap();
    let mut first = ground.turns.stay(ground.waiting.lock(KEY), "first");
    until_queued(&ground.server, 1).await;
    let inbox = ground.inbox().await;
    let listener = Client::open(ground.server.url()).unwrap();
    let mut listener = listener.get_async_pubsub().await.unwrap();
    listener.subscribe(&inbox).await.unwrap();
    guard.release().await.unwrap();
    first.entered().await;
    let message = within(DEADLINE, "the message", listener.on_message().next()).await;
    let message: String = message.unwrap().get_payload().unwrap();
    drop(listener);

    let mut connection = ground.server.connection().await;
    let mut publish = async |message: &str| {
        let heard: u64 = connection.publish(&inbox, message).await.unwrap();
        assert_eq!(heard, 1);
    };
    publish(&message).await;
    first.leave();
    ground.turns.all().await;
    let guard = ground.other.lock(KEY).await.unwrap();
    let mut second = ground.turns.stay(ground.waiting.lock(KEY), "second");
    until_queued(&ground.server, 1).await;
    publish(&message).await;

    // An old time for a hold that does wait, a time to come, and no message at all.
    let mut entries = ground.server.connection().await;
    let entries: Vec<String> = entries
        .hvals(format!("reentry:entries:{{{KEY}}}:{KEY}"))
        .await
        .unwrap();
    let hold = entries[0].split(' ').nth(1).unwrap();
    let words: Vec<&str> = message.splitn(5, ' ').collect();
    let [_, token, time, lease, key] = words[..] else {
        panic!("{message}");
    };
    let to_come = time.parse::<u64>().unwrap() + 3_600_000_000;
    for (time, lease) in [(time, lease), (&to_come.to_string(), lease), ("0", "60000")] {
        let before = ground.server.commandstats().await;
        publish(&format!("{hold} {token} {time} {lease} {key}")).await;
        let asked = async || {
            let calls = ground.server.calls_since(&before).await;
            calls.contains_key("evalsha")
        };
        eventually(DEADLINE, "it asks rather than believes", asked).await;
    }
    publish("nonsense").await;
    publish("").await;
    assert!(!second.has_entered());
    guard.release().await.unwrap();
    second.entered().await;
    second.leave();
    let turns = ground.turns.all().await;
    assert!(turns[0].token < turns[1].token);
}

/// The greatest token that is believed.
const GREATEST: u64 = (1 << 53) - 1;

/// What docs/reliability.md says of users who do not trust each other.
#[tokio::test]
async fn a_forged_message_is_believed_until_the_first_renewal() {
    let short = Duration::from_secs(3);
    let ground = Ground::build(|builder| builder.ttl(short)).await;
    let holder = ground.other.lock(KEY).await.unwrap();
    let (enter, entered) = tokio::sync::watch::channel(None);
    let body = ground.waiting.with_lock(KEY, async move {
        let token = reentry::held(KEY).unwrap().fencing_token();
        enter.send(Some(token)).unwrap();
        std::future::pending::<()>().await;
    });
    let forged = tokio::spawn(body);
    until_queued(&ground.server, 1).await;
    let inbox = ground.inbox().await;
    let mut connection = ground.server.connection().await;
    let key = format!("reentry:entries:{{{KEY}}}:{KEY}");
    let entries: Vec<String> = connection.hvals(key).await.unwrap();
    let hold = entries[0].split(' ').nth(1).unwrap();
    // Again and again, since it must be later than the last answer that the waiter has had.
    let forge = async || {
        let mut connection = ground.server.connection().await;
        let time = cmd("TIME").query_async(&mut connection).await;
        let (seconds, micros): (u64, u64) = time.unwrap();
        let time = seconds * 1_000_000 + micros;
        let message = format!("{hold} {GREATEST} {time} 3600000 {KEY}");
        let () = connection.publish(&inbox, message).await.unwrap();
        entered.borrow().is_some()
    };
    eventually(DEADLINE, "it enters", forge).await;
    assert_eq!(entered.borrow().map(|token| token.0), Some(GREATEST));
    let lost = within(DEADLINE, "the loss", forged).await.unwrap();
    assert!(lost.unwrap_err().is_lost());
    holder.release().await.unwrap();
}

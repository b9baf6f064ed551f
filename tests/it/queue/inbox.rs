//! P9 where the connection that carries the messages dies, hangs or is refused: it is made anew, and
//! no caller waits for it.

use std::time::Duration;

use crate::support::rig::{KEY, RESPONSE_TIMEOUT};
use crate::support::turns::TTL;
use crate::support::{
    Action, Cut, DEADLINE, Direction::ToClient, Proxy, RedisServer, Turns, eventually, patient,
    patient_at, patient_over_pool, until_queued, waiters, within,
};
use reentry::{Locks, LocksBuilder};

const HEARTBEAT: Duration = Duration::from_millis(500);

/// What only a message of a subscription contains.
const MESSAGE: &[u8] = b"$7\r\nmessage\r\n";

/// A process in strict order, so that each of its waiters has the lock by a message.
async fn process(server: &RedisServer, url: String) -> Locks {
    build(patient(server).url(url)).await
}

/// One of which nothing but the inbox is subscribed, to be killed by that.
async fn process_over_pool(server: &RedisServer) -> Locks {
    build(patient_over_pool(server)).await
}

async fn build(builder: LocksBuilder) -> Locks {
    let builder = builder.ttl(TTL).heartbeat(HEARTBEAT).local_handoffs(0);
    builder.build().await.unwrap()
}

/// So many waiters of either process, behind `holder`.
async fn crowd(holder: &Locks, processes: [&Locks; 2], each: usize) -> Turns {
    let mut turns = Turns::default();
    for number in 0..each {
        for locks in processes {
            turns.request(locks.lock(KEY), &number.to_string());
        }
    }
    for locks in processes {
        let wait = async || waiters(locks, KEY).await == Some(each);
        eventually(DEADLINE, "all of them wait", wait).await;
    }
    let stand = async || {
        let info = holder.inspect(KEY).await.unwrap();
        info.unwrap().waiting_processes == 2
    };
    eventually(DEADLINE, "both processes stand in the queue", stand).await;
    turns
}

#[tokio::test]
async fn a_hundred_waiters_get_in_though_their_inboxes_are_killed_again_and_again() {
    let server = RedisServer::start().await;
    let one = process_over_pool(&server).await;
    let other = process_over_pool(&server).await;
    let holder = process_over_pool(&server).await;
    let guard = holder.lock(KEY).await.unwrap();
    let mut turns = crowd(&holder, [&one, &other], 50).await;
    let open = async || server.subscriptions().await.len() == 2;
    eventually(DEADLINE, "both inboxes are open", open).await;
    let killed = server.kill_inboxes().await;
    assert_eq!(killed, 2);
    guard.release().await.unwrap();
    for count in [1, 20, 40, 60, 80] {
        let on = async || turns.so_far().len() >= count;
        eventually(DEADLINE, &format!("{count} have got in"), on).await;
        server.kill_inboxes().await;
    }
    assert_eq!(turns.all().await.len(), 100);
}

#[tokio::test]
async fn waiters_get_in_though_the_connection_dies_with_the_message() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port());
    let one = process(&server, proxy.url()).await;
    let other = process(&server, server.url()).await;
    let guard = other.lock(KEY).await.unwrap();
    let mut turns = Turns::default();
    for how in [Cut::Reset, Cut::Fin, Cut::Reset, Cut::Fin] {
        proxy.on_next(ToClient, MESSAGE, Action::CutInstead(how));
    }
    for number in 0..20 {
        for locks in [&one, &other] {
            turns.request(locks.lock(KEY), &number.to_string());
        }
    }
    until_queued(&server, 2).await;
    guard.release().await.unwrap();
    assert_eq!(turns.all().await.len(), 40);
    assert!(proxy.hits() >= 1);
}

/// Neither the subscription nor the message itself needs to be allowed.
#[tokio::test]
async fn waiters_get_in_where_the_user_may_not_subscribe() {
    for permission in ["-subscribe", "resetchannels"] {
        let server = RedisServer::start().await;
        let one = process(&server, server.url()).await;
        let other = process(&server, server.url()).await;
        server
            .ask(&format!("ACL SETUSER default {permission}"))
            .await;
        let holder = process(&server, server.url()).await;
        let guard = holder.lock(KEY).await.unwrap();
        let mut turns = crowd(&holder, [&one, &other], 3).await;
        guard.release().await.unwrap();
        assert_eq!(turns.all().await.len(), 6, "{permission}");
        assert!(server.subscriptions().await.is_empty());
    }
}

/// A connection that is open and carries nothing: the first message that does not come is a doubt, and
/// an unanswered PING settles it.
#[tokio::test]
async fn an_inbox_that_hangs_is_noticed_and_made_anew() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port());
    let builder = patient_at(proxy.url()).ttl(TTL);
    let builder = builder.heartbeat(HEARTBEAT).wait(DEADLINE);
    let waiting = builder.response_timeout(RESPONSE_TIMEOUT).build().await;
    let (waiting, other) = (waiting.unwrap(), process(&server, server.url()).await);
    let guard = other.lock(KEY).await.unwrap();
    let mut turns = Turns::default();
    let mut first = turns.stay(waiting.lock(KEY), "first");
    until_queued(&server, 1).await;
    turns.come(&waiting, "behind").await;
    let open = async || server.subscriptions().await.len() == 1;
    eventually(DEADLINE, "the inbox is open", open).await;
    // Each of the two has asked once, and the waiter once more when its process knew of the inbox.
    let asked = async || server.commandstats().await.get("evalsha") >= Some(&3);
    eventually(DEADLINE, "the process knows", asked).await;
    let before = server.commandstats().await;
    proxy.on_next(ToClient, MESSAGE, Action::Hold);
    guard.release().await.unwrap();
    first.entered().await;
    let anew = async || {
        let calls = server.calls_since(&before).await;
        calls.contains_key("subscribe")
    };
    eventually(DEADLINE, "the inbox is made anew", anew).await;
    first.leave();
    assert_eq!(turns.all().await.len(), 2);

    // The new one carries messages.
    let guard = other.lock(KEY).await.unwrap();
    proxy.on_every(ToClient, MESSAGE, Action::Record);
    turns.request(waiting.lock(KEY), "third");
    until_queued(&server, 1).await;
    guard.release().await.unwrap();
    assert_eq!(turns.all().await.len(), 3);
    assert_eq!(proxy.recorded().len(), 1);
}

/// It comes up again by itself while its process waits, so that the next message finds it.
#[tokio::test]
async fn a_subscription_that_was_refused_is_made_when_it_is_allowed() {
    let server = RedisServer::start().await;
    let one = process(&server, server.url()).await;
    let other = process(&server, server.url()).await;
    server.ask("ACL SETUSER default -subscribe").await;
    let guard = other.lock(KEY).await.unwrap();
    let mut turns = Turns::default();
    turns.come(&one, "waiter").await;
    let refused = async || server.errors("NOPERM").await > 0;
    eventually(DEADLINE, "a subscription is refused", refused).await;
    server.ask("ACL SETUSER default +subscribe").await;
    let open = async || server.subscriptions().await.len() == 1;
    eventually(DEADLINE, "the inbox is open", open).await;
    guard.release().await.unwrap();
    assert_eq!(turns.names().await, ["waiter"]);
}

/// A killer that never rests makes no hot loop of it.
#[tokio::test]
async fn a_subscription_that_dies_again_and_again_is_not_made_anew_at_once() {
    let server = RedisServer::start().await;
    let [here, there] = [
        process_over_pool(&server).await,
        process_over_pool(&server).await,
    ];
    let guard = there.lock(KEY).await.unwrap();
    let waiting = tokio::spawn(here.lock(KEY).wait_forever().run(async {}));
    let (mut start, mut kills) = (None, 0);
    while kills < 7 {
        let killed = server.kill_inboxes().await;
        kills += killed;
        if killed > 0 {
            start.get_or_insert_with(tokio::time::Instant::now);
        }
    }
    // Before each of the others is killed, and after the first one, it stands or pauses for as long.
    let took = start.unwrap().elapsed();
    assert!(took >= 5 * Duration::from_millis(10), "{took:?}");
    guard.release().await.unwrap();
    within(DEADLINE, "its turn", waiting)
        .await
        .unwrap()
        .unwrap();
}

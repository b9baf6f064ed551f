//! P9 when a process dies while it waits, or is stopped. It is passed over after at most two heartbeats. When it
//! continues, nothing that it finds lets it enter.

use std::time::Duration;

use crate::support::rig::KEY;
use crate::support::turns::TTL;
use crate::support::{
    Child, DEADLINE, RedisServer, Turns, child, eventually, patient, patient_at, processes, queued,
    until_queued, within,
};
use redis::AsyncCommands;
use reentry::admin::LockInfo;
use reentry::{Locks, held};

/// A place in the queue lives for two heartbeats, and so does the first lease of a lock that has moved.
const HEARTBEAT: Duration = Duration::from_secs(2);

/// Says its token when it enters. A line from the parent ends its turn.
#[tokio::test]
async fn role_that_waits() {
    let Some(role) = child::role("role_that_waits") else {
        return;
    };
    let builder = patient_at(role.var("REDIS_URL"))
        .ttl(TTL)
        .wait(Duration::MAX);
    let locks = builder.__heartbeat(HEARTBEAT).build().await.unwrap();
    let body = async {
        let held = held(KEY).unwrap();
        role.say(format!("entered {}", held.fencing_token()));
        role.order().await;
        !held.is_lost()
    };
    let kept = locks.with_lock(KEY, body).await.unwrap();
    role.say(format!("left {kept}"));
}

struct Ground {
    server: RedisServer,
    holder: Locks,
    next: Locks,
    turns: Turns,
}

impl Ground {
    async fn start() -> Ground {
        let server = RedisServer::start().await;
        let builder = patient(&server).ttl(TTL).__heartbeat(HEARTBEAT);
        let [holder, next] = processes(&builder).await;
        Ground {
            server,
            holder,
            next,
            turns: Turns::default(),
        }
    }

    /// A process that joins the queue, and is ahead of all that join after it.
    async fn child(&self) -> Child {
        let before = queued(&self.server).await;
        let child = Child::spawn(
            module_path!(),
            "role_that_waits",
            &[("REDIS_URL", &self.server.url())],
        );
        until_queued(&self.server, before + 1).await;
        child
    }

    async fn info(&self) -> LockInfo {
        let info = self.holder.admin().inspect(KEY).await.unwrap();
        info.expect("a lock that is held")
    }

    /// The hold with which the head of the queue waits.
    async fn first_hold(&self) -> String {
        let mut connection = self.server.connection().await;
        let tag = format!("{{{KEY}}}:{KEY}");
        let first: Vec<String> = connection
            .zrange(format!("reentry:queue:{tag}"), 0, 0)
            .await
            .unwrap();
        let entry: String = connection
            .hget(format!("reentry:entries:{tag}"), &first[0])
            .await
            .unwrap();
        entry.split(' ').nth(1).unwrap().to_owned()
    }
}

/// Its place expires, so that those behind it do not even wait for its grant.
#[tokio::test]
async fn a_process_that_has_died_loses_its_place_while_the_lock_is_held() {
    let mut ground = Ground::start().await;
    let guard = ground.holder.lock(KEY).await.unwrap();
    let mut next_in_line = ground.child().await;
    next_in_line.sigkill();
    let forgotten = async || ground.info().await.waiting_processes == 0;
    eventually(DEADLINE, "its place has ended", forgotten).await;
    ground.turns.come(&ground.next, "next").await;
    let before = ground.server.commandstats().await;
    guard.release().await.unwrap();
    assert_eq!(ground.turns.names().await, ["next"]);
    let calls = ground.server.calls_since(&before).await;
    assert_eq!(calls.get("publish"), Some(&1), "nothing moved to the dead");
}

#[tokio::test]
async fn a_process_that_dies_after_the_lock_has_moved_to_it_keeps_it_for_two_heartbeats() {
    let mut ground = Ground::start().await;
    let guard = ground.holder.lock(KEY).await.unwrap();
    let mut receiver = ground.child().await;
    ground.turns.come(&ground.next, "next").await;
    let hold = ground.first_hold().await;
    receiver.sigstop();
    guard.release().await.unwrap();
    let info = ground.info().await;
    receiver.sigkill();
    assert_eq!(info.holders[0].hold_id, hold, "the lock has moved to it");
    assert!(info.remaining.unwrap() <= 2 * HEARTBEAT);
    assert_eq!(ground.turns.names().await, ["next"]);
}

/// The message waits in its socket in the meantime.
#[tokio::test]
async fn a_process_that_resumes_after_its_lease_does_not_enter_on_the_old_message() {
    let mut ground = Ground::start().await;
    let guard = ground.holder.lock(KEY).await.unwrap();
    let mut receiver = ground.child().await;
    let mut next = ground.turns.stay(ground.next.lock(KEY), "next");
    until_queued(&ground.server, 2).await;
    let hold = ground.first_hold().await;
    receiver.sigstop();
    guard.release().await.unwrap();
    assert_eq!(ground.info().await.holders[0].hold_id, hold);
    next.entered().await;
    receiver.sigcont();
    // It has read its message and sent a request again.
    until_queued(&ground.server, 1).await;
    next.leave();
    let next = ground.turns.all().await.remove(0);
    let token: u64 = receiver.wait_for_line("entered").await.parse().unwrap();
    assert!(
        token > u64::from(next.token),
        "{token} after {}",
        next.token
    );
    receiver.tell("leave");
    assert_eq!(receiver.wait_for_line("left").await, "true");
    assert!(within(DEADLINE, "it ends", receiver.finished()).await);
}

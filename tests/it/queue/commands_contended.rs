//! The cost of waiting and handing off for the server, as counted by the server.

use std::time::Duration;

use crate::support::stats::Calls;
use crate::support::{DEADLINE, RedisServer, eventually, patient, until_waiting};
use reentry::Locks;
use tokio::task::JoinSet;
use tokio::time::Instant;

fn count(calls: &Calls, name: &str) -> u64 {
    calls.get(name).copied().unwrap_or(0)
}

/// The commands that clients have sent since `before`, and the messages that the scripts have published.
async fn sent(server: &RedisServer, before: &Calls) -> u64 {
    let calls = server.calls_since(before).await;
    count(&calls, "evalsha") + count(&calls, "eval") + count(&calls, "publish")
}

/// Locks whose heartbeat is longer than a test.
async fn timeless(server: &RedisServer) -> Locks {
    let builder = patient(server).ttl(Duration::from_secs(600));
    let builder = builder.__heartbeat(Duration::from_secs(60));
    let locks = builder.build().await.unwrap();
    locks.with_lock("warm", async {}).await.unwrap();
    locks
}

/// Lets four processes contend, with this number of tasks each. A section costs at most this number of commands.
async fn contend(tasks: usize, most: f64) {
    const SECTIONS: usize = 50;
    let server = RedisServer::start().await;
    let mut processes = Vec::new();
    for _ in 0..4 {
        processes.push(timeless(&server).await);
    }
    let mut running = JoinSet::new();
    let before = server.commandstats().await;
    for locks in &processes {
        for _ in 0..tasks {
            let locks = locks.clone();
            running.spawn(async move {
                for _ in 0..SECTIONS {
                    locks.with_lock("key", async {}).await.unwrap();
                }
            });
        }
    }
    running.join_all().await;
    let requests = sent(&server, &before).await;
    let each = requests as f64 / (4 * tasks * SECTIONS) as f64;
    assert!(each <= most, "{each} for {tasks} tasks in each of 4");
}

#[tokio::test]
async fn many_tasks_send_at_most_one_and_a_half_commands_per_section() {
    contend(8, 1.5).await;
}

#[tokio::test]
async fn single_tasks_send_about_three_commands_per_section() {
    contend(1, 3.2).await;
}

/// The waiters behind the first one send nothing, and the first one sends a request at its heartbeat.
#[tokio::test]
async fn many_waiters_send_one_request_per_heartbeat() {
    let heartbeat = Duration::from_millis(200);
    let server = RedisServer::start().await;
    let holder = timeless(&server).await;
    let locks = patient(&server)
        .__heartbeat(heartbeat)
        .build()
        .await
        .unwrap();
    let guard = holder.lock("key").await.unwrap();
    let mut waiting = JoinSet::new();
    for _ in 0..32 {
        waiting.spawn(locks.with_lock("key", async {}));
    }
    until_waiting(&locks, "key", 32).await;
    let subscribed = async || server.subscriptions().await.len() == 2;
    eventually(DEADLINE, "the inbox is open", subscribed).await;
    let (before, start) = (server.commandstats().await, Instant::now());
    let five = async || sent(&server, &before).await >= 5;
    eventually(DEADLINE, "five heartbeats", five).await;
    let (asked, beats) = (
        sent(&server, &before).await,
        start.elapsed().div_duration_f64(heartbeat),
    );
    // One more is for a heartbeat that was due at the start, and one for the inbox that has just opened.
    assert!(asked as f64 <= beats + 2.0, "{asked} in {beats} heartbeats");
    guard.release().await.unwrap();
    while let Some(done) = waiting.join_next().await {
        done.unwrap().unwrap();
    }
}

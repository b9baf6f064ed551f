//! The common code of these tests: locks that are held, and the program that shows them.

use std::time::Duration;

use reentry::{LockGuard, Locks, LocksBuilder};
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::program::{Ended, end_of, reentry_for, until_waiting};
use crate::support::server::RedisServer;
use crate::support::wait::DEADLINE;

/// Runs the program for the servers of a URL to its end, without blocking this process.
pub(super) async fn run(url: &str, words: &[&str]) -> Ended {
    end_of(reentry_for(url, words)).await
}

/// Its output as JSON, line by line.
pub(super) fn lines(ended: &Ended) -> Vec<Value> {
    let lines = ended.out.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

pub(super) fn builder(server: &RedisServer) -> LocksBuilder {
    let builder = Locks::builder(server.url()).name("it").wait(Duration::MAX);
    builder.connect_timeout(DEADLINE).response_timeout(DEADLINE)
}

/// Locks of another process.
pub(super) async fn process(server: &RedisServer) -> Locks {
    builder(server)
        .build()
        .await
        .expect("a connection to the test's own server")
}

pub(super) async fn hold(locks: &Locks, key: &str) -> LockGuard {
    locks.lock(key).await.expect("a lock that is free")
}

/// A process that waits behind this number of other processes.
pub(super) async fn wait(server: &RedisServer, key: &str, others: u64) -> JoinHandle<()> {
    let locks = process(server).await;
    let waiting = {
        let (locks, key) = (locks.clone(), key.to_owned());
        tokio::spawn(async move { drop(locks.lock(key).await) })
    };
    until_waiting(&locks, key, others + 1).await;
    waiting
}

//! The keys that locks have left in a server.

use super::server::RedisServer;
use super::wait::{DEADLINE, eventually};
use redis::AsyncCommands;

/// The minimum score of a tombstone in a queue.
const TOMBSTONES: &str = "4503599627370496";

/// The prefix of the descriptions of processes, which outlive the processes and their locks.
const DESCRIPTIONS: &str = "reentry:process:";

impl RedisServer {
    /// All keys, except the descriptions of processes.
    pub async fn keys(&self) -> Vec<String> {
        let mut connection = self.connection().await;
        let mut keys: Vec<String> = connection.keys("*").await.expect("keys");
        keys.retain(|key| !key.starts_with(DESCRIPTIONS));
        keys
    }

    /// The number of keys, except the descriptions of processes.
    pub async fn key_count(&self) -> usize {
        self.keys().await.len()
    }

    /// The number of tombstones, which are holds that ended while one of their acquires was unanswered.
    pub async fn tombstones(&self) -> usize {
        let mut connection = self.connection().await;
        let lines: Vec<String> = connection.keys("reentry:queue:*").await.expect("keys");
        let mut count = 0;
        for line in lines {
            let ended = connection.zcount(line, TOMBSTONES, "+inf").await;
            count += ended.unwrap_or(0);
        }
        count
    }

    /// All keys, except queues with nothing but tombstones, and descriptions of processes.
    pub async fn leftovers(&self) -> Vec<String> {
        let mut connection = self.connection().await;
        let keys = self.keys().await;
        let mut left = Vec::new();
        for key in keys {
            let is_line = key.starts_with("reentry:queue:");
            let places = connection.zcount(&key, "-inf", format!("({TOMBSTONES}"));
            let places = places.await.unwrap_or(0);
            if !is_line || places > 0 {
                left.push(key);
            }
        }
        left
    }

    /// Waits until nothing is left over.
    pub async fn until_clean(&self) {
        let is_clean = async || self.leftovers().await.is_empty();
        eventually(DEADLINE, "nothing is left", is_clean).await;
    }
}

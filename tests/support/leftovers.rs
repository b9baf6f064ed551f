//! The keys that locks have left in a server.

use super::server::RedisServer;
use redis::AsyncCommands;

/// The minimum score of a tombstone in a queue.
const TOMBSTONES: &str = "4503599627370496";

impl RedisServer {
    /// The number of tombstones: holds that ended while an acquire of theirs was unanswered.
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

    /// All keys, except queues with nothing but tombstones.
    pub async fn leftovers(&self) -> Vec<String> {
        let mut connection = self.connection().await;
        let keys: Vec<String> = connection.keys("*").await.expect("keys");
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
}

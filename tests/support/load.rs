//! How much a server is asked, from `INFO stats`.

use std::time::{Duration, Instant};

use super::server::RedisServer;

/// What servers have been asked since some instant.
#[derive(Debug)]
pub struct Load {
    since: Instant,
    connections: u64,
    commands: u64,
}

impl Load {
    /// What these servers have been asked so far: connections that were accepted, and commands, those that were refused
    /// among them. To ask for it is a connection and a command of each.
    pub async fn of(servers: &[&RedisServer]) -> Load {
        let (mut connections, mut commands) = (0, 0);
        for server in servers {
            let stats = server.ask("INFO stats").await;
            let figure = |name: &str| -> u64 {
                let line = stats.lines().find_map(|it| it.strip_prefix(name));
                line.map_or(0, |it| it.trim().parse().expect("a number"))
            };
            connections += figure("total_connections_received:");
            commands += figure("total_commands_processed:") + figure("total_error_replies:");
        }
        Load {
            since: Instant::now(),
            connections,
            commands,
        }
    }

    /// Connections and commands since then, and how long that is.
    pub async fn so_far(&self, servers: &[&RedisServer]) -> (u64, u64, Duration) {
        let now = Load::of(servers).await;
        (
            now.connections - self.connections,
            now.commands - self.commands,
            now.since - self.since,
        )
    }
}

/// Asserts that something has happened at most so many times a second, and `more` at the beginning.
pub fn assert_rate(what: &str, count: u64, per_second: u64, length: Duration, more: u64) {
    let most = more + per_second * (length.as_secs() + 1);
    assert!(count <= most, "{count} {what} in {length:?}");
}

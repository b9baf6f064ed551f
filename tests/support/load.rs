//! The load of a server, from `INFO stats`.

use std::time::{Duration, Instant};

use super::server::RedisServer;

/// The load of servers since some instant.
#[derive(Debug)]
pub struct Load {
    since: Instant,
    connections: u64,
    commands: u64,
}

impl Load {
    /// The load of these servers so far: accepted connections, and commands, including rejected ones. This call costs
    /// one connection and one command on each server.
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

    /// The connections and commands since then, and the time since then.
    pub async fn so_far(&self, servers: &[&RedisServer]) -> (u64, u64, Duration) {
        let now = Load::of(servers).await;
        (
            now.connections - self.connections,
            now.commands - self.commands,
            now.since - self.since,
        )
    }
}

/// Asserts a maximum number of events per second, with `more` at the beginning.
pub fn assert_rate(what: &str, count: u64, per_second: u64, length: Duration, more: u64) {
    let most = more + per_second * (length.as_secs() + 1);
    assert!(count <= most, "{count} {what} in {length:?}");
}

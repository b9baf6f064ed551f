//! The connections of the crate, as a server sees them.
//!
//! Each of them has a subscription. A connection for commands is subscribed to the messages to all processes, and an
//! inbox to its own.

use super::server::RedisServer;
use super::wait::{DEADLINE, eventually};
use redis::cmd;

/// The channel of the messages to all processes.
pub const TO_ALL: &str = "reentry:inbox:all";

impl RedisServer {
    /// The channels of the open inboxes.
    pub async fn subscriptions(&self) -> Vec<String> {
        let mut connection = self.connection().await;
        let channels = cmd("PUBSUB").arg("CHANNELS").to_owned();
        let channels = channels.query_async(&mut connection).await;
        let mut channels: Vec<String> = channels.expect("the channels");
        channels.retain(|channel| channel != TO_ALL);
        channels
    }

    /// The number of connections for commands that listen to the messages to all processes.
    pub async fn listeners(&self) -> usize {
        let mut connection = self.connection().await;
        let counts = cmd("PUBSUB").arg("NUMSUB").arg(TO_ALL).to_owned();
        let counts = counts.query_async(&mut connection).await;
        let (_, count): (String, usize) = counts.expect("the count");
        count
    }

    /// Waits until this number of connections listens.
    pub async fn until_listening(&self, count: usize) {
        let listens = async || self.listeners().await == count;
        eventually(DEADLINE, "each process listens", listens).await;
    }

    /// Ends the connections of the inboxes. Returns their number.
    pub async fn kill_inboxes(&self) -> usize {
        let is_inbox = |client: &str| {
            [" cmd=subscribe", " cmd=ping", " cmd=client"]
                .iter()
                .any(|last| client.contains(last))
        };
        self.kill(is_inbox).await
    }

    /// Ends the connections for commands that have run a script.
    pub async fn kill_command_connections(&self) -> usize {
        self.kill(runs_scripts).await
    }

    async fn kill(&self, is_meant: impl Fn(&str) -> bool) -> usize {
        let clients = self.ask("CLIENT LIST TYPE pubsub").await;
        let mut killed = 0;
        for client in clients.lines().filter(|client| is_meant(client)) {
            let id = client.strip_prefix("id=").unwrap_or_default();
            let id = id.split(' ').next().unwrap_or_default();
            let count = self.ask(&format!("CLIENT KILL ID {id}")).await;
            killed += count.parse::<usize>().expect("a count");
        }
        killed
    }
}

/// Returns whether the last command of a client was a script.
fn runs_scripts(client: &str) -> bool {
    client.contains(" cmd=eval")
}

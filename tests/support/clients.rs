//! The connections of the crate, as a server sees them.
//!
//! An inbox is subscribed to the messages to its process, and to those to all processes. A connection for commands has no
//! subscription.

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

    /// The number of inboxes that listen to the messages to all processes.
    pub async fn listeners(&self) -> usize {
        let mut connection = self.connection().await;
        let counts = cmd("PUBSUB").arg("NUMSUB").arg(TO_ALL).to_owned();
        let counts = counts.query_async(&mut connection).await;
        let (_, count): (String, usize) = counts.expect("the count");
        count
    }

    /// The number of this process's connections for commands.
    pub async fn command_connections(&self) -> usize {
        let of_this_process = format!(":{}@", std::process::id());
        let clients = self.ask("CLIENT LIST TYPE normal").await;
        let names = clients
            .split([' ', '\n'])
            .filter_map(|word| word.strip_prefix("name="));
        names.filter(|name| name.contains(&of_this_process)).count()
    }

    /// Waits until this number of processes listens. Each does after its first lock.
    pub async fn until_listening(&self, count: usize) {
        let listens = async || self.listeners().await == count;
        eventually(DEADLINE, "each process listens", listens).await;
    }

    /// Ends the connections of the inboxes. Returns their number.
    pub async fn kill_inboxes(&self) -> usize {
        self.kill("pubsub", |_| true).await
    }

    /// Ends the connections for commands that have run a script.
    pub async fn kill_command_connections(&self) -> usize {
        self.kill("normal", runs_scripts).await
    }

    async fn kill(&self, of_type: &str, is_meant: impl Fn(&str) -> bool) -> usize {
        let clients = self.ask(&format!("CLIENT LIST TYPE {of_type}")).await;
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

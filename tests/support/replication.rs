//! Replication between two servers, and how it is interrupted.
//!
//! To let a replica lag, [`pause`](RedisServer::pause) it. The commands that its primary sends in the meantime stay in
//! the socket, and the replica executes them when it is resumed, even if the primary is dead by then.
//! So a paused replica loses no writes. To lose them, use
//! [`cut_replication`](RedisServer::cut_replication) before the writes, and then kill the primary.

use super::server::RedisServer;
use super::wait::{DEADLINE, eventually};

/// The options of nodes that replicate. A full copy begins immediately, and is written to a file, so that several
/// replicas share one.
pub(super) const PROMPT: [&str; 6] = [
    "--repl-diskless-sync",
    "no",
    "--repl-diskless-sync-delay",
    "0",
    "--repl-ping-replica-period",
    "1",
];

impl RedisServer {
    /// Returns whether the server reports that it is a primary.
    pub async fn is_primary(&self) -> bool {
        self.replication("role").await.as_deref() == Some("master")
    }

    /// Returns whether the server is a replica that is connected to its primary, and has its data.
    pub async fn is_linked(&self) -> bool {
        self.replication("master_link_status").await.as_deref() == Some("up")
    }

    /// Interrupts replication: no replica receives what is written here, and none can connect. The primary itself
    /// continues as before. Sentinels and other nodes still consider it healthy.
    ///
    /// The interruption ends with [`restore_replication`](Self::restore_replication), and with a restart.
    pub async fn cut_replication(&self) {
        self.ask("ACL SETUSER default -psync -sync").await;
        self.ask("CLIENT KILL TYPE replica").await;
        let alone = async || self.replication("connected_slaves").await.as_deref() == Some("0");
        eventually(DEADLINE, "the replicas are cut off", alone).await;
    }

    /// Lets replicas connect again, and waits until `count` of them are connected.
    pub async fn restore_replication(&self, count: usize) {
        self.ask("ACL SETUSER default +psync +sync").await;
        let count = count.to_string();
        let all = async || self.replication("connected_slaves").await.as_ref() == Some(&count);
        eventually(DEADLINE, "the replicas are back", all).await;
    }

    /// Waits until `replica` has everything that was written here so far.
    pub async fn until_replicated_to(&self, replica: &RedisServer) {
        let written = self.offset("master_repl_offset").await;
        let has_it = async || replica.offset("slave_repl_offset").await >= written;
        eventually(DEADLINE, "the replica has it", has_it).await;
    }

    async fn offset(&self, field: &str) -> Option<u64> {
        self.replication(field).await?.parse().ok()
    }

    /// A field of `INFO replication`, if the server responds and has it.
    async fn replication(&self, field: &str) -> Option<String> {
        let info = self.try_ask("INFO replication").await.ok()?;
        let mut fields = info.lines().filter_map(|line| line.split_once(':'));
        let value = fields.find_map(|(name, value)| (name == field).then_some(value));
        value.map(|value| value.trim_end().to_owned())
    }
}

/// The password that these options set.
pub(super) fn password<'a>(options: &[&'a str]) -> Option<&'a str> {
    let pair = options.windows(2).find(|pair| pair[0] == "--requirepass");
    pair.map(|pair| pair[1])
}

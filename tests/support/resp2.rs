//! The two ways in which a process begins to use RESP2.

use super::server::RedisServer;

/// The option of a server that has no `HELLO`.
pub const WITHOUT_HELLO: [&str; 3] = ["--rename-command", "HELLO", ""];

/// A server that rejects RESP3, and one whose URL asks for RESP2, each with that URL.
pub async fn servers_in_resp2() -> [(RedisServer, String); 2] {
    let refusing = RedisServer::start_with(&WITHOUT_HELLO).await;
    let plain = RedisServer::start().await;
    let (refused, asked) = (refusing.url(), format!("{}?protocol=resp2", plain.url()));
    [(refusing, refused), (plain, asked)]
}

impl RedisServer {
    /// Ends the connections that deliver messages.
    pub async fn kill_message_connections(&self) {
        self.ask("CLIENT KILL TYPE pubsub").await;
    }

    /// Ends all connections that deliver no messages. In RESP2 these are the connections for commands.
    pub async fn kill_other_connections(&self) {
        self.ask("CLIENT KILL TYPE normal").await;
    }
}

//! Commands to a server that may be down, or stalled.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::support::server::RedisServer;

const LIMIT: Duration = Duration::from_secs(2);

/// The time for which a server that must execute a command may be unavailable.
const PATIENCE: Duration = Duration::from_secs(180);

#[derive(Debug)]
pub(crate) enum Told {
    Answer(String),
    /// An error.
    Refused,
    /// It may have been executed, or not.
    Silent,
}

pub(crate) async fn tell(node: &RedisServer, command: &str) -> Told {
    match timeout(LIMIT, node.try_ask(command)).await {
        Ok(Ok(answer)) => Told::Answer(answer),
        Ok(Err(error)) if error.to_string().contains(": -") => Told::Refused,
        Ok(Err(_)) | Err(_) => Told::Silent,
    }
}

/// Repeats a command until the server has executed it.
pub(crate) async fn insist(node: &RedisServer, command: &str) {
    let end = Instant::now() + PATIENCE;
    while !matches!(tell(node, command).await, Told::Answer(_)) {
        assert!(
            Instant::now() < end,
            "{command} was not done in {PATIENCE:?}"
        );
        sleep(Duration::from_millis(20)).await;
    }
}

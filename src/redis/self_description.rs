//! The description of this process, which it sends to a server, so that others can show who holds a lock.
//!
//! Every connection for commands sends it when it is opened, and again long before the description expires. So the
//! description exists again soon after a server has lost its data. In a cluster one server has it. Nothing waits for it
//! and nothing depends on it. If it is missing, the ids are shown without it.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::cmd;

use super::context::with_timeout;
use crate::base::background::AbortOnDrop;
use crate::base::key::slot_of;
use crate::base::process::{Process, ProcessId};
use crate::base::timer::sleep;

/// The time for which a description lasts. It remains for some time after the process has ended.
const DESCRIPTION_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// The time between two descriptions over one connection.
const DESCRIBE_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// The time after which the description is repeated to a server that has not executed it.
const DESCRIBE_RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// The key of the description of a process.
pub(crate) fn key(id: ProcessId) -> String {
    format!("reentry:process:{id}")
}

/// The slot of the description in a cluster.
pub(super) fn slot() -> u16 {
    slot_of(key(ProcessId::this()).as_bytes())
}

/// Describes this process to a server periodically, while that is wanted.
pub(super) fn keep_described(
    driver: MultiplexedConnection,
    limit: Duration,
    is_wanted: impl Fn() -> bool + Send + 'static,
) -> AbortOnDrop {
    AbortOnDrop::spawn(async move {
        loop {
            // Asked each time: a program may want it only later, and a slot may move.
            let pause = match is_wanted() {
                true => describe(driver.clone(), limit).await,
                false => DESCRIBE_INTERVAL,
            };
            sleep(pause).await;
        }
    })
}

/// Describes this process. Returns the pause before the next description. It is one command, so that no description
/// exists without an expiry. A server that delays writes sends no response.
pub(super) async fn describe(mut driver: MultiplexedConnection, limit: Duration) -> Duration {
    let mut set = cmd("SET");
    set.arg(key(ProcessId::this()))
        .arg(Process::this().to_text())
        .arg("EX")
        .arg(DESCRIPTION_LIFE.as_secs());
    match with_timeout(limit, set.exec_async(&mut driver)).await {
        // The user is not allowed to do this, so it is repeated rarely.
        Err(error) if error.code() != Some("NOPERM") => DESCRIBE_RETRY_INTERVAL,
        _ => DESCRIBE_INTERVAL,
    }
}

//! What the server sends unasked over the connection for commands: that the connection has ended, and the messages to
//! all processes, to which every connection of our own subscribes.
//!
//! The [inbox](super::inbox) has a connection of its own, which is there only while callers wait. These messages are for
//! holders, and come so seldom that they need none.

use std::{
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use deadpool_redis::redis::{
    PushInfo, PushKind,
    aio::{MultiplexedConnection, SendError},
};
use tokio::sync::watch;

use super::{
    names::TO_ALL,
    reply::{Message, pushed},
};
use crate::{base::timer::timeout, store::Holders};

/// Who is told of the messages to all processes, once it is there.
pub(super) type Watched = Arc<OnceLock<Weak<dyn Holders>>>;

/// Subscribes to the messages to all processes. Where there is no answer in time the connection is used without them, and
/// so it is where the server does not allow it, which says the same to the inbox.
pub(super) async fn subscribe(connection: &MultiplexedConnection, limit: Duration) {
    let mut connection = connection.clone();
    let _ = timeout(limit, connection.subscribe(TO_ALL)).await;
}

/// Runs in the task that reads the connection.
pub(super) fn read(
    disconnects: watch::Sender<u64>,
    watched: Watched,
) -> impl Fn(PushInfo) -> Result<(), SendError> + Send + Sync + 'static {
    move |push| {
        match push.kind {
            PushKind::Disconnection => disconnects.send_modify(|count| *count += 1),
            PushKind::Message => {
                let holders = watched.get().and_then(Weak::upgrade);
                if let (Some(holders), Some(Message::Forced(message))) = (holders, pushed(&push)) {
                    holders.forced(message);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

//! What the server sends unasked over a connection: the messages of the channels that it has subscribed to, and that it
//! has ended.
//!
//! Every connection for commands of our own subscribes to the messages to all processes. The
//! [inbox](crate::store::redis::inbox) has a connection of its own, which is there only while callers wait. The messages to
//! all are for holders, and come so seldom that they need none.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use redis::aio::{MultiplexedConnection, SendError};
use redis::{PushInfo, PushKind};
use tokio::task::JoinHandle;

use crate::base::backoff::Backoff;
use crate::base::timer::{Elapsed, sleep, timeout};
use crate::store::records::Holders;
use crate::store::redis::wire::message::{Message, pushed};
use crate::store::redis::wire::names::TO_ALL;

/// The longest pause, jitter aside, between two attempts to subscribe.
const LONGEST: Duration = Duration::from_secs(1);

/// Who is told of the messages to all processes, once it is there.
pub(crate) type Watched = Arc<OnceLock<Weak<dyn Holders>>>;

/// Who is told what comes over a connection, in the task that reads it.
#[derive(Clone)]
pub(crate) struct Receiver {
    pub(crate) message: Arc<dyn Fn(Message) + Send + Sync>,
    /// The connection has ended.
    pub(crate) ended: Arc<dyn Fn() + Send + Sync>,
    /// Another server answers in the place of its server by now.
    pub(crate) moved: Arc<dyn Fn() + Send + Sync>,
}

impl Receiver {
    /// Heeds nothing.
    pub(crate) fn deaf() -> Self {
        Self {
            message: Arc::new(drop),
            ended: Arc::new(|| {}),
            moved: Arc::new(|| {}),
        }
    }

    pub(crate) fn push_sender(
        &self,
    ) -> impl Fn(PushInfo) -> Result<(), SendError> + Send + Sync + 'static {
        let Self { message, ended, .. } = self.clone();
        move |push| {
            match push.kind {
                PushKind::Message => pushed(&push).into_iter().for_each(|it| message(it)),
                PushKind::Disconnection => ended(),
                _ => {}
            }
            Ok(())
        }
    }
}

/// The receiver of a connection for commands.
pub(crate) fn to_holders(
    watched: Watched,
    ended: impl Fn() + Send + Sync + 'static,
    moved: impl Fn() + Send + Sync + 'static,
) -> Receiver {
    let message = move |message| {
        let holders = watched.get().and_then(Weak::upgrade);
        if let (Some(holders), Message::Forced(message)) = (holders, message) {
            holders.forced(message);
        }
    };
    Receiver {
        message: Arc::new(message),
        ended: Arc::new(ended),
        moved: Arc::new(moved),
    }
}

/// Subscribes to the messages to all processes. Where there is no answer in time, or the server refuses it for now (BUSY), the
/// connection is used without them, and a task goes on asking. That ends by itself once the connection has ended, or where
/// the server does not allow it, which says the same to the inbox.
pub(crate) async fn subscribe(
    connection: &MultiplexedConnection,
    limit: Duration,
) -> Option<JoinHandle<()>> {
    let mut connection = connection.clone();
    if is_settled(&mut connection, limit).await {
        return None;
    }
    Some(tokio::spawn(async move {
        let mut backoff = Backoff::doubling(LONGEST);
        loop {
            sleep(backoff.next_pause()).await;
            if is_settled(&mut connection, limit).await {
                return;
            }
        }
    }))
}

/// Asks for the messages to all processes once. Returns whether asking again is of no use.
async fn is_settled(connection: &mut MultiplexedConnection, limit: Duration) -> bool {
    match timeout(limit, connection.subscribe(TO_ALL)).await {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            let is_over = error.is_unrecoverable_error() || error.is_io_error();
            is_over || error.code() == Some("NOPERM")
        }
        Err(Elapsed) => false,
    }
}

//! An inbox of the test, and the messages that it has received.

use std::sync::Arc;

use redis::pipe;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::server::Server;
use crate::base::id::{InboxId, Owner};
use crate::store::{HandoffMessage, MessageListener, Store};
use crate::support::{DEADLINE, within};

/// The key in a message of the test itself. This message arrives after every message that was sent before it.
const FENCE: &str = "fence";

enum Received {
    Message(HandoffMessage),
    Contended(String),
    Missed,
}

/// A listener that records the messages that it receives.
struct Recorder(UnboundedSender<Received>);

impl MessageListener for Recorder {
    fn handoff(&self, message: HandoffMessage) {
        let _ = self.0.send(Received::Message(message));
    }

    fn contended(&self, key: &str) {
        let _ = self.0.send(Received::Contended(key.to_owned()));
    }

    fn missed(&self) {
        let _ = self.0.send(Received::Missed);
    }
}

/// The open inbox of one process.
pub(crate) struct Inbox {
    pub(crate) id: InboxId,
    /// The keys for which another process has begun to wait, as far as these messages were received.
    pub(crate) contended: Vec<String>,
    received: UnboundedReceiver<Received>,
    /// A store has only weak references to its listeners.
    recorder: Arc<Recorder>,
    /// A process has one inbox on a server, so each has a store of its own there.
    process: Option<Store>,
}

impl Inbox {
    pub(crate) fn in_memory(store: &Store, id: InboxId) -> Self {
        let mut inbox = Self::new(id);
        inbox.open(store);
        let opened = inbox.received.try_recv();
        assert!(matches!(opened, Ok(Received::Missed)), "received too early");
        inbox
    }

    /// When this returns, the inbox is subscribed: no message that is sent from now on is missed.
    pub(crate) async fn on_redis(server: &Server, id: InboxId) -> Self {
        Self::of(server.store().await, id).await
    }

    /// The inbox of the only process that uses this store.
    pub(crate) async fn of(store: Store, id: InboxId) -> Self {
        let mut inbox = Self::new(id);
        inbox.open(&store);
        let opened = within(DEADLINE, "an inbox that is open", inbox.received.recv()).await;
        assert!(
            matches!(opened, Some(Received::Missed)),
            "received too early"
        );
        inbox.process = Some(store);
        inbox
    }

    fn new(id: InboxId) -> Self {
        let (sender, received) = unbounded_channel();
        Self {
            id,
            contended: Vec::new(),
            received,
            recorder: Arc::new(Recorder(sender)),
            process: None,
        }
    }

    fn open(&self, store: &Store) {
        let recorder: Arc<dyn MessageListener> = Arc::<Recorder>::clone(&self.recorder);
        assert!(store.listen(self.id, Arc::downgrade(&recorder)), "no inbox");
    }

    /// The messages that it has received since the last call, from an in-memory store.
    pub(crate) fn received_here(&mut self) -> Vec<HandoffMessage> {
        let mut messages = Vec::new();
        while let Ok(received) = self.received.try_recv() {
            match received {
                Received::Message(message) => messages.push(message),
                Received::Contended(key) => self.contended.push(key),
                Received::Missed => panic!("nothing is missed in memory"),
            }
        }
        messages
    }

    /// The messages that it has received from a server to which a [`fence`] was sent.
    pub(crate) async fn received_there(&mut self) -> Vec<HandoffMessage> {
        let mut messages = Vec::new();
        loop {
            match within(DEADLINE, "the fence", self.received.recv()).await {
                Some(Received::Message(message)) if message.key == FENCE => return messages,
                Some(Received::Message(message)) => messages.push(message),
                Some(Received::Contended(key)) => self.contended.push(key),
                Some(Received::Missed) | None => panic!("the subscription broke"),
            }
        }
    }
}

/// Sends each of the inboxes a message that follows everything that the server has sent it up to now.
pub(crate) async fn fence(server: &Server, inboxes: impl IntoIterator<Item = InboxId>) {
    let message = format!("{} 1 1 1 {FENCE}", Owner::new().next_hold());
    let mut messages = pipe();
    for inbox in inboxes {
        messages.publish(inbox.to_string(), &message);
    }
    let mut connection = server.connection.clone();
    let sent: Result<Vec<u64>, _> = messages.query_async(&mut connection).await;
    let reached = sent.expect("PUBLISH");
    assert!(reached.iter().all(|reached| *reached == 1), "{reached:?}");
}

//! The connection for messages. Every server of a cluster gets all messages, so one connection is enough.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::known::Node;
use super::{Cluster, name};
use crate::base::error::StoreError;
use crate::store::redis::link::source::{AbortOnDrop, Opened, Opening, Receiver, Source, Timeouts};

/// Makes connections for messages, to any of the servers.
impl Source for Cluster {
    fn endpoint(&self) -> Arc<str> {
        name(&self.seeds)
    }

    fn open(self: Arc<Self>, timeouts: Timeouts, receiver: Receiver) -> Opening {
        Box::pin(async move { self.open_any(timeouts, receiver).await })
    }
}

impl Cluster {
    /// Connects to one of the servers. The receiver is told that the connection has ended as soon as the connector of that server
    /// loses its own; and when this one ends, the connector is told that one was lost.
    async fn open_any(
        self: &Arc<Self>,
        timeouts: Timeouts,
        receiver: Receiver,
    ) -> Result<Opened, StoreError> {
        let nodes = self.learnt_nodes().await?;
        let Some(node) = self.any_of(nodes) else {
            return Err(self.failed("no server of it has slots"));
        };
        let mut ends = node.connector.ends();
        let ended = Arc::clone(&receiver.ended);
        let receiver = {
            let (connector, ended) = (Arc::downgrade(&node.connector), Arc::clone(&ended));
            let ended = move || {
                connector.upgrade().iter().for_each(|it| it.lose());
                ended();
            };
            Receiver {
                ended: Arc::new(ended),
                ..receiver
            }
        };
        let address = Arc::new(self.server.at(&node.place));
        let opened = address.open(timeouts, receiver).await?;
        drop(node);
        let following = tokio::spawn(async move {
            // An error means that the server has no slots any more.
            let _ = ends.changed().await;
            ended();
        });
        let following = Some(AbortOnDrop::new(&following));
        Ok(Opened {
            following,
            ..opened
        })
    }

    /// One of the servers in turn: of those with a connection, if there are any.
    fn any_of(&self, mut nodes: Vec<Arc<Node>>) -> Option<Arc<Node>> {
        if nodes.iter().any(|node| node.connector.is_connected()) {
            nodes.retain(|node| node.connector.is_connected());
        }
        let turn = self.turn.fetch_add(1, Relaxed).checked_rem(nodes.len())?;
        nodes.into_iter().nth(turn)
    }
}

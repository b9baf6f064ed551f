//! The routing of requests to the server that has their slot.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use redis::{ErrorKind, ServerErrorKind, Value};
use tokio::select;
use tokio::time::Instant;

use super::map::named;
use super::{Cluster, Node, PAUSE};
use crate::base::error::StoreError;
use crate::base::timer::{Elapsed, after, sleep, timeout_at};
use crate::redis::address::{Place, host_and_port};
use crate::redis::connector::Connector;
use crate::redis::connector::connection::Cause;
use crate::redis::connector::connection::Connection;
use crate::redis::failure::condition;
use crate::redis::script::{Call, Way};

/// The maximum number of redirections that a request follows.
const REDIRECTIONS: usize = 5;

impl Cluster {
    /// Sends a call to the server that has the slot of its keys.
    pub(crate) async fn ask(self: &Arc<Self>, call: &Call) -> Result<Value, StoreError> {
        let slot = call.slot();
        let (mut node, mut connection) = self.connected(slot).await?;
        let mut way = Way::Plain;
        let until = after(Instant::now(), self.common.timeouts.response);
        for _ in 0..REDIRECTIONS {
            let limit = until.saturating_duration_since(Instant::now());
            let sent = node.connector.send(&connection, call, way, limit).await;
            let cause = match sent {
                Ok(reply) => return Ok(reply),
                Err(cause) => cause,
            };
            (node, way) = match redirection(&cause, &node.place) {
                Some((place, Way::Plain)) => (self.moved(slot, &place), Way::Plain),
                Some((place, Way::Asking)) => (self.asked(slot, &place), Way::Asking),
                None => {
                    if may_be_elsewhere(&cause) {
                        self.learn_soon();
                    }
                    return Err(connection.failed(call.verb(), cause));
                }
            };
            connection = match timeout_at(until, node.connector.connection()).await {
                Ok(connection) => connection?,
                Err(Elapsed) => {
                    let cause = "no connection in time to the server to which it was redirected";
                    return Err(self.failed(cause));
                }
            };
        }
        Err(self.failed("it was redirected too many times"))
    }

    /// The server that has a slot, and the connection to it. An attempt to connect is given up as soon as another server has
    /// the slot.
    async fn connected(
        self: &Arc<Self>,
        slot: u16,
    ) -> Result<(Arc<Node>, Arc<Connection>), StoreError> {
        loop {
            let begun = Instant::now();
            let Some(node) = self.owner(slot) else {
                self.learn().await?;
                if self.owner(slot).is_none() {
                    return Err(self.failed("none of its servers has the slot"));
                }
                continue;
            };
            if let Some(connection) = node.connector.present() {
                return Ok((node, connection));
            }
            let connected = select! {
                biased;
                connected = node.connector.connection() => connected,
                () = self.until_moved(slot, &node) => continue,
            };
            match connected {
                Ok(connection) => return Ok((node, connection)),
                Err(error) => {
                    let learnt = self.known.lock().learnt;
                    if learnt.is_none_or(|learnt| learnt <= begun) {
                        // The error of the connection is more specific.
                        let _ = self.learn().await;
                    }
                    if self.has(&node, slot) {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Waits until another server has the slot.
    async fn until_moved(self: &Arc<Self>, slot: u16, node: &Arc<Node>) {
        while self.has(node, slot) {
            sleep(PAUSE).await;
            // If it fails, the map stays as it is.
            let _ = self.learn().await;
        }
    }

    /// The connector of any server, because each of them gets all messages.
    pub(crate) async fn any_connector(self: &Arc<Self>) -> Result<Arc<Connector>, StoreError> {
        let node = self.any_of(self.learnt_owners().await?);
        let node = node.ok_or_else(|| self.failed("none of its servers has slots"))?;
        Ok(Arc::clone(&node.connector))
    }

    /// One of the servers in turn. Servers with a connection come first, if there are any.
    fn any_of(&self, mut nodes: Vec<Arc<Node>>) -> Option<Arc<Node>> {
        if nodes.iter().any(|node| node.connector.is_connected()) {
            nodes.retain(|node| node.connector.is_connected());
        }
        let turn = self.turn.fetch_add(1, Relaxed).checked_rem(nodes.len())?;
        nodes.into_iter().nth(turn)
    }
}

/// The server to which a request is redirected, and how the request is sent there.
pub(super) fn redirection(cause: &Cause, asked: &Place) -> Option<(Place, Way)> {
    let Cause::Driver(error) = cause else {
        return None;
    };
    let way = match error.kind() {
        ErrorKind::Server(ServerErrorKind::Moved) => Way::Plain,
        ErrorKind::Server(ServerErrorKind::Ask) => Way::Asking,
        _ => return None,
    };
    let (address, _) = error.redirect_node()?;
    Some((redirected(address, asked)?, way))
}

/// Returns whether another server may have the slot by now: this one does not see most of the others, or is no longer a
/// primary.
pub(super) fn may_be_elsewhere(cause: &Cause) -> bool {
    let Cause::Driver(error) = cause else {
        return false;
    };
    matches!(
        error.kind(),
        ErrorKind::Server(
            ServerErrorKind::ClusterDown | ServerErrorKind::MasterDown | ServerErrorKind::ReadOnly
        )
    ) || matches!(condition(error), Some("READONLY" | "NOREPLICAS"))
}

/// Reads the place in a redirection by the server at `asked`: `host:port`, or `:port` if it does not know its own name.
fn redirected(address: &str, asked: &Place) -> Option<Place> {
    let (host, port) = host_and_port(address)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Some(Place::new(named(host, asked), port?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirection_without_a_host_leads_to_another_port() {
        let asked = Place::new("asked", 1);
        let redirected = |address| redirected(address, &asked).map(|it| (it.host, it.port));
        let to = |host: &str| Some((host.to_owned(), 7));
        assert_eq!(redirected("10.0.0.1:7"), to("10.0.0.1"));
        // A server writes no brackets.
        assert_eq!(redirected("::1:7"), to("::1"));
        assert_eq!(redirected("[::1]:7"), to("::1"));
        assert_eq!(redirected(":7"), to("asked"));
        assert_eq!(redirected("x"), None);
    }
}

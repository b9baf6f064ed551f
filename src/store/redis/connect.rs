//! The connection for commands. All of them share it, and it is kept until it fails.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Duration;

use redis::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use self::common::{Common, Role};
use self::connection::{Cause, Connection, Fault};
use super::link::attempt::{Attempt, Kept};
use super::link::breaker::Breaker;
use super::link::source::Source;
use super::replication_id::ReplicationId;
use super::wire::call::{Call, Way};
use super::wire::failure;
use crate::base::error::{Effect, StoreError};
use crate::base::events;
use crate::base::sync::Mutex;

pub(super) mod asking;
pub(super) mod batches;
mod collection;
pub(super) mod common;
pub(super) mod connection;
mod opening;
pub(super) mod passage;

/// The minimum time between two suspicions because of which a connection is given up.
const SUSPICIONS: Duration = Duration::from_millis(500);

/// Keeps a connection for commands to one server, or to one server after another.
pub(crate) struct Connector {
    source: Arc<dyn Source>,
    common: Common,
    state: Mutex<ConnectorState>,
    connecting: Attempt,
    /// The number of requests in flight.
    in_flight: Arc<AtomicUsize>,
    /// Counts the connections that were lost.
    losses: AtomicU64,
    /// Counts the connections that were lost or given up.
    ends: watch::Sender<u64>,
    /// Wakes the requests that wait, when they may be sent or have failed.
    news: watch::Sender<()>,
    /// A number that changes with each loss and with each attempt to connect. It is unique among the connectors of a
    /// store.
    epoch: AtomicU64,
    role: Box<dyn Role>,
}

#[derive(Default)]
struct ConnectorState {
    kept: Kept<Arc<Connection>>,
    /// The latest attempt whose connection now leads to the wrong server.
    moved: u64,
    /// The replication ID of the server that was last connected to.
    replication_id: Option<ReplicationId>,
    breaker: Breaker,
    /// The instant at which a connection was last given up because of a suspicion.
    suspected: Option<Instant>,
}

impl ConnectorState {
    /// The connection, unless others were lost since it was made.
    fn present(&self, losses: u64) -> Option<&Arc<Connection>> {
        self.kept.present().filter(|it| it.losses == losses)
    }
}

impl Connector {
    /// A connector that has not connected yet.
    pub(super) fn new(source: Arc<dyn Source>, common: Common, role: impl Role + 'static) -> Self {
        Self {
            connecting: Attempt::new(source.endpoint()),
            source,
            common,
            state: Mutex::default(),
            in_flight: Arc::default(),
            losses: AtomicU64::new(0),
            ends: watch::Sender::new(0),
            news: watch::Sender::new(()),
            epoch: AtomicU64::new(0),
            role: Box::new(role),
        }
    }

    /// Notes that a connection was lost. From now on the present one is suspect.
    pub(super) fn lose(&self) {
        self.begin_epoch();
        self.losses.fetch_add(1, Relaxed);
        events::disconnected(&self.source.endpoint());
        self.ends.send_modify(|count| *count += 1);
        self.role.lost();
    }

    /// Notes that the connection of an attempt now leads to the wrong server. It is the present connection, or the next
    /// one.
    fn moved(&self, number: u64) {
        let concerns = {
            let mut state = self.state.lock();
            state.moved = state.moved.max(number);
            state.kept.has_or_awaits(number)
        };
        if concerns {
            self.lose();
        }
    }

    /// A count that changes whenever a connection was lost or given up.
    pub(super) fn ends(&self) -> watch::Receiver<u64> {
        self.ends.subscribe()
    }

    fn begin_epoch(&self) {
        let epoch = self.common.epochs.fetch_add(1, Relaxed) + 1;
        self.epoch.store(epoch, Relaxed);
    }

    /// A number that changes with each loss and with each attempt to connect.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Relaxed)
    }

    /// Returns whether there is a connection that is not suspect.
    pub(crate) fn is_connected(&self) -> bool {
        self.present().is_some()
    }

    /// The longest time until a request that is sent now is answered or fails. Without a connection there is no limit,
    /// because several attempts to connect may be needed.
    pub(crate) fn answers_within(&self) -> Duration {
        match self.open_passage() {
            Some(passage) if passage.connection.traffic.is_checked() => {
                self.common.timeouts.response
            }
            _ => Duration::MAX,
        }
    }

    /// Returns whether short requests travel together now.
    pub(super) fn is_busy(&self) -> bool {
        self.in_flight.load(Relaxed) >= self.common.together_from
    }

    /// Sends a call over a connection of this connector, whatever the breaker says.
    pub(super) async fn ask(
        &self,
        connection: &Connection,
        call: &Call,
    ) -> Result<Value, StoreError> {
        let limit = self.common.timeouts.response;
        let asked = self.try_ask(connection, call, Way::Plain, limit).await;
        asked.map_err(|fault| connection.failed(call.verb(), fault.cause))
    }

    /// Sends a call. Gives the connection up if the outcome requires it.
    async fn try_ask(
        &self,
        connection: &Connection,
        call: &Call,
        way: Way,
        limit: Duration,
    ) -> Result<Value, Fault> {
        let asked = connection.ask(call, way, limit).await;
        asked.inspect_err(|fault| self.met(connection, fault))
    }

    /// Gives the connection up if a fault requires it.
    fn met(&self, connection: &Connection, fault: &Fault) {
        if let Cause::Driver(error) = &fault.cause
            && failure::condition(error) == Some("NOREPLICAS")
        {
            self.source.doubt();
        }
        if fault.is_done {
            self.discard(connection.number);
        }
    }

    /// The connection, if there is one that is not suspect.
    pub(super) fn present(&self) -> Option<Arc<Connection>> {
        let losses = self.losses.load(Relaxed);
        self.state.lock().present(losses).cloned()
    }

    /// The connection. It is opened if there is none.
    pub(super) async fn connection(self: &Arc<Self>) -> Result<Arc<Connection>, StoreError> {
        loop {
            if let Some(connection) = self.connected().await? {
                return Ok(connection);
            }
        }
    }

    /// The connection. If there is none, one attempt is made. `None` if another request has already given its
    /// connection up.
    async fn connected(self: &Arc<Self>) -> Result<Option<Arc<Connection>>, StoreError> {
        if let Some(connection) = self.present() {
            return Ok(Some(connection));
        }
        let is_closed = || self.state.lock().kept.is_closed();
        if is_closed() {
            return Err(self.error(Effect::Refused, "it was closed"));
        }
        let is_needless = || self.is_connected() || is_closed();
        // The attempt has a limit of its own, but never reaches it on a runtime that is not driven.
        let limit = self.common.timeouts.connect.saturating_mul(3);
        let begin = || self.connect();
        self.connecting.outcome(limit, is_needless, begin).await?;
        // A connection that was lost in the meantime is used too: then the request fails.
        Ok(self.state.lock().kept.present().cloned())
    }

    /// Begins an attempt to connect.
    fn connect(self: &Arc<Self>) -> impl Future<Output = Result<(), StoreError>> + use<> {
        let losses = self.losses.load(Relaxed);
        let number = self.state.lock().kept.begin();
        self.begin_epoch();
        let connector = Arc::clone(self);
        async move {
            let opened = connector.open(number, losses).await.map(Arc::new);
            let (connection, opened) = (opened.as_ref().ok().cloned(), opened.map(drop));
            let unkept = connector.state.lock().kept.keep(number, connection);
            drop(unkept);
            if opened.is_ok() {
                connector.common.made.send_modify(|count| *count += 1);
            }
            opened
        }
    }

    /// The name of the server in messages, without the password.
    pub(super) fn endpoint(&self) -> Arc<str> {
        self.source.endpoint()
    }

    /// Closes the connection for good.
    pub(super) fn close(&self) {
        let connection = self.state.lock().kept.close();
        drop(connection);
        self.source.close();
    }

    /// Forgets the present connection if its response to a request that was sent at `since` is late. Other requests on
    /// it may still be answered. Many requests may suspect the connection at the same time, so this is done at most
    /// once in a while.
    pub(crate) fn suspect(&self, since: Instant) {
        let now = Instant::now();
        let mut state = self.state.lock();
        if state.suspected.is_some_and(|at| now < at + SUSPICIONS) {
            return;
        }
        let suspect = state
            .kept
            .forget_if(|connection| connection.traffic.is_late(since));
        state.suspected = suspect.as_ref().map(|_| now).or(state.suspected);
        drop(state);
        drop(suspect);
    }

    /// Forgets a connection that failed, unless it has already been replaced.
    pub(super) fn discard(&self, failed: u64) {
        let discarded = self.state.lock().kept.forget(failed);
        if discarded.is_some() {
            self.ends.send_modify(|count| *count += 1);
        }
    }

    fn error(&self, effect: Effect, cause: &'static str) -> StoreError {
        StoreError::new("connect", &self.source.endpoint(), effect, cause)
    }
}

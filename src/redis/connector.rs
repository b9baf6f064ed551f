//! The connection for commands, which all requests to one server share. It is opened when a request needs it, kept until
//! it fails, and then replaced.
//!
//! ```text
//! Down ──an attempt to connect succeeds──▶ Up ──failure, end, silence──▶ Down
//! ```
//! An attempt is a task. The requests that need the connection wait for it, and share its error. A connection alone
//! proves nothing: a proxy accepts it, and so do a replica and a cluster that is down. So an attempt to connect ends only
//! after the server has shown that it executes requests, and one attempt at a time, not every request, tries a server
//! that fails. After a write was rejected, the server must also be a primary. A pause, which grows, comes before each
//! attempt after a failure.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use redis::aio::MultiplexedConnection;
use tokio::time::Instant;

use self::shared_connection::SharedConnection;
use super::context::ConnectorContext;
use super::failure::{self, driver_error, is_redirection};
use super::script::{Call, SendMode};
use super::shared_attempts::SharedAttempt;
use super::source::{RawConnection, Source};
use crate::base::error::{FailureClass, StoreError};
use crate::base::events;
use crate::base::sync::Mutex;
use crate::base::timer::{Backoff, Elapsed, after, sleep_until};

mod opening;
pub(super) mod shared_connection;

/// The longest pause before an attempt to connect, without the jitter, which at most doubles it.
const MAX_CONNECT_PAUSE: Duration = Duration::from_millis(300);

/// A connection that has lasted for this time is replaced without a pause.
const CONNECTION_SETTLES_AFTER: Duration = Duration::from_secs(1);

/// The minimum time between two suspicions because of which a connection is given up.
const SUSPICION_INTERVAL: Duration = Duration::from_millis(500);

/// Keeps a connection for commands to one server, or to one server after another.
pub(crate) struct Connector {
    source: Arc<dyn Source>,
    context: Arc<ConnectorContext>,
    state: Mutex<ConnectorState>,
    attempts: SharedAttempt,
    /// Returns whether the server has a slot of its cluster. `None` outside a cluster.
    has_slot: Option<HasSlot>,
}

pub(super) type HasSlot = Arc<dyn Fn(u16) -> bool + Send + Sync>;

struct ConnectorState {
    stage: ConnectorStage,
    /// The connection of a server that does not execute requests. In a cluster it is kept: it still says who has which
    /// slots, and the server is not connected to again and again while the cluster is down.
    unproven: Option<RawConnection>,
    /// Whether the server has rejected a write, so that the next connection must lead to a primary.
    needs_primary: bool,
    /// The number of attempts to connect, which identify their connections.
    attempts: u64,
    /// The latest attempt that was found to lead to the wrong server before it ended.
    moved: u64,
    pauses: Backoff,
    /// The instant before which no attempt begins.
    not_before: Instant,
    /// The instant at which a connection was last given up because of a suspicion.
    suspected: Option<Instant>,
}

enum ConnectorStage {
    Down,
    Up(Arc<SharedConnection>),
    Closed,
}

impl ConnectorState {
    /// Replaces the stage. The previous one must be dropped after the mutex is released, because that may end tasks.
    #[must_use]
    fn enter(&mut self, stage: ConnectorStage) -> ConnectorStage {
        mem::replace(&mut self.stage, stage)
    }

    fn pause(&mut self, now: Instant) {
        self.not_before = after(now, self.pauses.next_pause());
    }
}

impl Connector {
    /// A connector that has not connected yet.
    pub(super) fn new(
        source: Arc<dyn Source>,
        context: Arc<ConnectorContext>,
        has_slot: Option<HasSlot>,
    ) -> Arc<Self> {
        let state = ConnectorState {
            stage: ConnectorStage::Down,
            unproven: None,
            needs_primary: false,
            attempts: 0,
            moved: 0,
            pauses: Backoff::doubling(MAX_CONNECT_PAUSE),
            not_before: Instant::now(),
            suspected: None,
        };
        Arc::new(Self {
            source,
            context,
            state: Mutex::new(state),
            attempts: SharedAttempt::default(),
            has_slot,
        })
    }

    pub(crate) fn is_connected(&self) -> bool {
        matches!(self.state.lock().stage, ConnectorStage::Up(_))
    }

    /// The connection, if there is one.
    pub(super) fn current(&self) -> Option<Arc<SharedConnection>> {
        match &self.state.lock().stage {
            ConnectorStage::Up(connection) => Some(Arc::clone(connection)),
            _ => None,
        }
    }

    /// The connection. It is opened if there is none.
    pub(super) async fn connection(self: &Arc<Self>) -> Result<Arc<SharedConnection>, StoreError> {
        match self.current() {
            Some(connection) => Ok(connection),
            // This is rare, and larger than the rest of a request.
            None => Box::pin(self.await_connection()).await,
        }
    }

    /// Sends a call to the only server.
    pub(crate) async fn ask(self: &Arc<Self>, call: &Call) -> Result<Value, StoreError> {
        self.context
            .unless_forked(call.verb(), || self.endpoint())?;
        let connection = self.connection().await?;
        let limit = self.context.timeouts.response;
        let reply = self.send(&connection, call, SendMode::Plain, limit).await;
        reply.map_err(|error| match driver_error(&error) {
            // No other server is asked here, so waiting is useless.
            Some(cause) if is_redirection(cause) => failure::one_of_cluster(&error, call.verb()),
            _ => error,
        })
    }

    /// Sends a call, and gives the connection up if the outcome requires it.
    pub(super) async fn send(
        &self,
        connection: &SharedConnection,
        call: &Call,
        mode: SendMode,
        limit: Duration,
    ) -> Result<Value, StoreError> {
        let error = |class, cause: String| {
            let endpoint = connection.server.endpoint();
            StoreError::new(call.verb(), &endpoint, class, cause)
        };
        // Redirections may have used up the time.
        if limit.is_zero() {
            let cause = "there was no time left to send the request";
            return Err(error(FailureClass::NotExecuted, cause.to_owned()));
        }
        let sent = Instant::now();
        match connection.send(call, mode, after(sent, limit)).await {
            Ok(Ok(reply)) => {
                connection.pace.note_response(sent);
                Ok(reply)
            }
            Ok(Err(error)) => {
                // Its replicas may follow another primary by now, which the sentinels know.
                if failure::condition(&error) == Some("NOREPLICAS") {
                    self.source.doubt();
                }
                if failure::ends_connection(&error) {
                    // Before the connection is given up, so that the next attempt looks for a primary.
                    if failure::is_read_only(&error) {
                        self.state.lock().needs_primary = true;
                    }
                    self.give_up(connection.number);
                // Any other error is the response of a server that works.
                } else {
                    connection.pace.note_response(sent);
                }
                let endpoint = connection.server.endpoint();
                Err(failure::request_error(call.verb(), &endpoint, error))
            }
            Err(Elapsed) => {
                // Responses arrive in order: while others keep arriving, this one is on its way.
                if connection.pace.is_silent_since(sent) || connection.pace.is_late(sent) {
                    self.give_up(connection.number);
                }
                let cause = format!("no response within {limit:?}");
                Err(error(FailureClass::OutcomeUnknown, cause))
            }
        }
    }

    /// Waits for the attempt in progress, or begins one. Another one begins if it ends with its runtime.
    async fn await_connection(self: &Arc<Self>) -> Result<Arc<SharedConnection>, StoreError> {
        let connect = self.context.timeouts.connect;
        // Longer than any attempt takes on a runtime that is driven: its pause, and the limits of its steps.
        let limit = connect
            .saturating_mul(3)
            .saturating_add(2 * MAX_CONNECT_PAUSE);
        let attempt = || Arc::clone(self).run_attempt();
        let endpoint = self.endpoint();
        self.attempts.outcome(&endpoint, limit, attempt).await?;
        // It may already be lost.
        let connection = self.current();
        connection.ok_or_else(|| self.unavailable("the connection was lost immediately"))
    }

    /// Opens a connection, after the pause that is due, and keeps it unless a later attempt has begun.
    async fn run_attempt(self: Arc<Self>) -> Result<(), StoreError> {
        let (number, not_before) = {
            let mut state = self.state.lock();
            match state.stage {
                // The attempt before this one ended when this one had just begun.
                ConnectorStage::Up(_) => return Ok(()),
                ConnectorStage::Closed => return Err(self.closed()),
                ConnectorStage::Down => state.attempts += 1,
            }
            (state.attempts, state.not_before)
        };
        // The pause is a part of the attempt: all requests wait for it together.
        sleep_until(not_before).await;
        let opened = self.open(number).await.map(Arc::new);
        // Since it began, the connector may have been closed, the connection may have led to the wrong server, and this
        // attempt may have been replaced, because its runtime was stalled.
        let (opened, _before) = {
            let mut state = self.state.lock();
            let is_right = state.moved < number;
            let is_closed = matches!(state.stage, ConnectorStage::Closed);
            let is_present =
                state.attempts == number && matches!(state.stage, ConnectorStage::Down);
            let opened = match opened {
                Ok(_) if is_closed => Err(self.closed()),
                Ok(_) if !is_right => Err(self.unavailable("it leads to another server now")),
                opened => opened,
            };
            // The failure of an attempt that was replaced says nothing about the present one.
            if opened.is_err() && is_present {
                state.pause(Instant::now());
            }
            // Nothing is kept for a next attempt, because there is none.
            let unproven = is_closed.then(|| state.unproven.take());
            let before = match &opened {
                Ok(connection) if is_present => {
                    Some(state.enter(ConnectorStage::Up(Arc::clone(connection))))
                }
                _ => None,
            };
            (opened, (before, unproven))
        };
        let connection = opened?;
        events::connected(&connection.server.endpoint(), "commands");
        // This ends the pauses of renewals that no server has executed.
        self.context.connections.send_modify(|count| *count += 1);
        Ok(())
    }

    /// Gives up the connection with this number, unless it was replaced. Whatever its server said before may no longer
    /// hold.
    pub(super) fn give_up(&self, number: u64) {
        let _before = {
            let mut state = self.state.lock();
            let now = Instant::now();
            match &state.stage {
                ConnectorStage::Up(connection) if connection.number == number => {
                    // A connection that has worked is replaced at once. A proxy whose server is away accepts each
                    // connection and closes it: then the pauses grow, or every request would open one.
                    if now >= after(connection.since, CONNECTION_SETTLES_AFTER) {
                        state.pauses.reset();
                        state.not_before = now;
                    } else {
                        state.pause(now);
                    }
                    // Under the mutex: no request finds another connection in the old generation.
                    self.context.generation.begin();
                    state.enter(ConnectorStage::Down)
                }
                // The attempt that has opened it has not ended yet.
                ConnectorStage::Down if state.attempts == number => {
                    state.moved = number;
                    return;
                }
                // Another connection has taken its place, and nothing is wrong with that one.
                _ => return,
            }
        };
        // Without the mutex, because an event runs foreign code.
        events::disconnected(&self.source.endpoint());
        self.context.generation.announce();
    }

    /// Gives up the present connection if its response to a request that was sent at `since` is late. Other requests on
    /// it may still be answered. Many requests may suspect the connection at the same time, so this is done at most
    /// once in a while.
    pub(crate) fn suspect(&self, since: Instant) {
        // The number names this connection: if another one takes its place meanwhile, that one is kept.
        let number = {
            let now = Instant::now();
            let mut state = self.state.lock();
            let is_soon = |at| now < at + SUSPICION_INTERVAL;
            match &state.stage {
                ConnectorStage::Up(connection)
                    if !state.suspected.is_some_and(is_soon) && connection.pace.is_late(since) =>
                {
                    // Given up after the mutex was released, because that locks it again.
                    let number = connection.number;
                    state.suspected = Some(now);
                    number
                }
                _ => return,
            }
        };
        self.give_up(number);
    }

    /// The generation of the store.
    pub(super) fn generation(&self) -> u64 {
        self.context.generation.number()
    }

    /// The name of the server in messages, without the password.
    pub(crate) fn endpoint(&self) -> Arc<str> {
        self.source.endpoint()
    }

    /// A connection to the server, which may not execute requests, but answers questions about itself.
    pub(super) async fn any_connection(
        self: &Arc<Self>,
    ) -> Result<MultiplexedConnection, StoreError> {
        match self.connection().await {
            Ok(connection) => Ok(connection.driver.clone()),
            Err(error) => {
                // A server whose cluster is down rejects the proof, and still says who has which slots.
                let state = self.state.lock();
                let unproven = state.unproven.as_ref().map(|it| it.driver.clone());
                unproven.ok_or(error)
            }
        }
    }

    /// Closes the connection for good.
    pub(super) fn close(&self) {
        let _before = {
            let mut state = self.state.lock();
            (state.enter(ConnectorStage::Closed), state.unproven.take())
        };
    }

    fn closed(&self) -> StoreError {
        StoreError::closed(&self.endpoint())
    }

    fn unavailable(&self, cause: &'static str) -> StoreError {
        StoreError::not_connected(&self.endpoint(), cause)
    }
}

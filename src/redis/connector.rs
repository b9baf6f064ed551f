//! The connection for commands, which all requests to one server share. It is opened when a request needs it, kept until
//! it fails, and then replaced.
//!
//! ```text
//! Down ──request──▶ Opening ──▶ Up ──failure, end, silence──▶ Down
//!   ▲                  │
//!   └─────failure──────┘
//! ```
//! Opening is a task. The requests that need the connection wait for it, and share its error. A connection alone proves
//! nothing: a proxy accepts it, and so do a replica and a cluster that is down. So an attempt to connect ends only after
//! the server has shown that it executes requests, and one attempt at a time, not every request, tries a server that
//! fails. After a write was rejected, the server must also be a primary. A pause, which grows, comes before each attempt
//! after a failure.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use redis::aio::MultiplexedConnection;
use tokio::time::Instant;

use self::connection::{Cause, Connection, Fault, Unproven};
use super::attempt::Attempt;
use super::common::Common;
use super::failure::{self, OneOfCluster};
use super::script::{Call, Way};
use super::source::Source;
use crate::base::backoff::Backoff;
use crate::base::error::{Effect, Mistake, StoreError};
use crate::base::events;
use crate::base::metrics::Purpose;
use crate::base::sync::Mutex;
use crate::base::timer::{after, sleep_until};

pub(super) mod connection;
mod opening;

/// The longest pause before an attempt to connect, without the jitter.
const LONGEST_PAUSE: Duration = Duration::from_millis(300);

/// A connection that has lasted for this time is replaced without a pause.
const SETTLED: Duration = Duration::from_secs(1);

/// The minimum time between two suspicions because of which a connection is given up.
const SUSPICIONS: Duration = Duration::from_millis(500);

/// Keeps a connection for commands to one server, or to one server after another.
pub(crate) struct Connector {
    source: Arc<dyn Source>,
    common: Common,
    state: Mutex<ConnectorState>,
    /// Returns whether the server has a slot of its cluster. `None` outside a cluster.
    has_slot: Option<HasSlot>,
}

pub(super) type HasSlot = Box<dyn Fn(u16) -> bool + Send + Sync>;

struct ConnectorState {
    stage: Stage,
    /// The connection of a server that does not execute requests.
    unproven: Option<Unproven>,
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

enum Stage {
    Down,
    Opening(Attempt<Arc<Connection>>),
    Up(Arc<Connection>),
    Closed,
}

impl ConnectorState {
    /// Replaces the stage. The previous one must be dropped after the mutex is released, because that may end tasks.
    #[must_use]
    fn enter(&mut self, stage: Stage) -> Stage {
        mem::replace(&mut self.stage, stage)
    }

    fn pause(&mut self, now: Instant) {
        self.not_before = after(now, self.pauses.next_pause());
    }
}

impl Connector {
    /// A connector that has not connected yet.
    pub(super) fn new(source: Arc<dyn Source>, common: Common, has_slot: Option<HasSlot>) -> Self {
        let state = ConnectorState {
            stage: Stage::Down,
            unproven: None,
            needs_primary: false,
            attempts: 0,
            moved: 0,
            pauses: Backoff::doubling(LONGEST_PAUSE),
            not_before: Instant::now(),
            suspected: None,
        };
        Self {
            source,
            common,
            state: Mutex::new(state),
            has_slot,
        }
    }

    /// Returns whether there is a connection.
    pub(crate) fn is_connected(&self) -> bool {
        matches!(self.state.lock().stage, Stage::Up(_))
    }

    /// The connection, if there is one.
    pub(super) fn present(&self) -> Option<Arc<Connection>> {
        match &self.state.lock().stage {
            Stage::Up(connection) => Some(Arc::clone(connection)),
            _ => None,
        }
    }

    /// The connection. It is opened if there is none.
    pub(super) async fn connection(self: &Arc<Self>) -> Result<Arc<Connection>, StoreError> {
        match self.present() {
            Some(connection) => Ok(connection),
            // This is rare, and larger than the rest of a request.
            None => Box::pin(self.opened()).await,
        }
    }

    /// Sends a call to the only server.
    pub(crate) async fn ask(self: &Arc<Self>, call: &Call) -> Result<Value, StoreError> {
        let connection = self.connection().await?;
        let limit = self.common.timeouts.response;
        match self.send(&connection, call, Way::Plain, limit).await {
            Ok(reply) => Ok(reply),
            // No other server is asked here, so waiting is useless.
            Err(Cause::Driver(error)) if failure::leads_elsewhere(&error) => {
                let error = connection.error(call.verb(), Effect::Refused, OneOfCluster(error));
                Err(error.with_mistake(Some(Mistake::Other)))
            }
            Err(cause) => Err(connection.failed(call.verb(), cause)),
        }
    }

    /// Sends a call.
    pub(super) async fn send(
        &self,
        connection: &Connection,
        call: &Call,
        way: Way,
        limit: Duration,
    ) -> Result<Value, Cause> {
        let asked = connection.ask(call, way, limit).await;
        asked.map_err(|fault| self.met(connection, fault))
    }

    /// Gives the connection up if a fault requires it.
    fn met(&self, connection: &Connection, fault: Fault) -> Cause {
        if let Cause::Driver(error) = &fault.cause
            && failure::condition(error) == Some("NOREPLICAS")
        {
            self.source.doubt();
        }
        if fault.is_done {
            if let Cause::Driver(error) = &fault.cause
                && failure::refuses_to_write(error)
            {
                self.state.lock().needs_primary = true;
            }
            self.give_up(connection.number);
        }
        fault.cause
    }

    /// Waits for the attempt in progress, or begins one. Another one begins if it ends with its runtime.
    async fn opened(self: &Arc<Self>) -> Result<Arc<Connection>, StoreError> {
        loop {
            let now = Instant::now();
            let (attempt, _before) = {
                let mut state = self.state.lock();
                match &state.stage {
                    Stage::Up(connection) => return Ok(Arc::clone(connection)),
                    Stage::Closed => return Err(self.error(Effect::Refused, "it was closed")),
                    Stage::Opening(attempt) if attempt.is_running(now) => {
                        (attempt.clone(), Stage::Down)
                    }
                    Stage::Down | Stage::Opening(_) => {
                        let attempt = self.begin(&mut state, now);
                        (attempt.clone(), state.enter(Stage::Opening(attempt)))
                    }
                }
            };
            if let Some(outcome) = attempt.outcome().await {
                return outcome;
            }
        }
    }

    /// Begins an attempt to connect, after the pause that is due.
    fn begin(
        self: &Arc<Self>,
        state: &mut ConnectorState,
        now: Instant,
    ) -> Attempt<Arc<Connection>> {
        state.attempts += 1;
        let (connector, number) = (Arc::clone(self), state.attempts);
        let at = state.not_before.max(now);
        let limit = self.common.timeouts.connect.saturating_mul(3);
        Attempt::begin(&self.endpoint(), after(at, limit), async move {
            sleep_until(at).await;
            connector.attempt(number).await
        })
    }

    /// Opens the connection with this number, and keeps it unless a later attempt has begun.
    async fn attempt(self: Arc<Self>, number: u64) -> Result<Arc<Connection>, StoreError> {
        let opened = self.open(number).await.map(Arc::new);
        let (opened, _before) = {
            let mut state = self.state.lock();
            let is_present = state.attempts == number && matches!(state.stage, Stage::Opening(_));
            let is_closed = matches!(state.stage, Stage::Closed);
            let opened = opened.and_then(|connection| {
                if is_closed {
                    return Err(self.error(Effect::Refused, "it was closed"));
                }
                let is_right = state.moved < number;
                let given_up = || self.error(Effect::None, "it leads to another server now");
                is_right.then_some(connection).ok_or_else(given_up)
            });
            if opened.is_err() && is_present {
                state.pause(Instant::now());
            }
            let unproven = is_closed.then(|| state.unproven.take());
            let next = match &opened {
                Ok(connection) => Stage::Up(Arc::clone(connection)),
                Err(_) => Stage::Down,
            };
            let before = is_present.then(|| state.enter(next));
            (opened, (before, unproven))
        };
        if let Ok(connection) = &opened {
            events::connected(&connection.endpoint, Purpose::Commands);
            self.common.made.send_modify(|count| *count += 1);
        }
        opened
    }

    /// Gives up the connection with this number, unless it was replaced. Whatever its server said before may no longer
    /// hold.
    pub(super) fn give_up(&self, number: u64) {
        let _before = {
            let mut state = self.state.lock();
            let now = Instant::now();
            match &state.stage {
                Stage::Up(connection) if connection.number == number => {
                    if now >= after(connection.since, SETTLED) {
                        state.pauses.reset();
                        state.not_before = now;
                    } else {
                        state.pause(now);
                    }
                    self.common.generation.begin();
                    state.enter(Stage::Down)
                }
                Stage::Opening(_) if state.attempts == number => {
                    state.moved = number;
                    return;
                }
                _ => return,
            }
        };
        events::disconnected(&self.source.endpoint());
        self.common.generation.announce();
    }

    /// Gives up the present connection if its response to a request that was sent at `since` is late. Other requests on
    /// it may still be answered. Many requests may suspect the connection at the same time, so this is done at most
    /// once in a while.
    pub(crate) fn suspect(&self, since: Instant) {
        let now = Instant::now();
        let suspect = {
            let mut state = self.state.lock();
            let is_soon = state.suspected.is_some_and(|at| now < at + SUSPICIONS);
            let late = match &state.stage {
                Stage::Up(connection) if !is_soon && connection.pace.is_late(since) => {
                    Some(connection.number)
                }
                _ => None,
            };
            state.suspected = late.map(|_| now).or(state.suspected);
            late
        };
        suspect.into_iter().for_each(|number| self.give_up(number));
    }

    /// The generation of the store.
    pub(super) fn generation(&self) -> u64 {
        self.common.generation.number()
    }

    /// The name of the server in messages, without the password.
    pub(crate) fn endpoint(&self) -> Arc<str> {
        self.source.endpoint()
    }

    /// A connection to the server, which may not execute requests, but answers questions about itself.
    pub(super) async fn any_connection(
        self: &Arc<Self>,
    ) -> Result<MultiplexedConnection, StoreError> {
        self.connection().await.map_or_else(
            |error| {
                let state = self.state.lock();
                let unproven = state.unproven.as_ref().map(|it| it.opened.driver.clone());
                unproven.ok_or(error)
            },
            |connection| Ok(connection.driver.clone()),
        )
    }

    /// Closes the connection for good.
    pub(super) fn close(&self) {
        let before = {
            let mut state = self.state.lock();
            (state.enter(Stage::Closed), state.unproven.take())
        };
        drop(before);
    }

    fn error(&self, effect: Effect, cause: &'static str) -> StoreError {
        StoreError::new("connect", &self.source.endpoint(), effect, cause)
    }
}

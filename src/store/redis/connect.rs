//! The connection for commands: multiplexed, cloned for every command, kept until it fails.
//!
//! That of a caller's pool is taken out of it for good: the pool checks a connection with a round trip before it hands it
//! out, and would lend it to other code too, which may select another database on it, or block it.

use std::{
    error::Error,
    fmt,
    future::poll_fn,
    io,
    pin::{Pin, pin},
    sync::{Arc, Weak},
    time::Duration,
};

use deadpool_redis::redis::{
    ErrorKind, RedisError, ServerErrorKind, Value, aio::MultiplexedConnection,
};
use futures_util::{
    FutureExt,
    future::{Either, Shared},
};
use tokio::{sync::watch, time::Instant};

use super::{
    pace::Pace,
    pushes::{self, Watched},
    reply::Unexpected,
    script::{self, Call, DriverError},
    source::{Following, Limit, Opened, Source, Timeouts},
    traffic::Traffic,
};
use crate::{
    base::{
        error::{Effect, StoreError},
        mutex::Mutex,
        timer::{Elapsed, timeout},
    },
    store::Holders,
};

/// Keeps a connection for commands.
pub(super) struct Connector {
    source: Source,
    timeouts: Timeouts,
    state: Mutex<State>,
    disconnects: watch::Sender<u64>,
    /// Who is told of the messages to all processes. A caller's pool brings none.
    watched: Watched,
}

#[derive(Debug, Default)]
struct State {
    connection: Option<Connection>,
    is_closed: bool,
    connecting: Option<Connecting>,
    /// How many attempts to connect there have been.
    attempts: u64,
}

/// An attempt to connect, shared by all requests that wait for it. It runs as a task of its own, so that a
/// request which is dropped does not cut it off. `None` if its runtime was shut down meanwhile.
type Connecting =
    Shared<Pin<Box<dyn Future<Output = Option<Result<Connection, StoreError>>> + Send>>>;

#[derive(Clone, Debug)]
struct Connection {
    driver: MultiplexedConnection,
    endpoint: Arc<str>,
    /// Tells a connection from its successor.
    number: u64,
    /// The count of disconnects when the connection was made: once that has grown, the connection is suspect.
    disconnects: u64,
    traffic: Arc<Traffic>,
    _following: Option<Arc<Following>>,
}

impl Connector {
    /// Connects nowhere yet.
    pub(super) fn new(source: Source, timeouts: Timeouts) -> Self {
        Self {
            source,
            timeouts,
            state: Mutex::default(),
            disconnects: watch::Sender::new(0),
            watched: Watched::default(),
        }
    }

    /// Tells these holders of the messages to all processes, over every connection that is made from now on.
    pub(super) fn watch(&self, holders: Weak<dyn Holders>) {
        // There is one for each `Locks`.
        let _ = self.watched.set(holders);
    }

    /// Counts the connections that were lost. The inbox adds the losses of its own.
    pub(super) fn disconnects(&self) -> &watch::Sender<u64> {
        &self.disconnects
    }

    /// Grows with every loss and with every attempt to connect.
    pub(super) fn connection_epoch(&self) -> u64 {
        let attempts = self.state.lock().attempts;
        attempts + *self.disconnects.borrow()
    }

    /// How long a request that is sent now may take. Where there is no connection, it may have to be made more
    /// than once.
    pub(super) fn answers_within(&self) -> Duration {
        if self.state.lock().connection.is_some() && !self.source.is_pool() {
            self.timeouts.response
        } else {
            Duration::MAX
        }
    }

    /// Connects, unless a connection is there already.
    pub(super) async fn connect(self: &Arc<Self>) -> Result<(), StoreError> {
        self.connection().await.map(drop)
    }

    /// Runs one script and reads its reply.
    pub(super) async fn run<T>(
        self: &Arc<Self>,
        call: Call,
        read: impl FnOnce(Value) -> Result<T, Unexpected>,
    ) -> Result<T, StoreError> {
        let Connection {
            driver,
            endpoint,
            number,
            traffic,
            ..
        } = self.connection().await?;
        let verb = call.verb();
        let failed = |effect, cause: Box<dyn Error + Send + Sync>| {
            StoreError::new(verb, &endpoint, effect, cause)
        };
        let limit = self.timeouts.response;
        let mut request = traffic.request(limit);
        let mut answer = pin!(self.send(call, driver));
        match poll_fn(|cx| request.poll(answer.as_mut(), cx)).await {
            Ok(Ok(reply)) => {
                request.answered();
                read(reply).map_err(|cause| failed(Effect::Unknown, cause.into()))
            }
            Ok(Err(error)) => {
                if self.is_connection_done(&error) {
                    self.discard(number);
                } else {
                    request.answered();
                }
                Err(failed(script::effect(&error), DriverError(error).into()))
            }
            Err(Elapsed) => {
                if request.meets_silence() {
                    self.discard(number);
                }
                let cause = format!("no answer within {limit:?}");
                Err(failed(Effect::Unknown, cause.into()))
            }
        }
    }

    /// Sends a script over a connection. The future has no timers, or leaves them to a task of the runtime
    /// that made them: any runtime may poll it, also after another one that did has ended.
    fn send(
        &self,
        call: Call,
        driver: MultiplexedConnection,
    ) -> impl Future<Output = Result<Value, RedisError>> + use<> {
        let sending = call.send(driver);
        if !self.source.is_pool() {
            return Either::Left(sending);
        }
        let sending = tokio::spawn(sending);
        Either::Right(async {
            sending.await.unwrap_or_else(|_ended| {
                let cause = "the runtime that sent the request has ended";
                Err(io::Error::new(io::ErrorKind::ConnectionAborted, cause).into())
            })
        })
    }

    async fn connection(self: &Arc<Self>) -> Result<Connection, StoreError> {
        loop {
            let connecting = {
                let mut state = self.state.lock();
                let disconnects = *self.disconnects.borrow();
                if let Some(connection) = state
                    .connection
                    .as_ref()
                    .filter(|connection| connection.disconnects == disconnects)
                {
                    return Ok(connection.clone());
                }
                if state.is_closed {
                    return Err(self.error(Effect::Refused, "it was closed"));
                }
                if state.connecting.is_none() {
                    state.attempts += 1;
                    state.connecting = Some(self.start_connecting(state.attempts, disconnects));
                }
                state.connecting.clone()
            };
            let Some(connecting) = connecting else {
                continue;
            };
            // It has a limit of its own, but never reaches it in a runtime that is not driven.
            let limit = self.timeouts.connect.saturating_mul(2);
            let result = timeout(limit, connecting.clone()).await;
            if let Ok(Some(Ok(connection))) = result {
                return Ok(connection);
            }
            // The next request makes an attempt of its own.
            let mut state = self.state.lock();
            let present = state.connecting.as_ref();
            if present.is_some_and(|present| present.ptr_eq(&connecting)) {
                state.connecting = None;
            }
            if let Ok(Some(Err(error))) = result {
                return Err(error);
            }
        }
    }

    fn start_connecting(self: &Arc<Self>, number: u64, disconnects: u64) -> Connecting {
        let connector = Arc::clone(self);
        let task = tokio::spawn(async move {
            let connection = connector.open(number, disconnects).await;
            let mut state = connector.state.lock();
            // An attempt that was given up must not replace what came after it.
            if state.attempts == number {
                state.connecting = None;
                state.connection = connection.clone().ok().filter(|_| !state.is_closed);
            }
            connection
        });
        let panicked = self.error(Effect::Refused, "the attempt to connect panicked");
        let result: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(async {
            match task.await {
                Ok(result) => Some(result),
                Err(error) => error.is_panic().then_some(Err(panicked)),
            }
        });
        result.shared()
    }

    async fn open(&self, number: u64, disconnects: u64) -> Result<Connection, StoreError> {
        let begun = Instant::now();
        let receiver = {
            let disconnects = self.disconnects.clone();
            pushes::to_holders(Arc::clone(&self.watched), move || {
                disconnects.send_modify(|count| *count += 1);
            })
        };
        let opening = self.source.open(self.timeouts, Limit::None, &receiver);
        let Opened {
            driver,
            endpoint,
            following,
        } = opening.await?;
        let pace = Pace::new(begun.elapsed());
        let is_pool = self.source.is_pool();
        if self.watched.get().is_some() && !is_pool {
            let Timeouts { connect, response } = self.timeouts;
            pushes::subscribe(&driver, connect.min(response)).await;
        }
        let traffic = if is_pool {
            Traffic::unchecked(pace)
        } else {
            Traffic::checked(pace)
        };
        Ok(Connection {
            driver,
            endpoint,
            number,
            disconnects,
            traffic,
            _following: following.map(Arc::new),
        })
    }

    /// Closes the connection, and makes no other one. A pool that was given stays as it is.
    pub(super) fn close(&self) {
        let connection = {
            let mut state = self.state.lock();
            state.is_closed = true;
            state.connection.take()
        };
        drop(connection);
    }

    /// Forgets the present connection if it owes the answer to a request that was sent at `since`. Requests on
    /// it may still be answered.
    pub(super) fn suspect(&self, since: Instant) {
        let mut state = self.state.lock();
        let late = |connection: &mut Connection| connection.traffic.is_late(since);
        drop(state.connection.take_if(late));
    }

    /// Forgets a connection that failed, unless it has been replaced already.
    fn discard(&self, failed: u64) {
        let mut state = self.state.lock();
        if state
            .connection
            .as_ref()
            .is_some_and(|connection| connection.number == failed)
        {
            state.connection = None;
        }
    }

    /// Whether the next command should get a new connection: after the end of this one, after a silence,
    /// and when another server is the primary now, or may be soon.
    fn is_connection_done(&self, error: &RedisError) -> bool {
        error.is_unrecoverable_error()
            || error.is_io_error()
            || error.is_timeout()
            || error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
            || match script::condition(error) {
                Some("READONLY") => true,
                Some("NOREPLICAS") => self.source.may_move(),
                _ => false,
            }
    }

    fn error(&self, effect: Effect, cause: &'static str) -> StoreError {
        StoreError::new("connect", &self.source.endpoint(), effect, cause)
    }
}

/// Without the source, which knows the password.
impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector")
            .field("endpoint", &self.source.endpoint())
            .field("timeouts", &self.timeouts)
            .finish_non_exhaustive()
    }
}

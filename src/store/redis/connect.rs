//! Connections to the server: multiplexed, taken out of the pool, kept until they fail.
//!
//! Going to the pool costs a round trip of its own, since it checks a connection before it hands it
//! out. So one connection is taken out of it for good and cloned for every command, and the pool is
//! asked again only after a failure. For good, since a caller's own pool would lend it to other code
//! too, which may select another database on it, or block it.

use std::{
    error::Error,
    fmt,
    future::poll_fn,
    io,
    pin::{Pin, pin},
    sync::{Arc, Weak},
    time::Duration,
};

use deadpool_redis::{
    Manager, Pool, PoolError, Runtime,
    redis::{
        AsyncConnectionConfig, ErrorKind, RedisError, ServerErrorKind, Value,
        aio::MultiplexedConnection,
    },
};
use futures_util::{
    FutureExt,
    future::{Either, Shared},
};
use tokio::{sync::watch, time::Instant};

use super::{
    address::{Address, unusable},
    pace::Pace,
    pushes::{self, Watched},
    reply::Unexpected,
    script::{self, Call, DriverError},
    traffic::Traffic,
};
use crate::{
    base::{
        error::{Effect, LockError, StoreError},
        mutex::Mutex,
        options::config as config_error,
        timer::{Elapsed, timeout},
    },
    store::Holders,
};

/// How many connections our own pool may open at a time; each is taken out of it at once.
const POOL_SIZE: usize = 2;

/// Where commands go.
pub(super) struct Connector {
    pool: Pool,
    /// Host and port for messages; never the password.
    endpoint: Arc<str>,
    timeouts: Timeouts,
    /// Whether the connections come from a caller's pool. They have timers of their own, which must
    /// not be polled by another runtime than the one that made them.
    borrowed: bool,
    state: Mutex<State>,
    disconnects: watch::Sender<u64>,
    /// Who is told of the messages to all processes. A caller's pool brings none.
    watched: Watched,
}

#[derive(Debug, Default)]
struct State {
    connection: Option<Connection>,
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
    /// Tells a connection from its successor.
    number: u64,
    /// The count of disconnects when the connection was made: once that has grown, the connection is suspect.
    disconnects: u64,
    traffic: Arc<Traffic>,
}

/// The timeouts of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    pub(crate) connect: Duration,
    pub(crate) response: Duration,
}

impl Connector {
    /// A pool of our own, whose connections report their end. Connects nowhere yet.
    pub(super) fn open(address: &Address, timeouts: Timeouts) -> Result<Self, LockError> {
        let disconnects = watch::Sender::new(0);
        let watched = Watched::default();
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(timeouts.connect))
            .set_response_timeout(None)
            .set_push_sender(pushes::read(disconnects.clone(), Arc::clone(&watched)));
        let manager = Manager::new_with_config(address.info.clone(), config).map_err(unusable)?;
        let pool = Pool::builder(manager)
            .max_size(POOL_SIZE)
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| config_error(error.to_string()))?;
        Ok(Self {
            pool,
            endpoint: Arc::clone(&address.endpoint),
            timeouts,
            borrowed: false,
            state: Mutex::default(),
            disconnects,
            watched,
        })
    }

    /// The caller's pool. Its connections do not report their end; the next command finds out.
    pub(super) fn over(pool: Pool, timeouts: Timeouts) -> Self {
        Self {
            pool,
            endpoint: Arc::from("the given pool"),
            timeouts,
            borrowed: true,
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
        if self.state.lock().connection.is_some() && !self.borrowed {
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
            number,
            traffic,
            ..
        } = self.connection().await?;
        let verb = call.verb();
        let limit = self.timeouts.response;
        let mut request = traffic.request(limit);
        let mut answer = pin!(self.send(call, driver));
        match poll_fn(|cx| request.poll(answer.as_mut(), cx)).await {
            Ok(Ok(reply)) => {
                request.answered();
                read(reply).map_err(|cause| self.error(verb, Effect::Unknown, cause))
            }
            Ok(Err(error)) => {
                if is_connection_done(&error) {
                    self.discard(number);
                } else {
                    request.answered();
                }
                Err(self.error(verb, script::effect(&error), DriverError(error)))
            }
            Err(Elapsed) => {
                if request.meets_silence() {
                    self.discard(number);
                }
                let cause = format!("no answer within {limit:?}");
                Err(self.error(verb, Effect::Unknown, cause))
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
        if !self.borrowed {
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
            let begun = Instant::now();
            let driver = connector.take_from_pool().await;
            let pace = Pace::new(begun.elapsed());
            let watches = connector.watched.get().is_some() && !connector.borrowed;
            if let (Ok(driver), true) = (&driver, watches) {
                let Timeouts { connect, response } = connector.timeouts;
                pushes::subscribe(driver, connect.min(response)).await;
            }
            let connection = driver.map(|driver| Connection {
                driver,
                number,
                disconnects,
                traffic: if connector.borrowed {
                    Traffic::unchecked(pace)
                } else {
                    Traffic::checked(pace)
                },
            });
            let mut state = connector.state.lock();
            // An attempt that was given up must not replace what came after it.
            if state.attempts == number {
                state.connecting = None;
                state.connection = connection.clone().ok();
            }
            connection
        });
        let panicked = self.error(
            "connect",
            Effect::Refused,
            "the attempt to connect panicked",
        );
        let result: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(async {
            match task.await {
                Ok(result) => Some(result),
                Err(error) => error.is_panic().then_some(Err(panicked)),
            }
        });
        result.shared()
    }

    async fn take_from_pool(&self) -> Result<MultiplexedConnection, StoreError> {
        let limit = self.timeouts.connect;
        match timeout(limit, self.pool.get()).await {
            Ok(Ok(pooled)) => {
                let mut connection = deadpool_redis::Connection::take(pooled);
                if self.borrowed {
                    // The limit is our own: this one only ends the task that waits for the answer.
                    connection.set_response_timeout(self.timeouts.response.saturating_mul(2));
                }
                Ok(connection)
            }
            Ok(Err(PoolError::Backend(error))) => {
                // A connection that could not be made has executed nothing, whatever the error.
                let effect = match script::effect(&error) {
                    Effect::Refused => Effect::Refused,
                    Effect::None | Effect::Unknown => Effect::None,
                };
                Err(self.error("connect", effect, DriverError(error)))
            }
            Ok(Err(error @ PoolError::Closed)) => {
                Err(self.error("connect", Effect::Refused, error.to_string()))
            }
            Ok(Err(error)) => Err(self.error("connect", Effect::None, error.to_string())),
            Err(Elapsed) => {
                let cause = format!("no connection within {limit:?}");
                Err(self.error("connect", Effect::None, cause))
            }
        }
    }

    /// Closes the connection. A pool of our own makes no other one; one that was given stays as it is.
    pub(super) fn close(&self) {
        if !self.borrowed {
            self.pool.close();
        }
        let connection = self.state.lock().connection.take();
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

    fn error(
        &self,
        step: &'static str,
        effect: Effect,
        cause: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> StoreError {
        StoreError::new(step, &self.endpoint, effect, cause)
    }
}

/// Without the pool, which knows the password.
impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector")
            .field("endpoint", &self.endpoint)
            .field("timeouts", &self.timeouts)
            .finish_non_exhaustive()
    }
}

/// Whether the next command should get a new connection: after the end of this one, after a silence,
/// and when the server is a replica now.
fn is_connection_done(error: &RedisError) -> bool {
    error.is_unrecoverable_error()
        || error.is_io_error()
        || error.is_timeout()
        || error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
        || script::condition(error) == Some("READONLY")
}

//! The connection for commands: multiplexed, cloned for every command, kept until it fails.
//!
//! That of a caller's pool is taken out of it for good: the pool checks a connection with a round trip before it hands it
//! out, and would lend it to other code too, which may select another database on it, or block it.

use std::{
    fmt,
    pin::Pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use deadpool_redis::redis::Value;
use futures_util::{
    FutureExt,
    future::{Shared, join},
};
use tokio::{sync::watch, time::Instant};

use super::{
    confirmer::{Confirmer, history},
    connection::{Cause, Connection, Fault},
    outages::Outages,
    pace::Pace,
    pushes::{self, Watched},
    recent::Recent,
    reply::Unexpected,
    script::{self, Call, Way},
    source::{Limit, Opened, Source, Timeouts, open},
    traffic::Traffic,
};
use crate::base::{
    error::{Effect, StoreError},
    mutex::Mutex,
    timer::timeout,
};

/// Keeps a connection for commands.
pub(super) struct Connector {
    source: Arc<dyn Source>,
    common: Common,
    state: Mutex<State>,
    /// Counts the connections that were lost.
    losses: AtomicU64,
    /// Counts those that were lost or given up.
    ends: watch::Sender<u64>,
    /// Changes with each loss, and with every attempt to connect; unique among all connectors.
    epoch: AtomicU64,
    role: Box<dyn Role>,
}

/// What its server is among those of the store.
pub(super) trait Role: Send + Sync {
    /// A connection was lost.
    fn lost(&self);

    /// Whether it has a slot.
    fn has(&self, slot: u16) -> bool;
}

/// What the connectors of one store have in common.
#[derive(Clone, Debug)]
pub(super) struct Common {
    pub(super) timeouts: Timeouts,
    /// Who is told of the messages to all processes. A caller's pool brings none.
    pub(super) watched: Watched,
    pub(super) outages: Arc<Outages>,
    /// The latest epoch of all.
    pub(super) epochs: Arc<AtomicU64>,
    pub(super) recent: Arc<Recent>,
}

impl Common {
    pub(super) fn new(timeouts: Timeouts, outages: Outages) -> Self {
        Self {
            timeouts,
            outages: Arc::new(outages),
            watched: Watched::default(),
            epochs: Arc::default(),
            recent: Arc::default(),
        }
    }

    /// Reads the answer to a call.
    pub(super) fn read<T>(
        &self,
        connection: &Connection,
        call: Call,
        reply: Value,
        read: impl FnOnce(Value) -> Result<T, Unexpected>,
    ) -> Result<T, StoreError> {
        let read = read(reply);
        let read = read.map_err(|cause| connection.error(&call, Effect::Unknown, cause))?;
        if call.is_release() {
            self.recent.answered(call, &connection.history);
        }
        Ok(read)
    }
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

impl Connector {
    /// Connects nowhere yet.
    pub(super) fn new(source: Arc<dyn Source>, common: Common, role: impl Role + 'static) -> Self {
        Self {
            source,
            common,
            state: Mutex::default(),
            losses: AtomicU64::new(0),
            ends: watch::Sender::new(0),
            epoch: AtomicU64::new(0),
            role: Box::new(role),
        }
    }

    /// A connection was lost. The present one is suspect from now on.
    pub(super) fn lose(&self) {
        self.begin_epoch();
        self.losses.fetch_add(1, Relaxed);
        self.ends.send_modify(|count| *count += 1);
        self.role.lost();
    }

    /// A connection leads to the wrong server by now: no answer on it counts any more.
    fn moved(&self, number: u64) {
        let present = self.state.lock().connection.clone();
        let moved = present.filter(|it| it.number == number);
        moved.iter().for_each(|it| it.traffic.give_up());
        self.lose();
    }

    /// Changes whenever a connection was lost or given up.
    pub(super) fn ends(&self) -> watch::Receiver<u64> {
        self.ends.subscribe()
    }

    fn begin_epoch(&self) {
        let epoch = self.common.epochs.fetch_add(1, Relaxed) + 1;
        self.epoch.store(epoch, Relaxed);
    }

    /// Changes with every loss and with every attempt to connect.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Relaxed)
    }

    pub(super) fn is_connected(&self) -> bool {
        self.state.lock().connection.is_some()
    }

    /// How long a request that is sent now may take. Where there is no connection, it may have to be made more
    /// than once.
    pub(super) fn answers_within(&self) -> Duration {
        if self.is_connected() && !self.source.is_pool() {
            self.common.timeouts.response
        } else {
            Duration::MAX
        }
    }

    /// Runs one script and reads its reply.
    pub(super) async fn run<T>(
        self: &Arc<Self>,
        call: Call,
        read: impl FnOnce(Value) -> Result<T, Unexpected>,
    ) -> Result<T, StoreError> {
        let connection = self.connection().await?;
        let limit = self.common.timeouts.response;
        match self.ask(&connection, &call, Way::Plain, limit).await {
            Ok(reply) => self.common.read(&connection, call, reply, read),
            Err(cause) => Err(connection.failed(&call, cause)),
        }
    }

    /// Sends a call over a connection of this one, which is given up where the answer says so.
    pub(super) async fn ask(
        &self,
        connection: &Connection,
        call: &Call,
        way: Way,
        limit: Duration,
    ) -> Result<Value, Cause> {
        let asked = connection.ask(call, way, limit).await;
        asked.map_err(|Fault { cause, is_done }| {
            // Another server may be the primary now, or soon.
            let lacks_replicas = || match &cause {
                Cause::Driver(error) => script::condition(error) == Some("NOREPLICAS"),
                Cause::Silence(_) => false,
            };
            if is_done || self.source.may_move() && lacks_replicas() {
                self.discard(connection.number);
            }
            cause
        })
    }

    /// The connection that is there.
    pub(super) fn present(&self) -> Option<Connection> {
        let losses = self.losses.load(Relaxed);
        let state = self.state.lock();
        let present = state.connection.as_ref();
        present.filter(|it| it.losses == losses).cloned()
    }

    /// The connection that is there, or another one.
    pub(super) async fn connection(self: &Arc<Self>) -> Result<Connection, StoreError> {
        loop {
            let connecting = {
                let mut state = self.state.lock();
                let losses = self.losses.load(Relaxed);
                let present = state.connection.as_ref();
                if let Some(connection) = present.filter(|it| it.losses == losses) {
                    return Ok(connection.clone());
                }
                if state.is_closed {
                    return Err(self.error(Effect::Refused, "it was closed"));
                }
                if state.connecting.is_none() {
                    state.attempts += 1;
                    self.begin_epoch();
                    state.connecting = Some(self.start_connecting(state.attempts, losses));
                }
                state.connecting.clone()
            };
            let Some(connecting) = connecting else {
                continue;
            };
            // It has a limit of its own, but never reaches it in a runtime that is not driven.
            let limit = self.common.timeouts.connect.saturating_mul(2);
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

    fn start_connecting(self: &Arc<Self>, number: u64, losses: u64) -> Connecting {
        let connector = Arc::clone(self);
        let task = tokio::spawn(async move {
            let connection = connector.open(number, losses).await;
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

    async fn open(self: &Arc<Self>, number: u64, losses: u64) -> Result<Connection, StoreError> {
        let begun = Instant::now();
        let Common {
            timeouts,
            watched,
            recent,
            ..
        } = &self.common;
        let receiver = {
            let connector = Arc::downgrade(self);
            let moving = Weak::clone(&connector);
            let ended = move || connector.upgrade().iter().for_each(|it| it.lose());
            let moved = move || moving.upgrade().iter().for_each(|it| it.moved(number));
            pushes::to_holders(Arc::clone(watched), ended, moved)
        };
        let opening = open(&self.source, *timeouts, Limit::None, receiver);
        let Opened {
            driver,
            endpoint,
            again,
            replicas,
            following,
        } = opening.await?;
        let pace = Pace::new(begun.elapsed());
        let is_pooled = self.source.is_pool();
        let limit = timeouts.connect.min(timeouts.response);
        let subscribing = async {
            if watched.get().is_some() && !is_pooled {
                pushes::subscribe(&driver, limit).await;
            }
        };
        let (history, ()) = join(history(&driver, *timeouts), subscribing).await;
        // Where it does not say so, it may be another one each time.
        let history = history.unwrap_or_else(|| format!("{endpoint} {number}").into());
        let traffic = if is_pooled {
            Traffic::unchecked(pace)
        } else {
            Traffic::checked(pace)
        };
        let confirmer = Confirmer::new(again, *timeouts, Arc::clone(&history), replicas);
        let connection = Connection {
            driver,
            endpoint,
            confirmer: Arc::new(confirmer),
            history,
            number,
            losses,
            traffic,
            is_pooled,
            _following: following.map(Arc::new),
        };
        let has = |slot| self.role.has(slot);
        let repeating = recent.repeat(&connection, has, timeouts.response);
        repeating.await;
        Ok(connection)
    }

    /// Repeats at a server that is connected already what another one has answered before it.
    pub(super) async fn repeat_releases(&self) {
        if let Some(connection) = self.present() {
            let Common {
                recent, timeouts, ..
            } = &self.common;
            let has = |slot| self.role.has(slot);
            recent.repeat(&connection, has, timeouts.response).await;
        }
    }

    /// Closes the connection, and makes no other one. A pool that was given stays as it is.
    pub(super) fn close(&self) {
        let connection = {
            let mut state = self.state.lock();
            state.is_closed = true;
            state.connection.take()
        };
        drop(connection);
        self.source.close();
    }

    /// Forgets the present connection if it owes the answer to a request that was sent at `since`. Requests on
    /// it may still be answered.
    pub(super) fn suspect(&self, since: Instant) {
        let mut state = self.state.lock();
        drop(
            state
                .connection
                .take_if(|connection| connection.is_late(since)),
        );
    }

    /// Forgets a connection that failed, unless it has been replaced already.
    fn discard(&self, failed: u64) {
        let is_failed = |connection: &mut Connection| connection.number == failed;
        let discarded = self.state.lock().connection.take_if(is_failed);
        if discarded.is_some() {
            self.ends.send_modify(|count| *count += 1);
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
            .field("timeouts", &self.common.timeouts)
            .finish_non_exhaustive()
    }
}

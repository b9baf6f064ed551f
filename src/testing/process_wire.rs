//! The wire between one process and the server: a connection for requests, a connection for the inbox, and the network
//! below them.
//!
//! The process sees what a process with a real server sees. A request that is sent while the server does not respond
//! fails after the response timeout, and may be executed later. The next request must connect, which has its own
//! timeout. The process detects immediately that a connection has ended, but not that it is cut off. Without failures,
//! no timer is armed and no task is woken.

use std::error::Error;
use std::future::pending;
use std::mem;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::select;
use tokio::sync::{oneshot, watch};
use tokio::task::coop::consume_budget;
use tokio::time::Instant;

use super::host::{Condition, Host};
use crate::base::error::{FailureClass, StoreError};
use crate::base::id::InboxId;
use crate::base::sync::Mutex;
use crate::base::timer::{Elapsed, timeout};
use crate::redis::Timeouts;
use crate::store::{
    ForcedMessage, ForcedReleaseListener, HandoffMessage, MemoryStore, MessageListener, Reply,
    Request, StoreFuture, Wire,
};

/// The wire of a process, as its store has it. A request may outlive its caller.
pub(super) type WireHandle = Arc<ProcessWire>;

pub(super) struct ProcessWire {
    host: Arc<Host>,
    timeouts: Timeouts,
    state: Mutex<WireState>,
    /// The number of lost connections.
    disconnects: watch::Sender<u64>,
    /// The number of connections for requests that were opened.
    connections: watch::Sender<u64>,
}

/// What the process has of its connections.
#[derive(Default)]
struct WireState {
    /// Whether all traffic is lost, in both directions.
    is_partitioned: bool,
    is_closed: bool,
    /// The number of the present connection for requests. `None` if there is none.
    connection: Option<u64>,
    inbox: Option<InboxEnd>,
    /// The receiver of messages to all processes, which arrive over the connection for requests.
    holders: Option<Weak<dyn ForcedReleaseListener>>,
}

struct InboxEnd {
    listener: Weak<dyn MessageListener>,
    is_open: bool,
}

/// A connection as a request finds it.
pub(super) struct Connected {
    number: u64,
    /// The number of lost connections at that time.
    disconnects: u64,
}

/// The events of the server and of the network.
impl ProcessWire {
    /// Ends the connections, as the server does. The process detects it, unless it is cut off.
    pub(super) fn disconnect(&self) {
        if !self.is_partitioned() {
            self.lose_connections();
        }
    }

    pub(super) fn partition(&self) {
        self.state.lock().is_partitioned = true;
    }

    /// Repairs the network. The earlier connections turn out to be dead.
    pub(super) fn heal(&self) {
        let was_partitioned = mem::take(&mut self.state.lock().is_partitioned);
        // The process notices only now that its connections are dead.
        if was_partitioned {
            self.lose_connections();
            self.subscribe_again();
        }
    }

    /// Subscribes to the inbox again, if the server can be reached now.
    pub(super) fn subscribe_again(&self) {
        let opened = {
            let mut state = self.state.lock();
            let is_reachable = self.is_reachable(&state);
            let inbox = state.inbox.as_mut().filter(|_| is_reachable);
            inbox.and_then(|inbox| inbox.set_open(true))
        };
        // Without the mutex, because the listener may send a request at once.
        notify_missed(opened);
    }

    fn lose_connections(&self) {
        let (was_connected, closed) = {
            let mut state = self.state.lock();
            let closed = state.inbox.as_mut().and_then(|inbox| inbox.set_open(false));
            (state.connection.take().is_some(), closed)
        };
        if was_connected || closed.is_some() {
            // The number changes before the listener is notified: what it sends then belongs to the new generation.
            self.disconnects.send_modify(|count| *count += 1);
        }
        notify_missed(closed);
    }

    fn is_partitioned(&self) -> bool {
        self.state.lock().is_partitioned
    }

    fn is_reachable(&self, state: &WireState) -> bool {
        !state.is_partitioned && self.host.condition() == Condition::Running
    }
}

/// The requests of the process.
impl ProcessWire {
    pub(super) fn new(host: &Arc<Host>, timeouts: Timeouts) -> Self {
        Self {
            host: Arc::clone(host),
            timeouts,
            state: Mutex::default(),
            disconnects: watch::Sender::new(0),
            connections: watch::Sender::new(0),
        }
    }

    /// Returns the present connection, or a new one. Returns `None` while the server does not respond.
    pub(super) fn try_connect(&self) -> Option<Result<Connected, StoreError>> {
        let failed = |class, cause| Some(Err(failure("connect", class, cause)));
        let mut state = self.state.lock();
        if state.is_closed {
            return failed(FailureClass::Permanent, "the connection is closed");
        }
        let disconnects = self.disconnects();
        let known = state.connection;
        let number = match (known, self.host.condition()) {
            // A connection is kept although the server is paused or cut off: the process does not notice that.
            (Some(number), _) => number,
            // It waits, as for a server that does not respond, until its limit.
            _ if state.is_partitioned => return None,
            (None, Condition::Paused) => return None,
            (None, Condition::Stopped) => {
                return failed(FailureClass::NotExecuted, "connection refused");
            }
            (None, Condition::Running) => *self.connections.borrow() + 1,
        };
        state.connection = Some(number);
        // After the mutex was released: a task that is woken may look at the connection.
        drop(state);
        if known.is_none() {
            self.connections.send_replace(number);
        }
        Some(Ok(Connected {
            number,
            disconnects,
        }))
    }

    async fn connected(&self) -> Result<Connected, StoreError> {
        let limit = self.timeouts.connect;
        let connecting = self.host.wait_until(|| self.try_connect());
        timeout(limit, connecting).await.unwrap_or_else(|Elapsed| {
            let cause = format!("no connection within {limit:?}");
            Err(failure("connect", FailureClass::NotExecuted, cause))
        })
    }

    /// Sends a request, and waits for its response.
    async fn run(&self, request: Request) -> Result<Reply, StoreError> {
        let step = request.name();
        let connected = self.connected().await?;
        // A request over a cut network is lost. Otherwise the server has it, whatever becomes of its caller.
        let (answer, mut answered) = oneshot::channel();
        if !self.is_partitioned() {
            let host = Arc::clone(&self.host);
            self.host.receive(Box::new(move || {
                // The caller may have stopped waiting.
                let _ = answer.send(request.execute(&host.store));
            }));
        }
        // A server that works has already answered, so no timer is armed, and no task is woken.
        if let Ok(answer) = answered.try_recv() {
            return Ok(answer);
        }
        let limit = self.timeouts.response;
        let answered = async {
            match answered.await {
                // The response is lost if the network was cut while the request was under way.
                Ok(answer) if !self.is_partitioned() => Ok(answer),
                _ => pending().await,
            }
        };
        let lost = || (self.disconnects() != connected.disconnects).then_some(());
        // Biased: a response that has arrived counts, even if the connection was lost after it.
        select! {
            biased;
            answer = timeout(limit, answered) => answer.unwrap_or_else(|Elapsed| {
                // The next request uses another connection.
                let mut state = self.state.lock();
                state.connection.take_if(|present| *present == connected.number);
                let cause = format!("no response within {limit:?}");
                Err(failure(step, FailureClass::OutcomeUnknown, cause))
            }),
            () = self.host.wait_until(lost) => {
                Err(failure(step, FailureClass::OutcomeUnknown, "the connection was lost"))
            }
        }
    }

    fn disconnects(&self) -> u64 {
        *self.disconnects.borrow()
    }
}

impl Wire for WireHandle {
    fn store(&self) -> &MemoryStore {
        &self.host.store
    }

    fn carry(&self, request: Request) -> StoreFuture<Reply> {
        let wire = Self::clone(self);
        Box::pin(async move {
            // Without failures nothing here waits, so a loop around a lock would starve other tasks.
            consume_budget().await;
            wire.run(request).await
        })
    }

    fn connect(&self) -> StoreFuture<()> {
        let wire = Self::clone(self);
        Box::pin(async move { wire.connected().await.map(drop) })
    }

    fn listen(&self, inbox: InboxId, listener: Weak<dyn MessageListener>) -> bool {
        let is_open = {
            let mut state = self.state.lock();
            if let Some(inbox) = &state.inbox {
                return inbox.is_open;
            }
            let is_open = !state.is_closed && self.is_reachable(&state);
            // It is there before the store knows the wire, because the store notifies a new listener at once.
            state.inbox = Some(InboxEnd { listener, is_open });
            is_open
        };
        // The server delivers to the wire, which loses what a cut network loses.
        let listener: Weak<dyn MessageListener> = Arc::<ProcessWire>::downgrade(self);
        self.host.store.listen(inbox, listener);
        is_open
    }

    fn watch(&self, holders: Weak<dyn ForcedReleaseListener>) {
        self.state.lock().holders = Some(holders);
        let wire: Weak<dyn ForcedReleaseListener> = Arc::<ProcessWire>::downgrade(self);
        self.host.store.watch(wire);
    }

    /// The next request uses another connection, unless the server can be reached now.
    fn suspect(&self, _since: Instant) {
        let mut state = self.state.lock();
        if !self.is_reachable(&state) {
            state.connection = None;
        }
    }

    fn answers_within(&self) -> Duration {
        match self.state.lock().connection {
            Some(_) => self.timeouts.response,
            // It has to connect first, which has a limit of its own.
            None => Duration::MAX,
        }
    }

    fn close(&self) {
        {
            let mut state = self.state.lock();
            state.is_closed = true;
            state.connection = None;
            state.inbox = None;
        }
        // Those who wait for a connection find that there will be none.
        self.host.notify_changed();
    }

    fn generations(&self) -> watch::Receiver<u64> {
        self.disconnects.subscribe()
    }

    fn connections(&self) -> Option<watch::Receiver<u64>> {
        Some(self.connections.subscribe())
    }
}

/// The messages of the server.
impl ProcessWire {
    /// The listener of the inbox. `None` while no message arrives.
    fn listener(&self) -> Option<Arc<dyn MessageListener>> {
        let state = self.state.lock();
        let open = state.inbox.as_ref().filter(|inbox| inbox.is_open);
        let reachable = open.filter(|_| !state.is_partitioned);
        reachable.and_then(|inbox| inbox.listener.upgrade())
    }
}

impl ForcedReleaseListener for ProcessWire {
    fn forced(&self, message: ForcedMessage) {
        let holders = {
            let state = self.state.lock();
            let is_reachable = state.connection.is_some() && !state.is_partitioned;
            let holders = state.holders.as_ref().filter(|_| is_reachable);
            holders.and_then(Weak::upgrade)
        };
        if let Some(holders) = holders {
            holders.forced(message);
        }
    }
}

impl InboxEnd {
    /// Opens or closes the inbox. If that is a change, returns the listener, which may have missed messages or will
    /// miss them.
    fn set_open(&mut self, is_open: bool) -> Option<Weak<dyn MessageListener>> {
        let was_open = mem::replace(&mut self.is_open, is_open);
        (was_open != is_open).then(|| Weak::clone(&self.listener))
    }
}

fn notify_missed(listener: Option<Weak<dyn MessageListener>>) {
    if let Some(listener) = listener.as_ref().and_then(Weak::upgrade) {
        listener.missed();
    }
}

fn failure(
    step: &'static str,
    class: FailureClass,
    cause: impl Into<Box<dyn Error + Send + Sync>>,
) -> StoreError {
    StoreError::new(step, &Arc::from("the server in memory"), class, cause)
}

impl MessageListener for ProcessWire {
    fn handoff(&self, message: HandoffMessage) {
        if let Some(listener) = self.listener() {
            listener.handoff(message);
        }
    }

    fn contended(&self, key: &str) {
        if let Some(listener) = self.listener() {
            listener.contended(key);
        }
    }

    fn missed(&self) {
        if let Some(listener) = self.listener() {
            listener.missed();
        }
    }
}

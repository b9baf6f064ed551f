//! The inbox: one subscription, on a connection of its own, over which the server tells this process
//! that a lock has moved to it.
//!
//! A message may be lost, or come late: it only spares a waiter the time until it asks again. The inbox
//! is opened when somebody has to wait, comes back after an outage for as long as that takes, and is
//! closed when nobody has waited for a while.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use deadpool_redis::redis::{
    AsyncConnectionConfig, Client, FromRedisValue, PushInfo, PushKind, RedisError,
    aio::{MultiplexedConnection, SendError},
    cmd,
};
use tokio::{
    select,
    sync::{Notify, watch},
    task::JoinHandle,
    time::Instant,
};

use super::{
    address::Address,
    connect::{DriverError, Timeouts},
    reply, script,
};
use crate::{
    error::StoreError, id::InboxId, mutex::Mutex, releaser::growing_pauses, report,
    store::Listener, timer::sleep,
};

/// The longest pause between two attempts to come back, jitter aside.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How long nobody must have waited before the inbox is closed, to within as much again.
const IDLE: Duration = Duration::from_secs(5);

/// A task that has not heard a doubt for so long stands still with its runtime.
const DEAF: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Doubt {
    raised: Notify,
    /// Since when it has not been heard.
    since: Mutex<Option<Instant>>,
}

pub(super) struct Inbox {
    address: Address,
    timeouts: Timeouts,
    outages: watch::Sender<u64>,
    doubt: Arc<Doubt>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Inbox {
    pub(super) fn new(address: Address, timeouts: Timeouts, outages: watch::Sender<u64>) -> Self {
        Self {
            address,
            timeouts,
            outages,
            doubt: Arc::default(),
            task: Mutex::default(),
        }
    }

    /// Opens the inbox, unless it is open. A runtime that ends takes its connections with it; then
    /// the next one to wait opens the inbox again.
    pub(super) fn open(&self, id: InboxId, listener: Weak<dyn Listener>) {
        let mut task = self.task.lock();
        if task.as_ref().is_none_or(JoinHandle::is_finished) {
            let subscriber = Subscriber {
                id,
                listener,
                address: self.address.clone(),
                timeouts: self.timeouts,
                outages: self.outages.clone(),
                doubt: Arc::clone(&self.doubt),
            };
            *task = Some(tokio::spawn(subscriber.run()));
        }
    }

    /// The subscription is checked, and made anew if its connection is dead.
    pub(super) fn doubt(&self) {
        let since = *self.doubt.since.lock().get_or_insert_with(Instant::now);
        if since.elapsed() > DEAF
            && let Some(task) = self.task.lock().take()
        {
            // Whoever waits next opens another one.
            task.abort();
            *self.doubt.since.lock() = None;
        }
        self.doubt.raised.notify_one();
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        if let Some(task) = self.task.lock().take() {
            task.abort();
        }
    }
}

/// Without the address, which knows the password.
impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox")
            .field("endpoint", &self.address.endpoint)
            .finish_non_exhaustive()
    }
}

/// How a subscription ends.
enum End {
    Idle,
    Dead,
}

/// The task that keeps the subscription.
struct Subscriber {
    id: InboxId,
    listener: Weak<dyn Listener>,
    address: Address,
    timeouts: Timeouts,
    outages: watch::Sender<u64>,
    doubt: Arc<Doubt>,
}

impl Subscriber {
    async fn run(self) {
        let mut pauses = growing_pauses(LONGEST_PAUSE, 2.0);
        while self
            .listener
            .upgrade()
            .is_some_and(|listener| !listener.is_idle())
        {
            let ended = Arc::new(Notify::new());
            match self.subscribe(&ended).await {
                Ok(mut connection) => {
                    let began = Instant::now();
                    // What has moved until now was told to nobody.
                    if let Some(listener) = self.listener.upgrade() {
                        listener.missed();
                    }
                    match self.keep(&mut connection, &ended).await {
                        End::Idle => return,
                        // The server may have lost its data together with the connection.
                        End::Dead => self.outages.send_modify(|count| *count += 1),
                    }
                    if began.elapsed() > LONGEST_PAUSE {
                        pauses = growing_pauses(LONGEST_PAUSE, 2.0);
                    } else {
                        sleep(pauses.next().unwrap_or_default()).await;
                    }
                }
                Err(error) => {
                    let effect = script::effect(&error);
                    let error = DriverError(error);
                    let error = StoreError::new("subscribe", &self.address.endpoint, effect, error);
                    report::subscribe_retried(self.id, &error);
                    sleep(pauses.next().unwrap_or_default()).await;
                }
            }
        }
    }

    /// Waits until the connection has died, or nobody needs it.
    async fn keep(&self, connection: &mut MultiplexedConnection, ended: &Notify) -> End {
        let mut was_idle = false;
        loop {
            select! {
                biased;
                () = ended.notified() => return End::Dead,
                () = self.doubt.raised.notified() => {
                    *self.doubt.since.lock() = None;
                    if cmd("PING").exec_async(connection).await.is_err() {
                        return End::Dead;
                    }
                }
                () = sleep(IDLE) => {
                    let is_idle = self.listener.upgrade().is_none_or(|listener| listener.is_idle());
                    if is_idle && was_idle {
                        return End::Idle;
                    }
                    was_idle = is_idle;
                }
            }
        }
    }

    async fn subscribe(&self, ended: &Arc<Notify>) -> Result<MultiplexedConnection, RedisError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.timeouts.connect))
            .set_response_timeout(Some(self.timeouts.response))
            .set_push_sender(deliver(Weak::clone(&self.listener), Arc::clone(ended)));
        let client = Client::open(self.address.info.clone())?;
        let mut connection = client
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        connection.subscribe(self.id.to_string()).await?;
        Ok(connection)
    }
}

/// Tells the listener on the spot, in the task that reads the connection.
fn deliver(
    listener: Weak<dyn Listener>,
    ended: Arc<Notify>,
) -> impl Fn(PushInfo) -> Result<(), SendError> + Send + Sync + 'static {
    move |push| {
        match push.kind {
            PushKind::Message => {
                let message = push.data.get(1).map(String::from_redis_value_ref);
                let moved = message
                    .and_then(Result::ok)
                    .as_deref()
                    .and_then(reply::moved);
                if let (Some(moved), Some(listener)) = (moved, listener.upgrade()) {
                    listener.moved(moved);
                }
            }
            PushKind::Disconnection => ended.notify_one(),
            _ => {}
        }
        Ok(())
    }
}

//! The inbox: one subscription, on a connection of its own, over which the servers send messages to this process.
//!
//! A message may be lost, or arrive late: it only saves its receiver the time until his next request. The inbox is
//! opened at the server of a connection for commands, and is kept until it is closed. After a disconnect the
//! subscription is repeated until it succeeds. While it is broken, the receivers send requests with growing pauses.
//!
//! No wake-up is lost. The stage changes before the receivers are woken, and a receiver reads it before it pauses. So the
//! receiver reads the new stage, or its pause is cut short.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use redis::Value;
use redis::aio::{PubSub, PubSubSink, PubSubStream};
use tokio::select;
use tokio::sync::watch;
use tokio::time::Instant;

use super::connector::Connector;
use super::context::{ConnectorContext, with_timeout};
use super::failure::request_error;
use super::servers::Servers;
use super::source::{Source, open_in_time};
use crate::base::background::AbortOnDrop;
use crate::base::error::StoreError;
use crate::base::events::{self, WarnLimiter};
use crate::base::sync::{Mutex, OnDrop};
use crate::base::timer::{Backoff, sleep, timeout};

/// The time after which a subscription counts as settled: it is then repeated immediately when it dies. The shortest
/// pause is equally long, so that no two attempts of one task are closer together.
const SUBSCRIPTION_SETTLES_AFTER: Duration = Duration::from_millis(10);

/// The longest pause between two attempts to subscribe, without the jitter.
const MAX_SUBSCRIBE_PAUSE: Duration = Duration::from_secs(1);

/// The pause after the subscription was rejected, for example because the user may not subscribe. The inbox is needed
/// as long as there are locks, and each attempt opens a connection.
const REJECTED_PAUSE: Duration = Duration::from_secs(10);

/// The time between two checks of a subscription. It is shorter than the time after which a firewall or a balancer forgets
/// a connection without traffic.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The receiver of messages.
pub(crate) trait MessageHandler: Send + Sync {
    /// A message has arrived. This is called in the task that reads the connection.
    fn received(&self, text: &str);

    /// The stage of the subscription has changed. Messages may have been missed.
    fn missed(&self);
}

/// The channels of a subscription. The first one is that of this process.
pub(crate) struct Subscription {
    pub(crate) channels: [String; 2],
    pub(crate) handler: Box<dyn MessageHandler>,
}

pub(crate) struct Inbox {
    context: Arc<SubscriberContext>,
    task: Mutex<Option<AbortOnDrop>>,
}

/// What the subscribers of an inbox share. One follows the other.
struct SubscriberContext {
    servers: Servers,
    connectors: Arc<ConnectorContext>,
    stage: Mutex<InboxStage>,
    /// Selects the failures that are warned of.
    failures: WarnLimiter,
}

/// The state of a subscription, as its task reports it to the waiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InboxStage {
    /// The subscription is opened for the first time. The waiters send one more request when it is open.
    Opening,
    Open,
    /// The subscription has died, or could not be opened, and is repeated, or its task has ended.
    Broken,
}

impl Inbox {
    pub(crate) fn new(servers: Servers, connectors: Arc<ConnectorContext>) -> Self {
        let context = SubscriberContext {
            servers,
            connectors,
            stage: Mutex::new(InboxStage::Opening),
            failures: WarnLimiter::default(),
        };
        Self {
            context: Arc::new(context),
            task: Mutex::default(),
        }
    }

    /// Opens the inbox, unless it is open. Returns false while it is broken. A runtime that ends takes the inbox with
    /// it. Then it is opened by the next caller.
    pub(crate) fn open(&self, subscribe: impl FnOnce() -> Subscription) -> bool {
        // Locked to the end, so that two callers do not open it twice.
        let mut task = self.task.lock();
        // A task that has finished has ended with its runtime.
        if task.as_ref().is_some_and(|task| !task.0.is_finished()) {
            return *self.context.stage.lock() != InboxStage::Broken;
        }
        // Opening, not broken: the first waiters rely on it, and are woken if it cannot be opened.
        *self.context.stage.lock() = InboxStage::Opening;
        let subscriber = Subscriber {
            subscription: subscribe(),
            context: Arc::clone(&self.context),
        };
        *task = Some(AbortOnDrop::spawn(subscriber.run()));
        true
    }

    /// Closes the inbox. The next waiter would open it again.
    pub(crate) fn close(&self) {
        drop(self.task.lock().take());
    }
}

struct Subscriber {
    subscription: Subscription,
    context: Arc<SubscriberContext>,
}

impl Subscriber {
    async fn run(self) {
        // However the task ends: waiters on another runtime do not rely on the inbox then, and open it again.
        let _ending = OnDrop(|| self.enter(InboxStage::Broken));
        // The pauses grow while subscriptions fail, and begin anew with one that has settled.
        let mut pauses = Backoff::doubling(MAX_SUBSCRIBE_PAUSE);
        loop {
            // The subscription is dropped with its connection when this ends.
            let pause = self.receive().await;
            // Before the pause: the waiters must not rely on the subscription meanwhile.
            self.enter(InboxStage::Broken);
            match pause {
                Some(least) => sleep(pauses.next_pause().max(least)).await,
                None => pauses.reset(),
            }
        }
    }

    /// Subscribes, and receives messages as long as possible. Returns the least pause before the next attempt; `None` if
    /// the subscription had settled.
    async fn receive(&self) -> Option<Duration> {
        // Watched before the connection is there, so that its loss is noticed from the first moment on.
        let generations = self.context.connectors.generation.watch();
        let Ok((connector, server)) = self.server().await else {
            // The requests report why there is no connection for commands.
            return Some(Duration::ZERO);
        };
        let subscribed = match self.subscribe(&server).await {
            Ok(subscribed) => subscribed,
            Err(error) => {
                let [inbox, _] = &self.subscription.channels;
                events::subscribe_retried(inbox, &error, &self.context.failures);
                return Some(match error.is_denied() {
                    true => REJECTED_PAUSE,
                    false => Duration::ZERO,
                });
            }
        };
        let began = Instant::now();
        // For a lock that moved before this, no message was received.
        self.enter(InboxStage::Open);
        let (mut requests, messages) = subscribed.split();
        let endpoint = server.endpoint();
        // Biased: messages that have arrived are delivered before the connection is found to be dead.
        select! {
            biased;
            () = self.deliver(messages) => {}
            () = self.until_dead(&connector, &endpoint, generations, &mut requests) => {}
        }
        // One that dies at once is repeated after a pause. Otherwise a server that ends each of them would get one
        // after the other.
        (began.elapsed() < SUBSCRIPTION_SETTLES_AFTER).then_some(Duration::ZERO)
    }

    /// Changes the stage, and wakes the receivers. They rely on the previous stage, and may have missed a message.
    fn enter(&self, stage: InboxStage) {
        // The mutex is free again when the receivers are woken, because they read the stage at once.
        let before = mem::replace(&mut *self.context.stage.lock(), stage);
        if before != stage {
            self.subscription.handler.missed();
        }
    }

    /// The connector of a server, and what opens further connections to it. A connection for commands shows that the
    /// server works. In a cluster any server will do: each gets all messages.
    async fn server(&self) -> Result<(Arc<Connector>, Arc<dyn Source>), StoreError> {
        let connector = self.context.servers.any_connector().await?;
        let server = Arc::clone(&connector.connection().await?.server);
        Ok((connector, server))
    }

    async fn subscribe(&self, server: &Arc<dyn Source>) -> Result<PubSub, StoreError> {
        let timeouts = self.context.connectors.timeouts;
        let opening = open_in_time(server, timeouts, |it| it.open_messages());
        let mut subscribed = opening.await?;
        let channels = &self.subscription.channels[..];
        let subscribing = with_timeout(timeouts.response, subscribed.subscribe(channels)).await;
        let endpoint = server.endpoint();
        subscribing.map_err(|error| request_error("subscribe", &endpoint, error))?;
        events::connected(&endpoint, "messages");
        Ok(subscribed)
    }

    /// Delivers the messages until the connection has ended.
    async fn deliver(&self, mut messages: PubSubStream) {
        while let Some(message) = messages.next().await {
            let text = message.get_payload::<String>().unwrap_or_default();
            self.subscription.handler.received(&text);
        }
    }

    /// Waits until the connection is found to be dead, or the connection for commands leads to another server. Both are
    /// checked every few seconds, and when a connection for commands was lost.
    async fn until_dead(
        &self,
        connector: &Arc<Connector>,
        endpoint: &str,
        mut generations: watch::Receiver<u64>,
        requests: &mut PubSubSink,
    ) {
        loop {
            // Without messages, nothing else shows that the network between has forgotten the connection.
            let _ = timeout(CHECK_INTERVAL, generations.changed()).await;
            // Without a connection for commands, the next attempt has to wait for one anyway.
            let Ok(present) = connector.connection().await else {
                return;
            };
            // After a failover the old server may still be there, but nothing is published at it.
            if *present.server.endpoint() != *endpoint {
                return;
            }
            // Any answer shows that the connection works, even that the user may not send a PING.
            let limit = self.context.connectors.timeouts.response;
            let pong = with_timeout(limit, requests.ping::<Value>());
            if pong.await.is_err() {
                return;
            }
        }
    }
}

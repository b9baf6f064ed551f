//! Locks in Redis.

use std::future;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::future::Either;
use redis::Value;
use tokio::sync::oneshot::Receiver;

use self::batch::{BatchItem, RELEASED};
use self::batches::{Batches, InFlightGuard, ItemReply};
use self::codec::{TO_ALL, read_forced, read_handoff};
use super::verbs::Verb;
use crate::base::error::{FailureClass, StoreError, StoreFuture};
use crate::base::id::InboxId;
use crate::base::key::LockKey;
use crate::redis::context::ConnectorContext;
use crate::redis::failure::{RUNTIME_ENDED, may_be_about_one_key};
#[cfg(feature = "pool")]
use crate::redis::source::Source;
use crate::redis::{Inbox, MessageHandler, ServerSpec, Servers, Subscription, Timeouts};
use crate::store::redis::codec::{ForcedReleaseListener, MessageListener};

pub(crate) mod batch;
mod batches;
pub(crate) mod codec;
pub(crate) mod lua;

#[cfg(any(test, fuzzing))]
pub(crate) use self::codec::properties::key;
pub(crate) use self::codec::waits_slot;

/// The minimum number of requests in flight for the next short one to travel in a batch. If only one is in flight, the
/// next one is sent alone, because a batch of one costs more than it saves.
const MIN_IN_FLIGHT_FOR_BATCH: usize = 2;

/// A store in Redis: one server, the primary that sentinels name, or a cluster.
pub(crate) struct RedisStore {
    pub(crate) servers: Servers,
    pub(super) context: Arc<ConnectorContext>,
    batches: Arc<Batches>,
    /// `None` over a pool, whose connections receive no messages.
    inbox: Option<Inbox>,
    holders: Arc<OnceLock<Weak<dyn ForcedReleaseListener>>>,
}

impl RedisStore {
    /// A store, which connects at the first request.
    pub(crate) fn open(servers: ServerSpec, timeouts: Timeouts) -> Self {
        let context = ConnectorContext::new(timeouts);
        let servers = Servers::new(servers, Arc::clone(&context));
        let inbox = Inbox::new(servers.clone(), Arc::clone(&context));
        Self::new(servers, context, Some(inbox))
    }

    /// A store that sends all commands over connections of `commands`, and has no inbox.
    #[cfg(feature = "pool")]
    pub(crate) fn over(commands: Arc<dyn Source>, timeouts: Timeouts) -> Self {
        let context = ConnectorContext::new(timeouts);
        let servers = Servers::from_source(commands, Arc::clone(&context));
        Self::new(servers, context, None)
    }

    fn new(servers: Servers, context: Arc<ConnectorContext>, inbox: Option<Inbox>) -> Self {
        Self {
            batches: Batches::new(
                servers.clone(),
                Arc::clone(&context),
                MIN_IN_FLIGHT_FOR_BATCH,
            ),
            servers,
            context,
            inbox,
            holders: Arc::default(),
        }
    }

    pub(crate) fn connect(&self) -> StoreFuture<()> {
        let endpoint = || self.servers.endpoint();
        match self.context.unless_forked("connect", endpoint) {
            Ok(()) => Box::pin(self.servers.clone().connect()),
            Err(error) => Box::pin(future::ready(Err(error))),
        }
    }

    /// Makes a request, which is sent when it is first polled. It counts as in flight until it is dropped.
    pub(crate) fn ask<V: Verb>(&self, verb: V) -> PendingReply<V> {
        // Counted first: whether it travels with others depends on the number in flight, this one included.
        let in_flight = Batches::count(&self.batches);
        let stage = match self.batches.includes(&verb) {
            true => RequestStage::New,
            false => RequestStage::alone(&self.servers, &verb, false),
        };
        Either::Left(RedisRequest {
            verb,
            in_flight,
            stage,
        })
    }

    /// The longest time until a request that is sent now is answered or fails. There is no limit without a connection,
    /// because several attempts to connect may be needed, nor if so many requests are in flight that this one may wait
    /// before it is sent.
    pub(crate) fn answers_within(&self, key: &LockKey) -> Duration {
        let is_connected = self.servers.is_connected(|| key.slot());
        if is_connected && self.batches.are_sent_at_once() {
            self.context.timeouts.response
        } else {
            // Without a connection the attempt to connect comes first, and from that number of requests on a batch
            // waits for room. Then no time is certain.
            Duration::MAX
        }
    }

    pub(crate) fn listen(&self, inbox: InboxId, listener: Weak<dyn MessageListener>) -> bool {
        let subscribe = || Subscription {
            channels: [inbox.to_string(), TO_ALL.to_owned()],
            handler: Box::new(StoreMessages {
                listener,
                holders: Arc::clone(&self.holders),
            }),
        };
        let channel = self.inbox.as_ref();
        channel.is_some_and(|channel| channel.open(subscribe))
    }

    /// Sets the receiver of the messages to all processes. There is one for each `Locks`.
    pub(crate) fn watch(&self, holders: Weak<dyn ForcedReleaseListener>) {
        // A second one would be that of the same `Locks`.
        let _ = self.holders.set(holders);
    }

    /// Describes this process to the servers, from the next connection on.
    pub(crate) fn describe_from_now_on(&self) {
        self.context.describes_itself.store(true, Relaxed);
    }

    pub(crate) fn close(&self) {
        self.servers.close();
        self.inbox.iter().for_each(Inbox::close);
    }
}

#[cfg(test)]
impl RedisStore {
    /// Sets another number of requests in flight from which on short requests travel together.
    pub(crate) fn with_batches_from(mut self, min_in_flight: usize) -> Self {
        let context = Arc::clone(&self.context);
        self.batches = Batches::new(self.servers.clone(), context, min_in_flight);
        self
    }
}

/// A request and its reply. One to Redis that travels with others, as most do among many, needs no box.
pub(crate) type PendingReply<V> = Either<RedisRequest<V>, StoreFuture<<V as Verb>::Reply>>;

/// A request that is sent alone, or travels with others if it has a form for that. What the batch has not done is sent
/// by itself, which repeats nothing.
///
/// If it is dropped, it is not sent if it was only collected. If it was sent, it is executed, as if it had been sent
/// alone (P8).
pub(crate) struct RedisRequest<V> {
    verb: V,
    in_flight: InFlightGuard,
    stage: RequestStage,
}

enum RequestStage {
    New,
    Collected {
        reply: Receiver<ItemReply>,
        is_release: bool,
    },
    Alone {
        reply: StoreFuture<Value>,
        /// Whether the batch has released the hold, and only the next ones are let in.
        is_released: bool,
    },
}

impl RequestStage {
    fn alone(servers: &Servers, verb: &impl Verb, is_released: bool) -> Self {
        let servers = servers.clone();
        let call = verb.call().with_write_signal(verb.written().cloned());
        let reply = Box::pin(async move { servers.ask(&call).await });
        Self::Alone { reply, is_released }
    }
}

impl<V: Verb> Future for RedisRequest<V> {
    type Output = Result<V::Reply, StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self {
            verb,
            in_flight: InFlightGuard(batches),
            stage,
        } = &mut *self;
        let endpoint = || batches.servers.endpoint();
        let send_alone =
            |verb: &V, is_released| RequestStage::alone(&batches.servers, verb, is_released);
        loop {
            match stage {
                RequestStage::New => {
                    let item = verb.batch_item();
                    let is_release = item.as_ref().is_some_and(BatchItem::is_release);
                    if is_release {
                        // A fork has no copy of the thread that would send a batch. An acquire was checked with its
                        // call graph.
                        batches
                            .context
                            .unless_forked(V::script().verb(), endpoint)?;
                    }
                    *stage = match item {
                        Some(item) => RequestStage::Collected {
                            reply: batches.collect(item),
                            is_release,
                        },
                        None => send_alone(verb, false),
                    };
                }
                RequestStage::Collected { reply, is_release } => {
                    let reply = ready!(Pin::new(reply).poll(cx));
                    let ended = |_| {
                        let (verb, class) = (lua::BATCH.verb(), FailureClass::OutcomeUnknown);
                        Err(StoreError::new(verb, &endpoint(), class, RUNTIME_ENDED))
                    };
                    *stage = match reply.unwrap_or_else(ended) {
                        // This proves that the request has changed nothing, so it may be sent alone (P8).
                        Ok(Value::Int(0)) => send_alone(verb, false),
                        // The server has rejected all of them, maybe because of one.
                        Err(error) if may_be_about_one_key(&error) => send_alone(verb, false),
                        Ok(Value::Int(RELEASED)) if *is_release => send_alone(verb, true),
                        reply => return Poll::Ready(read(verb, reply?, endpoint)),
                    };
                }
                RequestStage::Alone { reply, is_released } => {
                    let reply = match ready!(reply.as_mut().poll(cx)) {
                        // If it has failed, the next ones find the free lock at their heartbeat.
                        _ if *is_released => Value::Int(1),
                        reply => reply?,
                    };
                    return Poll::Ready(read(verb, reply, endpoint));
                }
            }
        }
    }
}

fn read<V: Verb>(
    verb: &V,
    reply: Value,
    endpoint: impl FnOnce() -> Arc<str>,
) -> Result<V::Reply, StoreError> {
    verb.decode(&reply).ok_or_else(|| {
        // A reply that cannot be read proves nothing about what was executed.
        let (class, cause) = (
            FailureClass::OutcomeUnknown,
            format!("unexpected reply {reply:?}"),
        );
        StoreError::new(V::script().verb(), &endpoint(), class, cause)
    })
}

/// The receivers of the messages of one `Locks`.
struct StoreMessages {
    listener: Weak<dyn MessageListener>,
    holders: Arc<OnceLock<Weak<dyn ForcedReleaseListener>>>,
}

impl MessageHandler for StoreMessages {
    fn received(&self, text: &str) {
        let listener = self.listener.upgrade();
        // A text that is no message was sent by another program.
        match text.split_once(' ') {
            Some(("contended", key)) => listener.iter().for_each(|it| it.contended(key)),
            Some(("forced", text)) => {
                // A `Locks` that was dropped has no holds that could be lost.
                let holders = self.holders.get().and_then(Weak::upgrade);
                if let (Some(holders), Some(message)) = (holders, read_forced(text)) {
                    holders.forced(message);
                }
            }
            // A hand-off has no word of its own: it begins with hold ids.
            _ => {
                if let (Some(listener), Some(message)) = (listener, read_handoff(text)) {
                    listener.handoff(message);
                }
            }
        }
    }

    fn missed(&self) {
        let listener = self.listener.upgrade();
        listener.iter().for_each(|it| it.missed());
    }
}

//! Locks in Redis.

use std::future::ready;
#[cfg(feature = "pool")]
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{OnceLock, Weak};

use self::connect::common::Common;
use self::inbox::Inbox;
#[cfg(feature = "pool")]
use self::link::source::Source;
use self::topology::Topology;
use self::wire::failure::{self, DriverError};
use super::records::{Holders, Listener};
use crate::base::error::{AnswerFuture, Effect, Mistake, StoreError};
use crate::base::id::InboxId;
use crate::base::process::{FORKED, ProcessId};

pub(crate) mod batch;
mod confirmer;
mod connect;
mod inbox;
mod introduction;
pub(crate) mod link;
mod replication_id;
mod topology;
pub(crate) mod wire;

#[cfg(feature = "tls")]
pub use self::link::certificates::Certificates;
#[cfg(feature = "credentials")]
pub(crate) use self::link::credentials::Credentials;
#[cfg(feature = "credentials")]
pub use self::link::credentials::watched;
pub(crate) use self::link::source::Timeouts;
pub(crate) use self::topology::servers::{Login, Origin};
pub(crate) use self::wire::call::{Call, Script, script};
pub(crate) use self::wire::names::slot_of_waits;
pub(crate) use self::wire::question::{Question, Short, ShortWish};
pub(crate) use self::wire::reply::Unexpected;
#[cfg(any(test, fuzzing))]
pub(crate) use self::{topology::servers::properties::url, wire::names::properties::key};

/// A store in Redis: one server, the primary that sentinels name, or a cluster.
pub(crate) struct RedisStore {
    pub(super) topology: Topology,
    pub(super) common: Common,
    /// `None` over a pool, whose connections receive no messages.
    inbox: Option<Inbox>,
    /// The process that first used the store.
    process: OnceLock<ProcessId>,
}

impl RedisStore {
    /// A store, which connects at the first request.
    pub(crate) fn open(origin: Origin, timeouts: Timeouts) -> Self {
        let common = Common::new(timeouts);
        Self::with(origin, common)
    }

    /// A store as [`open`](Self::open) creates it, with another number of requests in flight from which on short
    /// requests travel together.
    #[cfg(test)]
    pub(crate) fn open_with(origin: Origin, timeouts: Timeouts, together_from: usize) -> Self {
        let mut common = Common::new(timeouts);
        common.together_from = together_from;
        Self::with(origin, common)
    }

    fn with(origin: Origin, common: Common) -> Self {
        let topology = origin.open(&common);
        let inbox = Inbox::new(topology.clone(), common.clone());
        Self::new(topology, Some(inbox), common)
    }

    /// A store that sends all commands over connections of `commands`, and has no inbox.
    #[cfg(feature = "pool")]
    pub(crate) fn over(commands: Arc<dyn Source>, timeouts: Timeouts) -> Self {
        let common = Common::new(timeouts);
        Self::new(Topology::one(commands, common.clone()), None, common)
    }

    fn new(topology: Topology, inbox: Option<Inbox>, common: Common) -> Self {
        Self {
            topology,
            common,
            inbox,
            process: OnceLock::new(),
        }
    }

    /// Returns whether this process may use the store. The process that does so first is the only one.
    ///
    /// A fork copies the connections, and two processes must not read the responses of one socket. It also copies the
    /// holds, which a copy must not release.
    pub(crate) fn belongs_to(&self, process: ProcessId) -> bool {
        *self.process.get_or_init(|| process) == process
    }

    /// Rejects a request in a fork of the process that has used the store.
    fn unless_forked<T: Send + 'static>(
        &self,
        verb: &'static str,
        ask: impl FnOnce() -> AnswerFuture<T>,
    ) -> AnswerFuture<T> {
        if self.belongs_to(ProcessId::this()) {
            return ask();
        }
        let endpoint = self.topology.endpoint();
        let error = StoreError::new(verb, &endpoint, Effect::Refused, FORKED)
            .with_mistake(Some(Mistake::Other));
        Box::pin(ready(Err(error)))
    }

    pub(crate) fn connect(&self) -> AnswerFuture<()> {
        self.unless_forked("connect", || self.topology.connect())
    }

    pub(crate) fn ask<Q>(&self, question: Q) -> AnswerFuture<Q::Reply>
    where
        Q: Question<Reply: Send + 'static> + Send + Sync + 'static,
    {
        self.unless_forked(question.verb(), || self.topology.ask(question))
    }

    /// Returns whether the server has rejected a request because of its key alone.
    pub(crate) fn refuses_key(error: &StoreError) -> bool {
        let cause = error.cause().downcast_ref();
        cause.is_some_and(|DriverError(error)| failure::refuses_key(error))
    }

    /// Returns whether the server has rejected a request only because it names several keys.
    pub(crate) fn is_about_several_keys(error: &StoreError) -> bool {
        let cause = error.cause().downcast_ref();
        cause.is_some_and(|DriverError(error)| failure::is_about_several_keys(error))
    }

    pub(crate) fn listen(&self, inbox: InboxId, listener: Weak<dyn Listener>) -> bool {
        let channel = self.inbox.as_ref();
        channel.is_some_and(|channel| channel.open(inbox, listener))
    }

    pub(crate) fn watch(&self, holders: Weak<dyn Holders>) {
        self.inbox
            .iter()
            .for_each(|inbox| inbox.watch(Weak::clone(&holders)));
    }

    /// Describes this process to the servers, from the next connection on.
    pub(crate) fn introduce(&self) {
        self.common.introduces.store(true, Relaxed);
    }

    pub(crate) fn check_subscription(&self) {
        self.inbox.iter().for_each(Inbox::check_subscription);
    }

    pub(crate) fn close(&self) {
        self.topology.close();
        self.inbox.iter().for_each(Inbox::close);
    }
}

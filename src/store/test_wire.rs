//! The wire that a test puts between the locks and an in-memory store. It carries any request without knowing its verb.

use std::any::Any;
use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::memory::{MemoryStore, State};
use super::verbs::Verb;
use crate::base::background::WriteSignal;
use crate::base::error::{FailureClass, StoreError, StoreFuture};
use crate::base::id::InboxId;
use crate::base::options::Confirmation;
use crate::store::redis::codec::{ForcedReleaseListener, MessageListener};

/// The way to an in-memory store. A function that it does not define behaves as without a wire.
///
/// A request may be executed immediately, late, twice or never, and its response may be lost.
pub(crate) trait Wire: Send + Sync {
    /// The store at the end of the wire.
    fn store(&self) -> &MemoryStore;

    /// Carries a request to the store, and the reply back.
    fn carry(&self, request: Request) -> StoreFuture<Reply>;

    fn connect(&self) -> StoreFuture<()> {
        Box::pin(async { Ok(()) })
    }

    fn listen(&self, inbox: InboxId, listener: Weak<dyn MessageListener>) -> bool {
        self.store().listen(inbox, listener);
        true
    }

    fn watch(&self, holders: Weak<dyn ForcedReleaseListener>) {
        self.store().watch(holders);
    }

    fn confirm(&self) -> Confirmation {
        Confirmation::Confirmed
    }

    fn suspect(&self, _since: Instant) {}

    fn answers_within(&self) -> Duration {
        Duration::MAX
    }

    fn close(&self) {}

    fn generations(&self) -> watch::Receiver<u64> {
        self.store().generations()
    }

    fn generation(&self) -> u64 {
        *self.generations().borrow()
    }

    fn connections(&self) -> Option<watch::Receiver<u64>> {
        None
    }
}

/// The reply to a request of any type.
pub(crate) type Reply = Box<dyn Any + Send>;

/// The change of the state of a store by a request, and the reply.
type StateChange = Arc<dyn Fn(&mut State, Instant) -> Reply + Send + Sync>;

/// A request on its way. Clones are the same request.
#[derive(Clone)]
pub(crate) struct Request {
    name: &'static str,
    #[cfg(test)]
    verb: Arc<dyn Any + Send + Sync>,
    step: StateChange,
}

impl Request {
    fn of<V: Verb>(verb: V) -> Self {
        Self {
            name: V::script().verb(),
            #[cfg(test)]
            verb: Arc::new(verb.clone()),
            // Cloned, because a wire may execute the request twice.
            step: Arc::new(move |state, now| Box::new(verb.clone().apply(state, now))),
        }
    }

    /// The name of its script.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// The verb, if it is of this type.
    #[cfg(test)]
    pub(crate) fn verb<V: 'static>(&self) -> Option<&V> {
        self.verb.downcast_ref()
    }

    /// Executes the request in the store.
    pub(crate) fn execute(&self, store: &MemoryStore) -> Reply {
        store.execute(|state, now| (self.step)(state, now))
    }
}

/// Sends a request to a store at the end of a wire. It is written at the first poll.
pub(super) fn ask<V: Verb>(wire: &Arc<dyn Wire>, verb: V) -> StoreFuture<V::Reply> {
    let written = verb.written().cloned();
    let request = Request::of(verb);
    let name = request.name;
    let mut carried = wire.carry(request);
    let carried = poll_fn(move |cx| {
        written.iter().for_each(WriteSignal::set);
        carried.as_mut().poll(cx)
    });
    Box::pin(async move {
        let reply = carried.await?.downcast();
        // A test that carries requests may mix up their replies.
        reply.map(|reply| *reply).map_err(|_another| {
            let endpoint = Arc::from("the wire");
            let cause = "the reply to another request";
            StoreError::new(name, &endpoint, FailureClass::OutcomeUnknown, cause)
        })
    })
}

#[cfg(test)]
impl MemoryStore {
    /// Executes a verb now.
    pub(crate) fn apply<V: Verb>(&self, verb: V) -> V::Reply {
        self.execute(|state, now| verb.apply(state, now))
    }

    /// Executes a request when the future is first polled.
    pub(crate) fn carry(&self, request: Request) -> StoreFuture<Reply> {
        self.ask(move |state, now| (request.step)(state, now))
    }
}

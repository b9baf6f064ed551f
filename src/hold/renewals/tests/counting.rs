//! An in-memory store that counts the renewals.

use std::future::{pending, ready};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};

use super::*;
use crate::StoreError;
use crate::base::error::FailureClass;
use crate::base::timer::sleep;
use crate::store::memory::MemoryStore;
use crate::store::{Confirmation, Renew, RenewReply, Reply, Request, StoreFuture, Wire};

const TENTH: Duration = Duration::from_millis(100);

/// An in-memory store.
#[derive(Default)]
pub(super) struct Counting {
    pub(super) store: MemoryStore,
    /// The number of requests that have renewed something.
    pub(super) renewed: AtomicU32,
    /// The keys of each request that has renewed writers, and the instant at which it was sent.
    pub(super) together: Mutex<Vec<(Instant, Vec<String>)>>,
    /// Each request that renews a writer of this key is rejected.
    pub(super) rejects: Mutex<Option<&'static str>>,
    /// The reply to the next renewal of writers, which no replica has.
    pub(super) unconfirmed: Mutex<Option<Vec<RenewReply>>>,
    is_unconfirmed: AtomicBool,
    pub(super) changed: AtomicU32,
    /// Whether no renewal is answered.
    pub(super) is_silent: AtomicBool,
    /// Whether an acquire loses the connection.
    pub(super) has_lost_connection: AtomicBool,
    /// Whether a renewal is executed a tenth of a second after it was sent.
    pub(super) is_late: AtomicBool,
    generation: watch::Sender<u64>,
}

impl Counting {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            generation: watch::Sender::new(7),
            ..Self::default()
        })
    }

    pub(super) fn locks(self: &Arc<Self>) -> Locks {
        let builder = Locks::builder("memory:").ttl(TTL);
        builder.build_on_wire(Arc::clone(self), SECOND)
    }

    pub(super) fn disconnect(&self) {
        self.generation.send_modify(|count| *count += 1);
    }

    /// The keys of the requests that are sent for writers while this time passes.
    pub(super) async fn together_within(&self, span: Duration) -> Vec<Vec<String>> {
        self.together.lock().clear();
        sleep(span).await;
        let together = self.together.lock();
        together.iter().map(|(_, keys)| keys.clone()).collect()
    }

    /// The number of requests that renew something while this time passes.
    pub(super) async fn renewed_within(&self, span: Duration) -> u32 {
        let before = self.renewed.load(Relaxed);
        sleep(span).await;
        self.renewed.load(Relaxed) - before
    }
}

impl Counting {
    /// Notes which writers a request renews. Returns whether the request is rejected.
    fn is_rejected(&self, request: &Request) -> bool {
        let Some(Renew { holds, .. }) = request.verb() else {
            return false;
        };
        let keys = holds.iter().map(|(key, _)| key.as_str().to_owned());
        let keys: Vec<_> = keys.collect();
        let rejects = *self.rejects.lock();
        let is_rejected = keys.iter().any(|key| Some(key.as_str()) == rejects);
        self.together.lock().push((Instant::now(), keys));
        is_rejected
    }
}

impl Wire for Counting {
    fn store(&self) -> &MemoryStore {
        &self.store
    }

    fn confirm(&self) -> Confirmation {
        match self.is_unconfirmed.swap(false, Relaxed) {
            true => Confirmation::Late,
            false => Confirmation::Confirmed,
        }
    }

    fn carry(&self, request: Request) -> StoreFuture<Reply> {
        let carried = self.store.carry(request.clone());
        if request.name() == "renew"
            && let Some(reply) = self.unconfirmed.lock().take()
        {
            self.is_unconfirmed.store(true, Relaxed);
            return Box::pin(ready(Ok(Box::new(reply) as Reply)));
        }
        match request.name() {
            "acquire" if self.has_lost_connection.load(Relaxed) => self.disconnect(),
            "set_depth" => drop(self.changed.fetch_add(1, Relaxed)),
            "renew" if self.is_rejected(&request) => {
                return Box::pin(async {
                    let endpoint = Arc::from("the store");
                    Err(StoreError::new(
                        "renew",
                        &endpoint,
                        FailureClass::Permanent,
                        "NOPERM",
                    ))
                });
            }
            "renew" | "renew_readers" if self.is_silent.load(Relaxed) => {
                self.renewed.fetch_add(1, Relaxed);
                return Box::pin(pending());
            }
            "renew" | "renew_readers" => {
                self.renewed.fetch_add(1, Relaxed);
                if self.is_late.load(Relaxed) {
                    return Box::pin(async {
                        sleep(TENTH).await;
                        carried.await
                    });
                }
            }
            _ => {}
        }
        carried
    }

    fn generations(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }
}

//! A store in memory that counts what is asked about waits, takes its time for it, and may fail at it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::{
    Locks, LocksBuilder,
    base::{
        error::{Effect, StoreError},
        id::HoldId,
        mutex::Mutex,
        timer::sleep,
    },
    store::{
        Answer,
        memory::MemoryStore,
        through::{Through, Verb},
        waits::Waits,
    },
};

/// How often each was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) published: u32,
    pub(super) holds: u32,
    pub(super) waits: u32,
    pub(super) claimed: u32,
    pub(super) withdrawn: u32,
}

#[derive(Debug)]
pub(super) struct Watched {
    store: MemoryStore,
    asked: Mutex<Asked>,
    fails: Mutex<Option<Effect>>,
    /// How long a request takes to arrive, and its answer to come back.
    delay: Mutex<Duration>,
    /// Whether the next claim is executed, and its answer lost.
    loses_claim: AtomicBool,
    epoch: AtomicU64,
}

impl Watched {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            store: MemoryStore::new(),
            asked: Mutex::default(),
            fails: Mutex::default(),
            delay: Mutex::default(),
            loses_claim: AtomicBool::new(false),
            epoch: AtomicU64::new(0),
        })
    }

    /// Locks on it, with a heartbeat of a second.
    pub(super) fn locks(self: &Arc<Self>) -> Locks {
        self.locks_of(Locks::builder())
    }

    /// Locks with further options.
    pub(super) fn locks_of(self: &Arc<Self>, builder: LocksBuilder) -> Locks {
        builder.over(Arc::<Self>::clone(self), Duration::from_secs(1))
    }

    pub(super) fn asked(&self) -> Asked {
        *self.asked.lock()
    }

    pub(super) fn set_failure(&self, effect: Option<Effect>) {
        *self.fails.lock() = effect;
    }

    pub(super) fn set_delay(&self, delay: Duration) {
        *self.delay.lock() = delay;
    }

    pub(super) fn lose_next_claim(&self) {
        self.loses_claim.store(true, Relaxed);
    }

    /// Another server answers from now on.
    pub(super) fn reconnect(&self) {
        self.epoch.fetch_add(1, Relaxed);
    }

    /// Whether a wait is published that this hold encloses.
    pub(super) async fn has_record(&self, hold: HoldId) -> bool {
        let look = self.store.waits_of(hold).await;
        look.is_ok_and(|look| !look.waits.is_empty())
    }
}

impl Asked {
    /// How often it was asked for this; `None` if that is about no wait.
    fn count(&mut self, verb: Verb) -> Option<&mut u32> {
        Some(match verb {
            Verb::PublishWait => &mut self.published,
            Verb::HoldsIn => &mut self.holds,
            Verb::WaitsOf => &mut self.waits,
            Verb::ClaimVictim => &mut self.claimed,
            Verb::WithdrawWait => &mut self.withdrawn,
            _ => return None,
        })
    }
}

impl Through for Watched {
    fn inner(&self) -> &MemoryStore {
        &self.store
    }

    /// On its way from the first poll on, whether or not a caller waits for it.
    fn pass<T: Send + 'static>(&self, verb: Verb, request: Answer<T>) -> Answer<T> {
        match self.asked.lock().count(verb) {
            Some(count) => *count += 1,
            None => return request,
        }
        let (fails, delay) = (*self.fails.lock(), *self.delay.lock());
        let loses = verb == Verb::ClaimVictim && self.loses_claim.swap(false, Relaxed);
        let failure = |effect, cause| StoreError::new("wait", &Arc::from("memory"), effect, cause);
        if let Some(effect) = fails {
            return Box::pin(async move { Err(failure(effect, "as it is to")) });
        }
        Box::pin(async move {
            let answer = if delay.is_zero() {
                request.await
            } else {
                let asking = tokio::spawn(async move {
                    sleep(delay).await;
                    request.await
                });
                let answer = asking.await.expect("no panic");
                sleep(delay).await;
                answer
            };
            if loses {
                return Err(failure(Effect::Unknown, "the answer is lost"));
            }
            answer
        })
    }

    fn connection_epoch(&self) -> u64 {
        self.epoch.load(Relaxed)
    }
}

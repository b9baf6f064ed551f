//! The requests of the searches of one `Locks`, and what the searches share: their number, and the time of the store.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::walk::{Sight, WalkQuestion};
use crate::base::background;
use crate::base::error::StoreError;
use crate::base::id::{HoldId, OwnerId};
use crate::base::sync::Mutex;
use crate::store::records::{SeenWaits, WaitAnswer};
use crate::store::{HoldsIn, PublishWait, Store, StoreTime, WaitChange, WaitsOf};

/// The number of published waits from which on each of them is published half as often.
const MANY: usize = 256;

/// The number of waits that may continue a long walk four times in a heartbeat. If there are more, each pauses longer.
const WALKERS: usize = 4;

/// The state that the searches of one `Locks` share.
#[derive(Debug)]
pub(crate) struct Searches {
    store: Arc<Store>,
    /// The number of published waits.
    published: AtomicUsize,
    /// A time of each server that was read on the present connection, by what the waits there have in common.
    known: Mutex<HashMap<Option<u16>, KnownTime>>,
}

/// A time of the store that was read on a connection.
#[derive(Clone, Copy, Debug)]
struct KnownTime {
    at: StoreTime,
    epoch: u64,
}

impl Searches {
    pub(crate) fn new(store: Arc<Store>) -> Arc<Self> {
        Arc::new(Self {
            store,
            published: AtomicUsize::new(0),
            known: Mutex::default(),
        })
    }

    /// Counts a published wait, until it ends.
    pub(super) fn begin(&self) {
        self.published.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        self.published.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn are_many(&self) -> bool {
        self.published.load(Ordering::Relaxed) > MANY
    }

    /// The pause of a walk after a limited number of lookups. However many waits walk, together they make the same
    /// number of lookups in a heartbeat.
    pub(super) fn pause(&self, heartbeat: Duration) -> Duration {
        let walkers = self.published.load(Ordering::Relaxed).div_ceil(WALKERS);
        let walkers = u32::try_from(walkers).unwrap_or(u32::MAX).max(1);
        (heartbeat / 4).saturating_mul(walkers)
    }

    /// A time of the store that has the records of this owner, if one is known.
    pub(super) fn known(&self, owner: OwnerId) -> Option<StoreTime> {
        let known = self.known.lock();
        let known = known.get(&self.store.span_of_waits(owner))?;
        // Another server, with another clock, may answer by now.
        (known.epoch == self.store.generation()).then_some(known.at)
    }

    /// Publishes a wait.
    pub(super) async fn publish(&self, publish: PublishWait) -> Result<WaitAnswer, StoreError> {
        let span = self.store.span_of_waits(publish.owner);
        let epoch = self.store.generation();
        let answer = self.store.ask(WaitChange::Publish(publish)).await?;
        let (WaitAnswer::Done(at) | WaitAnswer::Late(at)) = answer;
        self.known.lock().insert(span, KnownTime { at, epoch });
        Ok(answer)
    }

    /// Removes records, in the background. If that fails, they expire.
    pub(super) fn withdraw(
        self: &Arc<Self>,
        runtime: &Handle,
        records: impl Iterator<Item = (OwnerId, HoldId)>,
    ) {
        let changes = records.map(|(owner, wait)| WaitChange::Withdraw { owner, wait });
        let removed: Vec<_> = changes.map(|change| self.store.ask(change)).collect();
        background::spawn(runtime, join_all(removed));
    }

    /// Makes a lookup.
    pub(super) async fn look(&self, question: &WalkQuestion) -> Result<Sight, StoreError> {
        let asked = Instant::now();
        let sight = match question {
            WalkQuestion::Holds(key) => {
                let key = Arc::clone(key);
                self.store.ask(HoldsIn { key }).await.map(Sight::Holds)
            }
            WalkQuestion::Waits(hold) => {
                let look = self.store.ask(WaitsOf { hold: *hold }).await;
                look.map(|look| Sight::Waits(look, asked))
            }
        };
        match sight {
            // What the user may not read counts as absent.
            Err(error) if error.is_refused() => Ok(question.nothing(asked)),
            sight => sight,
        }
    }
}

impl WalkQuestion {
    /// The answer if the user may not read the key.
    fn nothing(&self, asked: Instant) -> Sight {
        match self {
            Self::Holds(_) => Sight::Holds(Vec::new()),
            Self::Waits(_) => {
                let at = StoreTime { micros: 0 };
                let waits = Vec::new();
                Sight::Waits(SeenWaits { at, waits }, asked)
            }
        }
    }
}

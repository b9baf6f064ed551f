//! The waits that are published, as the searches of one `Locks` write and read them, and what the searches share: their
//! number, and the time of the store.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::walk::{Lookup, LookupReply};
use crate::base::background;
use crate::base::error::StoreError;
use crate::base::id::{HoldId, OwnerId};
use crate::base::sync::Mutex;
use crate::store::{
    ListHolds, ListWaits, ListedWaits, PublishWait, Store, StoreTime, UpdateWait, UpdateWaitReply,
};

/// A wait is published, and may continue its walk, this many times in a heartbeat. So a wait that has just begun costs
/// nothing, and a deadlock is found within two heartbeats.
pub(super) const STEPS_PER_HEARTBEAT: u32 = 4;

/// The number of published waits from which on each of them is published half as often.
const MANY_WAITS: usize = 256;

/// The number of waits that may continue a long walk with each step. If there are more, each pauses longer.
const WALKS_PER_STEP: usize = 4;

/// The published waits, as one `Locks` knows them.
pub(in crate::hold) struct WaitDirectory {
    store: Arc<Store>,
    /// The number of waits that this `Locks` publishes.
    pub(super) published: AtomicUsize,
    /// A time of each server that was read on the present connection, by what the waits there have in common.
    times: Mutex<HashMap<Option<u16>, KnownTime>>,
}

/// A time of the store that was read on a connection.
#[derive(Clone, Copy, Debug)]
struct KnownTime {
    at: StoreTime,
    generation: u64,
}

impl WaitDirectory {
    pub(in crate::hold) fn new(store: &Arc<Store>) -> Self {
        Self {
            store: Arc::clone(store),
            published: AtomicUsize::new(0),
            times: Mutex::default(),
        }
    }

    /// The time from which the spans of a record are derived. It is the heartbeat, or twice the heartbeat if many waits
    /// are published.
    pub(super) fn publishing_heartbeat(&self, heartbeat: Duration) -> Duration {
        match self.published.load(Ordering::Relaxed) > MANY_WAITS {
            true => 2 * heartbeat,
            false => heartbeat,
        }
    }

    /// The pause of a walk after a limited number of lookups. However many waits walk, together they make the same
    /// number of lookups in a heartbeat.
    pub(super) fn pause(&self, heartbeat: Duration) -> Duration {
        let steps = self.published.load(Ordering::Relaxed);
        let steps = steps.div_ceil(WALKS_PER_STEP);
        let steps = u32::try_from(steps).unwrap_or(u32::MAX).max(1);
        (heartbeat / STEPS_PER_HEARTBEAT).saturating_mul(steps)
    }

    /// The times of the store that are known now, by the owner of a record.
    pub(super) fn known_times(&self) -> impl Fn(OwnerId) -> Option<StoreTime> {
        let times = self.times.lock().clone();
        let generation = self.store.generation();
        move |owner| {
            let known = times.get(&self.store.script_group_of_waits(owner))?;
            // Another server, with another clock, may answer by now.
            (known.generation == generation).then_some(known.at)
        }
    }

    pub(super) async fn publish(
        &self,
        publish: PublishWait,
    ) -> Result<UpdateWaitReply, StoreError> {
        let server = self.store.script_group_of_waits(publish.owner);
        let generation = self.store.generation();
        let reply = self.store.ask(UpdateWait::Publish(publish)).await?;
        // The reply that rejects a record has the time as well, with which the next record is accepted.
        let (UpdateWaitReply::Done(at) | UpdateWaitReply::Late(at)) = reply;
        // The generation is that before the request, so a time of a server that has been replaced is not used.
        let known = KnownTime { at, generation };
        self.times.lock().insert(server, known);
        Ok(reply)
    }

    /// Removes the records of a wait, in the background. If that fails, they expire.
    pub(super) fn withdraw(&self, runtime: &Handle, wait: HoldId, owners: &BTreeSet<OwnerId>) {
        let changes = owners
            .iter()
            .map(|&owner| UpdateWait::Withdraw { owner, wait });
        let removed: Vec<_> = changes.map(|change| self.store.ask(change)).collect();
        // The wait may end by being dropped, so no caller can wait for this.
        background::spawn(runtime, join_all(removed));
    }

    /// Makes a lookup. What the user may not read counts as absent.
    pub(super) async fn lookup(&self, lookup: &Lookup) -> Result<LookupReply, StoreError> {
        // Before the request, so that the time of the server in the reply is no earlier than this.
        let asked = Instant::now();
        Ok(match lookup {
            Lookup::Holds(key) => {
                let key = Arc::clone(key);
                let holds = self.store.ask(ListHolds { key }).await;
                LookupReply::Holds(unless_denied(holds, Vec::new())?)
            }
            Lookup::Waits(hold) => {
                let waits = self.store.ask(ListWaits { hold: *hold }).await;
                let nothing = ListedWaits {
                    at: StoreTime { micros: 0 },
                    waits: Vec::new(),
                };
                LookupReply::Waits(unless_denied(waits, nothing)?, asked)
            }
        })
    }
}

fn unless_denied<T>(reply: Result<T, StoreError>, nothing: T) -> Result<T, StoreError> {
    match reply {
        Err(error) if error.is_denied() => Ok(nothing),
        reply => reply,
    }
}

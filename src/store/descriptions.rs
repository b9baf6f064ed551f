//! Who the processes are that have locks or wait for them, and how they label their holds.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::time::Instant;

use super::Store;
use super::verbs::described::{Describe, ShowLabel};
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::process::{Process, ProcessId};
use crate::base::timer::{after, timeout_at};

/// The number of processes that are asked for at once.
const AT_ONCE: usize = 16;

/// The processes that are known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Processes(HashMap<ProcessId, Process>);

impl Processes {
    pub(crate) fn get(&self, id: ProcessId) -> Option<&Process> {
        self.0.get(&id)
    }
}

impl Store {
    /// Looks up processes. A process is left out if the store does not know it, or does not answer within this time.
    /// Nothing is sent if there is none but this one.
    pub(crate) async fn processes(
        &self,
        ids: impl IntoIterator<Item = ProcessId>,
        within: Duration,
    ) -> Processes {
        let until = after(Instant::now(), within);
        let this = ProcessId::this();
        let mut ids: BTreeSet<_> = ids.into_iter().collect();
        let mut known = HashMap::new();
        if ids.remove(&this) {
            known.insert(this, Process::this());
        }
        let asked = ids.into_iter().map(async |id| {
            let described = self.ask(Describe(id)).await;
            Some((id, described.ok()??))
        });
        let mut described = stream::iter(asked).buffer_unordered(AT_ONCE);
        while let Ok(Some(process)) = timeout_at(until, described.next()).await {
            known.extend(process);
        }
        Processes(known)
    }

    /// Looks up the labels of holds of a lock. A hold is left out if it has none, or the store does not answer within this time.
    pub(crate) async fn labels(
        &self,
        key: &LockKey,
        holds: impl IntoIterator<Item = HoldId>,
        within: Duration,
    ) -> HashMap<HoldId, String> {
        let until = after(Instant::now(), within);
        let asked = holds.into_iter().map(async |hold| {
            let label = self.ask(ShowLabel(key.clone(), hold)).await;
            Some((hold, label.ok()??))
        });
        let mut shown = stream::iter(asked).buffer_unordered(AT_ONCE);
        let mut labels = HashMap::new();
        while let Ok(Some(label)) = timeout_at(until, shown.next()).await {
            labels.extend(label);
        }
        labels
    }
}

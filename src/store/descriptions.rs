//! The descriptions of the processes that have locks or wait for them, and the labels of their holds.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::join;
use tokio::time::Instant;

use super::Store;
use super::verbs::described::{Describe, ShowLabel};
use crate::base::holder::Holder;
use crate::base::id::{HoldId, OwnerId};
use crate::base::key::LockKey;
use crate::base::process::{Process, ProcessId};
use crate::base::timer::{after, timeout_at};

/// The number of processes that are looked up in parallel.
const AT_ONCE: usize = 16;

/// The processes that are already known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Processes(HashMap<ProcessId, Process>);

impl Processes {
    pub(crate) fn get(&self, id: ProcessId) -> Option<&Process> {
        self.0.get(&id)
    }
}

impl Store {
    /// Looks up processes. A process is omitted if the store does not know it, or does not respond within this time.
    /// Nothing is sent if there is no other process than this one.
    pub(crate) async fn processes(
        &self,
        ids: impl IntoIterator<Item = ProcessId>,
        within: Duration,
    ) -> Processes {
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
        known.extend(gathered(asked, within).await);
        Processes(known)
    }

    /// Looks up the processes of holders.
    pub(crate) async fn describe_holders(
        &self,
        holders: impl IntoIterator<Item = &mut Holder>,
        within: Duration,
    ) {
        let holders = holders.into_iter();
        let mut holders: Vec<_> = holders
            .filter_map(|holder| Some((OwnerId::of_field(&holder.hold_id)?.process(), holder)))
            .collect();
        let ids = holders.iter().map(|(id, _)| *id);
        let processes = self.processes(ids, within).await;
        for (id, holder) in &mut holders {
            holder.process = processes.get(*id).cloned();
        }
    }

    /// Looks up the processes and the labels of the holders of a lock.
    pub(crate) async fn describe_lock(
        &self,
        key: &LockKey,
        holders: &mut [Holder],
        within: Duration,
    ) {
        let id = |holder: &Holder| holder.hold_id.parse::<HoldId>().ok();
        let holds: Vec<_> = holders.iter().filter_map(id).collect();
        let labels = self.labels(key, holds, within);
        let (mut labels, ()) = join!(labels, self.describe_holders(&mut *holders, within));
        for holder in holders {
            holder.label = id(holder).and_then(|hold| labels.remove(&hold));
        }
    }

    /// Looks up the labels of holds of a lock. A hold is omitted if it has none, or the store does not respond within
    /// this time.
    async fn labels(
        &self,
        key: &LockKey,
        holds: impl IntoIterator<Item = HoldId>,
        within: Duration,
    ) -> HashMap<HoldId, String> {
        let asked = holds.into_iter().map(async |hold| {
            let label = self.ask(ShowLabel(key.clone(), hold)).await;
            Some((hold, label.ok()??))
        });
        gathered(asked, within).await
    }
}

/// The results that arrive within this time.
async fn gathered<K: Eq + Hash, V>(
    asked: impl Iterator<Item = impl Future<Output = Option<(K, V)>>>,
    within: Duration,
) -> HashMap<K, V> {
    let until = after(Instant::now(), within);
    let mut answers = stream::iter(asked).buffer_unordered(AT_ONCE);
    let mut gathered = HashMap::new();
    while let Ok(Some(answer)) = timeout_at(until, answers.next()).await {
        gathered.extend(answer);
    }
    gathered
}

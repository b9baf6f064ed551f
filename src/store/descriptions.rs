//! The descriptions of the processes that have locks or wait for them.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::time::Instant;

use super::Store;
use super::verbs::described::Describe;
use crate::base::holder::Holder;
use crate::base::id::OwnerId;
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
        let until = after(Instant::now(), within);
        let mut answers = stream::iter(asked).buffer_unordered(AT_ONCE);
        while let Ok(Some(answer)) = timeout_at(until, answers.next()).await {
            known.extend(answer);
        }
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
}

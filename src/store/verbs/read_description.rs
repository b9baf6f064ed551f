//! The descriptions of the processes that have locks or wait for them.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use redis::Value;
use tokio::time::Instant;

use super::Verb;
use crate::base::id::OwnerId;
use crate::base::process::{Holder, Process, ProcessId};
use crate::base::timer::{after, timeout_at};
use crate::redis::self_description;
use crate::redis::{Call, Script};
use crate::store::Store;
use crate::store::memory::State;
use crate::store::redis::lua;

/// The number of processes that are looked up in parallel.
const MAX_PARALLEL_LOOKUPS: usize = 16;

/// Returns the description of a process; `None` if there is none that can be read.
#[derive(Clone, Debug)]
pub(crate) struct ReadDescription(pub(crate) ProcessId);

impl Verb for ReadDescription {
    type Reply = Option<Process>;

    fn script() -> &'static Script {
        &lua::READ_DESCRIPTION
    }

    fn call(&self) -> Call {
        Self::script().call(1).arg(self_description::key(self.0))
    }

    fn decode(&self, reply: &Value) -> Option<Option<Process>> {
        match reply {
            Value::Nil => Some(None),
            Value::BulkString(text) => Some(Process::from_text(&String::from_utf8_lossy(text))),
            _ => None,
        }
    }

    /// An in-memory store has only holders of this process, which describes itself.
    fn apply(self, _state: &mut State, _now: Instant) -> Option<Process> {
        (self.0 == ProcessId::this()).then(Process::this)
    }
}

impl Store {
    /// Looks up processes. A process is omitted if the store does not know it, or does not respond within this time.
    /// Nothing is sent if there is no other process than this one.
    pub(crate) async fn processes(
        &self,
        ids: impl IntoIterator<Item = ProcessId>,
        within: Duration,
    ) -> HashMap<ProcessId, Process> {
        let this = ProcessId::this();
        let mut ids: BTreeSet<_> = ids.into_iter().collect();
        let mut known = HashMap::new();
        // No request is needed for this process.
        if ids.remove(&this) {
            known.insert(this, Process::this());
        }
        let asked = ids.into_iter().map(async |id| {
            let described = self.ask(ReadDescription(id)).await;
            Some((id, described.ok()??))
        });
        let until = after(Instant::now(), within);
        let mut answers = stream::iter(asked).buffer_unordered(MAX_PARALLEL_LOOKUPS);
        // What has arrived by the limit counts. A missing description only makes a message shorter.
        while let Ok(Some(answer)) = timeout_at(until, answers.next()).await {
            known.extend(answer);
        }
        known
    }

    /// Looks up the processes of holders.
    pub(crate) async fn describe_holders(
        &self,
        holders: impl IntoIterator<Item = &mut Holder>,
        within: Duration,
    ) {
        let holders = holders.into_iter();
        // A classic program has no owner, and so no description.
        let mut holders: Vec<_> = holders
            .filter_map(|holder| Some((OwnerId::parse_field(&holder.hold_id)?.process(), holder)))
            .collect();
        let ids = holders.iter().map(|(id, _)| *id);
        let processes = self.processes(ids, within).await;
        for (id, holder) in &mut holders {
            holder.process = processes.get(id).cloned();
        }
    }
}

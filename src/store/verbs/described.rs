//! The descriptions of processes, and the labels of their holds.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use super::Verb;
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::process::{Process, ProcessId, shown};
use crate::base::timer::after;
use crate::store::memory::State;
use crate::store::redis::wire::names;
use crate::store::redis::wire::reply::flag;
use crate::store::redis::{Call, Script, Unexpected, script};

/// Returns the description of a process; `None` if there is none that can be read.
#[derive(Clone, Debug)]
pub(crate) struct Describe(pub(crate) ProcessId);

/// Returns the label of a hold; `None` if it has none.
#[derive(Clone, Debug)]
pub(crate) struct ShowLabel(pub(crate) LockKey, pub(crate) HoldId);

/// Sets the label of a hold.
#[derive(Clone, Debug)]
pub(crate) struct Label {
    pub(crate) key: LockKey,
    pub(crate) hold: HoldId,
    pub(crate) label: Arc<str>,
    /// The time for which it lasts unless it is set again.
    pub(crate) life: Duration,
}

/// Removes the label of a hold.
#[derive(Clone, Debug)]
pub(crate) struct Unlabel(pub(crate) LockKey, pub(crate) HoldId);

impl Verb for Describe {
    type Reply = Option<Process>;

    fn lua() -> &'static Script {
        script!("described")
    }

    fn call(&self) -> Call {
        Self::lua().call(1).arg(names::process(self.0))
    }

    fn read(&self, reply: Value) -> Result<Option<Process>, Unexpected> {
        Ok(text(reply)?.as_deref().and_then(Process::from_text))
    }

    /// An in-memory store has only holders of this process, which describes itself.
    fn apply(self, _state: &mut State, _now: Instant) -> Option<Process> {
        (self.0 == ProcessId::this()).then(Process::this)
    }
}

impl Verb for ShowLabel {
    type Reply = Option<String>;

    fn lua() -> &'static Script {
        Describe::lua()
    }

    fn call(&self) -> Call {
        Self::lua().call(1).arg(names::label(&self.0, self.1))
    }

    fn read(&self, reply: Value) -> Result<Option<String>, Unexpected> {
        Ok(text(reply)?.as_deref().map(shown))
    }

    fn apply(self, state: &mut State, now: Instant) -> Option<String> {
        state.labels.get(self.1, now).map(shown)
    }
}

impl Verb for Label {
    type Reply = ();

    fn lua() -> &'static Script {
        script!("label")
    }

    fn call(&self) -> Call {
        let call = Self::lua().call(1).arg(names::label(&self.key, self.hold));
        call.arg(&*self.label).millis(self.life)
    }

    fn read(&self, reply: Value) -> Result<(), Unexpected> {
        flag(reply).map(drop)
    }

    fn apply(self, state: &mut State, now: Instant) {
        state
            .labels
            .set(self.hold, self.label, after(now, self.life));
    }
}

impl Verb for Unlabel {
    type Reply = ();

    fn lua() -> &'static Script {
        Label::lua()
    }

    fn call(&self) -> Call {
        Self::lua().call(1).arg(names::label(&self.0, self.1))
    }

    fn read(&self, reply: Value) -> Result<(), Unexpected> {
        flag(reply).map(drop)
    }

    fn apply(self, state: &mut State, _now: Instant) {
        state.labels.remove(self.1);
    }
}

fn text(reply: Value) -> Result<Option<String>, Unexpected> {
    match reply {
        Value::Nil => Ok(None),
        Value::BulkString(text) => Ok(Some(String::from_utf8_lossy(&text).into_owned())),
        other => Err(Unexpected(other)),
    }
}

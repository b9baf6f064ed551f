//! The descriptions of processes.

use redis::Value;
use tokio::time::Instant;

use super::Verb;
use crate::base::process::{Process, ProcessId};
use crate::redis::{Call, Script, self_description};
use crate::store::memory::State;
use crate::store::redis::lua::script;
use crate::store::redis::reply::Unexpected;

/// Returns the description of a process; `None` if there is none that can be read.
#[derive(Clone, Debug)]
pub(crate) struct Describe(pub(crate) ProcessId);

impl Verb for Describe {
    type Reply = Option<Process>;

    fn lua() -> &'static Script {
        script!("described")
    }

    fn call(&self) -> Call {
        Self::lua().call(1).arg(self_description::key(self.0))
    }

    fn read(&self, reply: Value) -> Result<Option<Process>, Unexpected> {
        match reply {
            Value::Nil => Ok(None),
            Value::BulkString(text) => Ok(Process::from_text(&String::from_utf8_lossy(&text))),
            other => Err(Unexpected(other)),
        }
    }

    /// An in-memory store has only holders of this process, which describes itself.
    fn apply(self, _state: &mut State, _now: Instant) -> Option<Process> {
        (self.0 == ProcessId::this()).then(Process::this)
    }
}

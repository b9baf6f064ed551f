//! The requests to a store, with one verb in each file. A file has the request, the keys and arguments of its script,
//! how the reply is read, and what the in-memory store does. The script is in `lua/NAME.lua`.
//!
//! Every verb is atomic in the store. A request may be executed without a response, may be executed late, and may be
//! executed twice. Each verb is written so that this changes nothing (P8). The exception is an acquire that was
//! answered and is executed once more after its hold has ended. It takes the lock for that hold, until the lease
//! expires. TCP does not repeat a request, nor does anything below this crate.

use redis::Value;
use tokio::time::Instant;

use super::memory::State;
use super::redis::batch::BatchItem;
use crate::base::background::WriteSignal;
use crate::redis::{Call, Script};

pub(crate) mod acquire;
pub(crate) mod acquire_shared;
pub(crate) mod deadlock_search; // four scripts: `update_wait`, `list_waits`, `list_holds`, `claim_victim`
pub(crate) mod inspect; // and `force_release`
pub(crate) mod read_description;
pub(crate) mod release;
pub(crate) mod renew; // and `renew_readers`
pub(crate) mod set_depth;

#[cfg(any(test, fuzzing))]
#[path = "../../tests/mounted/properties/reply.rs"]
pub(crate) mod properties;

/// Whether the hold was in the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Present,
    Gone,
}

impl From<bool> for Presence {
    fn from(is_present: bool) -> Self {
        if is_present {
            Self::Present
        } else {
            Self::Gone
        }
    }
}

/// A request that a store executes.
pub(crate) trait Verb: Clone + Send + Sync + Unpin + 'static {
    type Reply: Send + 'static;

    /// The script that executes it in Redis.
    fn script() -> &'static Script;

    /// The call of the script, with its keys and arguments.
    fn call(&self) -> Call;

    /// Returns whether it waits for other requests that are made in the same turn of the runtime.
    fn goes_with_others(&self) -> bool {
        false
    }

    /// The request in its form for a batch, if it may travel with others.
    fn batch_item(&self) -> Option<BatchItem> {
        None
    }

    /// The signal that the request was written, if its caller waits for no more.
    fn written(&self) -> Option<&WriteSignal> {
        None
    }

    /// Reads the reply of the script; `None` if no script of this crate gives such a reply.
    fn decode(&self, reply: &Value) -> Option<Self::Reply>;

    /// Does in memory what the script does.
    fn apply(self, state: &mut State, now: Instant) -> Self::Reply;
}

//! The values that the verbs, both stores and their callers share. They are the limits of the scripts, the messages of
//! a store, the places in a queue, the published waits.

use std::sync::Arc;
use std::time::Duration;

use crate::base::id::{FencingToken, HoldId, InboxId};
use crate::base::lease_times::StoreTime;

/// The least score of a tombstone. No place has such a high order.
pub(crate) const TOMBSTONES_FROM: u64 = 1 << 52;

/// The least number from which on neither Lua nor JSON represents every integer exactly. No clock gives such a token
/// before the year 2255.
pub(crate) const INEXACT_FROM: u64 = 1 << 53;

/// The time for which an ended hold is remembered, and so the maximum delay of a request.
pub(crate) const TOMBSTONE_LIFE: Duration = Duration::from_secs(600);

/// The maximum time for which a depth change is remembered after the last one of its lock. The minimum is half of it.
pub(crate) const SEQ_LIFE: Duration = TOMBSTONE_LIFE.saturating_mul(2);

/// The number of fields from which on a script reads only a part of a hash, and the number of expired readers that it
/// removes. Any hash may be at the key of a lock, and the server does nothing else while a script runs. It is enough for
/// all [holders that are shown](super::verbs::inspect::MAX_HOLDERS_SHOWN).
pub(crate) const MAX_FIELDS_READ: u64 = 1_024;

/// The limits with their names in the scripts. A life is in ms.
pub(crate) fn limits_in_scripts() -> [(&'static str, u128); 5] {
    [
        ("TOMBSTONES_FROM", TOMBSTONES_FROM.into()),
        ("INEXACT_FROM", INEXACT_FROM.into()),
        ("TOMBSTONE_LIFE", TOMBSTONE_LIFE.as_millis()),
        ("SEQ_LIFE", SEQ_LIFE.as_millis()),
        ("MAX_FIELDS_READ", MAX_FIELDS_READ.into()),
    ]
}

/// The way in which a process waits in the queue of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct QueueEntry {
    pub(crate) inbox: InboxId,
    /// The lease of a lock that moves to the process.
    pub(crate) grant: Duration,
    /// The time for which its place is kept after the last request.
    pub(crate) life: Duration,
}

/// The message that a lock has moved to holds that were waiting.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HandoffMessage {
    /// The key in the store.
    pub(crate) key: String,
    /// One hold, or the holds of several readers.
    pub(crate) holds: Vec<HoldId>,
    pub(crate) token: FencingToken,
    /// The time at which it has moved.
    pub(crate) at: StoreTime,
    /// The lease, counted from that time.
    pub(crate) lease: Duration,
}

/// The message, to all processes, that holds were ended by force.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ForcedMessage {
    /// The key in the store.
    pub(crate) key: String,
    pub(crate) holds: Vec<HoldId>,
}

/// The receiver of the messages that go to all processes.
pub(crate) trait ForcedReleaseListener: Send + Sync {
    /// Holds were ended by force. The list also has holds of other processes and of other `Locks`.
    fn forced(&self, message: ForcedMessage);
}

/// The receiver of the messages that a lock has moved.
pub(crate) trait MessageListener: Send + Sync {
    /// A lock has moved to holds of this process.
    fn handoff(&self, message: HandoffMessage);

    /// Another process has begun to wait for a lock that this process holds.
    fn contended(&self, _key: &str) {}

    /// Messages may have been missed up to now, or may be missed from now on. The inbox is open, or broken.
    fn missed(&self);
}

/// An acquisition that waits while holds enclose it. It is published, so that processes that wait for each other can
/// find each other. The record says who waits, for which lock, and which holds cannot end before the wait does.
///
/// A record is stored for a short time with the owner of each hold that encloses the wait. No record decides who has a
/// lock. A record that is lost, late or forged can only delay the search for deadlocks, or cause an unnecessary victim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EnclosedWait {
    /// The id of the hold that it will have.
    pub(crate) id: HoldId,
    /// The key in the store that it waits for.
    pub(crate) key: Arc<str>,
    /// The holds that end after it, each with its key.
    pub(crate) enclosing: Vec<OuterHold>,
}

/// A hold that encloses a wait.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OuterHold {
    pub(crate) hold: HoldId,
    /// The key in the store that it holds.
    pub(crate) key: Arc<str>,
}

impl EnclosedWait {
    /// Returns whether it is inside this hold.
    pub(crate) fn is_enclosed_by(&self, hold: HoldId) -> bool {
        self.enclosing
            .iter()
            .any(|enclosing| enclosing.hold == hold)
    }
}

/// The result of a change of the published waits, with the time of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpdateWaitReply {
    Done(StoreTime),
    /// The record has taken too long to arrive, and is not stored.
    Late(StoreTime),
}

/// The delay after which a publication is rejected if its record has this lifetime.
pub(crate) fn lateness(life: Duration) -> Duration {
    life / 4
}

/// The records that existed at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedWaits {
    pub(crate) at: StoreTime,
    pub(crate) waits: Vec<ListedWait>,
}

/// A record of a published wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedWait {
    pub(crate) wait: EnclosedWait,
    /// The time of the last publication.
    pub(crate) stamp: StoreTime,
    /// The lifetime of the record, counted from then.
    pub(crate) life: Duration,
}

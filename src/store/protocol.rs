//! What is asked of a store, what it answers, and what it tells.

use std::time::Duration;

use crate::base::{
    id::{FencingToken, HoldId, InboxId},
    key::LockKey,
    mode::Mode,
};

/// How many holders an inspection shows at most.
pub(crate) const SHOWN: usize = 1_000;

/// The message that a lock has moved to holds that were waiting.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HandoffMessage {
    /// The key in the store.
    pub(crate) key: String,
    /// One, or those of several readers.
    pub(crate) holds: Vec<HoldId>,
    pub(crate) token: FencingToken,
    /// When it has moved.
    pub(crate) at: StoreTime,
    /// Counted from then.
    pub(crate) lease: Duration,
}

/// The message, to all processes, that holds were ended by force.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ForcedMessage {
    /// The key in the store.
    pub(crate) key: String,
    pub(crate) holds: Vec<HoldId>,
}

/// The clock of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StoreTime {
    pub(crate) micros: u64,
}

impl StoreTime {
    /// `None` if it is the earlier one, which only a clock that was set back explains.
    pub(crate) fn since(self, earlier: Self) -> Option<Duration> {
        self.micros
            .checked_sub(earlier.micros)
            .map(Duration::from_micros)
    }

    /// The time so long after it.
    pub(crate) fn after(self, span: Duration) -> Self {
        let span = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let micros = self.micros.saturating_add(span);
        Self { micros }
    }
}

/// The request of one hold for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AcquireRequest {
    pub(crate) hold: HoldId,
    pub(crate) ttl: Duration,
    /// How it waits; `None` if it does not.
    pub(crate) entry: Option<QueueEntry>,
}

/// How a process stands in the queue of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct QueueEntry {
    pub(crate) inbox: InboxId,
    /// The lease of a lock that moves to it.
    pub(crate) grant: Duration,
    /// How long its place is kept after the last request.
    pub(crate) life: Duration,
    /// Whether its process is to be told, while it has the lock, that another one has come to wait.
    pub(crate) tells: bool,
    /// Whether it goes before those who want the lock in the other mode.
    pub(crate) is_preferred: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AcquireReply {
    /// The hold has the lock, with this lease counted from the execution of the request.
    Held {
        token: FencingToken,
        lease: Duration,
        /// The time of the store then.
        at: StoreTime,
        /// Whether another process may wait for the lock.
        is_contended: bool,
    },
    /// Another hold has it, for so long; `None` if it never expires.
    Busy {
        remaining: Option<Duration>,
        now: StoreTime,
    },
    /// The hold was ended before this request arrived.
    Ended,
}

/// The depth that a hold is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DepthChange {
    pub(crate) hold: HoldId,
    pub(crate) mode: Mode,
    pub(crate) target: u32,
    /// Grows with every change of the hold.
    pub(crate) seq: u64,
    pub(crate) ttl: Duration,
    /// Whether the lease is to last at least `ttl` from now.
    pub(crate) lengthen: bool,
}

/// A lease that is to last at least the TTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Renewal {
    pub(crate) hold: HoldId,
    pub(crate) ttl: Duration,
}

/// The end of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReleaseRequest {
    pub(crate) hold: HoldId,
    /// Whether it shares the lock, or wants to.
    pub(crate) mode: Mode,
    /// The inbox of the process whose hold it is.
    pub(crate) inbox: InboxId,
    /// Whether an acquire of the hold is unanswered, so that it has to be refused if it arrives
    /// after this.
    pub(crate) tombstone: bool,
    /// Whether its depth may have changed.
    pub(crate) nested: bool,
    /// Whether no place of the process in the line can be meant for this hold.
    pub(crate) placeless: bool,
    /// Only of a hold that has the lock alone.
    pub(crate) successor: Option<Successor>,
    /// How long the lock is held at least, counted from its token: until then it stands, and no hold follows. Only of a
    /// hold that has the lock alone.
    pub(crate) min_hold: Option<Duration>,
}

impl ReleaseRequest {
    /// Whether nothing but its field can be there of the hold, and none follows it.
    pub(crate) fn is_short(&self) -> bool {
        self.placeless
            && !self.tombstone
            && !self.nested
            && self.successor.is_none()
            && self.min_hold.is_none()
    }
}

/// The hold of the same process that is to have the lock next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Successor {
    pub(crate) hold: HoldId,
    pub(crate) ttl: Duration,
    pub(crate) entry: QueueEntry,
    pub(crate) order: Order,
}

/// Which waiter gets a released lock first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Order {
    /// The successor.
    SuccessorFirst,
    /// The process that has waited longest. Then the successor enters the queue.
    QueueFirst,
}

/// Whether replicas have what the server has executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Confirmation {
    Confirmed,
    /// Too few of them had it in time.
    Late,
    /// The connection has failed, or is another one now.
    Unknown,
}

/// What the end of a hold came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReleaseReply {
    pub(crate) presence: Presence,
    /// What the successor has now; `None` if there is none, or if it has to ask by itself.
    pub(crate) successor: Option<AcquireReply>,
}

/// Whether the hold was in the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Present,
    Gone,
}

/// The request of readers of one process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ShareRequest {
    pub(crate) holds: Vec<HoldId>,
    pub(crate) ttl: Duration,
    /// With how many holders at most they share it; then they are one.
    pub(crate) limit: Option<u32>,
    /// Whether they enter a lock that is shared although others wait for it exclusively.
    pub(crate) passes: bool,
    /// How their process waits; `None` if they do not.
    pub(crate) entry: Option<QueueEntry>,
}

/// Leases of readers that are to last at least the TTL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keeping {
    pub(crate) holds: Vec<HoldId>,
    pub(crate) ttl: Duration,
}

/// A hold that has the lock alone is to share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Downgrading {
    pub(crate) hold: HoldId,
    pub(crate) ttl: Duration,
    /// Its own, which may be later than the store knows.
    pub(crate) token: FencingToken,
}

/// What stands in a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// At most [`SHOWN`] of them.
    pub(crate) holders: Vec<SeenHolder>,
    pub(crate) mode: Mode,
    /// `None` if the lock never expires.
    pub(crate) remaining: Option<Duration>,
    /// `None` if the lock is held by a program that gives no tokens, or if the token is not known.
    pub(crate) token: Option<FencingToken>,
    /// How many processes stand in the queue.
    pub(crate) waiting: u64,
    /// When it stood so.
    pub(crate) at: StoreTime,
}

/// One field of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeenHolder {
    /// Other programs may write any bytes there.
    pub(crate) field: Vec<u8>,
    /// 0 where it is no number from 0 to `u64::MAX`.
    pub(crate) depth: u64,
    /// Its own lease, of a reader.
    pub(crate) remaining: Option<Duration>,
}

/// The holders that an inspection has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) fields: Vec<Vec<u8>>,
    pub(crate) token: Option<FencingToken>,
}

impl Snapshot {
    /// How long ago the lock was taken: its token is the time of that. `None` if the clock was set back since.
    pub(crate) fn held_for(&self) -> Option<Duration> {
        let token = self.token?;
        self.at.since(StoreTime { micros: token.0 })
    }

    /// The holders with the token of the lock.
    pub(crate) fn seen(self) -> Seen {
        let holders = self.holders.into_iter();
        Seen {
            fields: holders.map(|holder| holder.field).collect(),
            token: self.token,
        }
    }
}

/// How many keys an acquire of several locks names at most, so that no script keeps the server for long.
pub(crate) const MOST_TOGETHER: usize = 32;

/// A hold of one lock, as one of several.
pub(crate) type HoldOf = (LockKey, HoldId);

/// What the request of one hold for several locks came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AcquireAllReply {
    /// The hold has them all: for each key its token and its lease, counted from the execution of the request.
    Held {
        /// The time of the store then.
        at: StoreTime,
        locks: Vec<(FencingToken, Duration)>,
    },
    /// Nothing was taken: that of the key with this index is the first lock that is not free.
    Busy { first: usize },
    /// The hold was ended before this request arrived.
    Ended,
}

impl AcquireAllReply {
    /// What it says of the key with this index.
    pub(crate) fn part(&self, index: usize) -> AcquireReply {
        // The request has named no inbox: so it does not stand in a queue, and needs no time of the store.
        let busy = AcquireReply::Busy {
            remaining: None,
            now: StoreTime { micros: 0 },
        };
        match self {
            Self::Held { at, locks } => {
                locks
                    .get(index)
                    .map_or(busy, |&(token, lease)| AcquireReply::Held {
                        token,
                        lease,
                        at: *at,
                        is_contended: true,
                    })
            }
            Self::Busy { .. } => busy,
            Self::Ended => AcquireReply::Ended,
        }
    }
}

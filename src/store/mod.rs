//! The seam between the lock and where it lives: six operations, the messages that a lock has moved to
//! this process, and the count of disconnects.
//!
//! Every operation is atomic in the store. A request may be executed although no answer comes, may
//! be executed late, and may be executed twice; each operation is written so that this changes nothing
//! (P8). The exception is an acquire that was answered and is executed once more after its hold has
//! ended: it takes the lock for that hold, until the lease ends. TCP does not repeat a request, nor does
//! anything below this crate.

use std::{fmt, pin::Pin, sync::Weak, time::Duration};

use tokio::{sync::watch, time::Instant};

use crate::base::{
    error::StoreError,
    id::{FencingToken, HoldId, InboxId},
    key::LockKey,
};

#[cfg(test)]
#[path = "../../tests/contract/mod.rs"]
mod contract;
#[cfg(test)]
#[path = "../../tests/differential/mod.rs"]
mod differential;
pub(crate) mod memory;
pub(crate) mod redis;

/// How long an ended hold is remembered, and so how late a request may still arrive.
pub(crate) const TOMBSTONE_LIFE: Duration = Duration::from_secs(600);

/// How many holders an inspection shows at most.
pub(crate) const SHOWN: usize = 1_000;

pub(crate) type Answer<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

/// Where locks live.
pub(crate) trait Store: fmt::Debug + Send + Sync {
    /// Takes the lock for a hold if it is free and no live process waits for it. Repeating it for a
    /// hold that already has the lock answers with the same token and a lease of at least the TTL.
    /// Otherwise a request with an entry enters the queue, or keeps its process's place there.
    fn acquire(&self, key: &LockKey, request: AcquireRequest) -> Answer<AcquireReply>;

    /// Moves the depth of a hold to a target, unless a change with a later number has been made.
    fn depth(&self, key: &LockKey, change: DepthChange) -> Answer<Presence>;

    /// Makes the lease last at least the TTL from the execution of the request.
    fn renew(&self, key: &LockKey, renewal: Renewal) -> Answer<Presence>;

    /// Ends a hold, whether it stands in the lock or in the queue, or an unanswered acquire may still
    /// put it there. The lock moves on: to the successor, or to the process that has waited longest.
    fn release(&self, key: &LockKey, request: ReleaseRequest) -> Answer<ReleaseReply>;

    /// What stands in the lock now; `None` if it is free.
    fn inspect(&self, key: &LockKey) -> Answer<Option<Snapshot>>;

    /// Ends the hold `seen`, if it is still there, and moves the lock on.
    fn force_release(&self, key: &LockKey, seen: Seen) -> Answer<bool>;

    /// Opens the inbox, unless it is open: `listener` is told from now on which locks have moved to
    /// it. Returns false while it is broken, and where there can be none, so that waiters have to ask; the
    /// listener is woken whenever that changes.
    fn listen(&self, inbox: InboxId, listener: Weak<dyn Listener>) -> bool;

    /// The inbox may be dead: a waiter had to ask although a message should have come.
    fn check_subscription(&self);

    /// A request that was sent at `since` has no answer, and its sender cannot wait for long. Where the
    /// connection has been silent since then, the next request gets another one.
    fn suspect(&self, since: Instant);

    /// How long a request that is sent now may take until it is answered or fails, in any runtime that goes on
    /// polling it.
    fn answers_within(&self) -> Duration {
        Duration::MAX
    }

    /// Whether a request that is sent at `sent` is answered, or has failed, at the limit.
    fn answers_by(&self, sent: Instant, limit: Instant) -> bool {
        let answered_by = sent.checked_add(self.answers_within());
        answered_by.is_some_and(|answered_by| answered_by <= limit)
    }

    /// Changes whenever the connection was lost, so that every hold that rests on it is verified.
    fn disconnects(&self) -> watch::Receiver<u64>;

    /// Changes with every new connection: times of the store from before and after must not be
    /// compared, since it may be another server that answers.
    fn connection_epoch(&self) -> u64;
}

/// The receiver of the messages that a lock has moved.
pub(crate) trait Listener: Send + Sync {
    /// A lock has moved to a hold of this process.
    fn handoff(&self, message: HandoffMessage);

    /// Another process has come to wait for a lock that this one has.
    fn contended(&self, _key: &str) {}

    /// Whether no caller waits for a message.
    fn is_idle(&self) -> bool;

    /// Messages may have been missed up to now, or will be from now on: the inbox is open, or broken.
    fn missed(&self);
}

/// The message that a lock has moved to a hold that was waiting.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HandoffMessage {
    /// The key in the store.
    pub(crate) key: String,
    pub(crate) hold: HoldId,
    pub(crate) token: FencingToken,
    /// When it has moved.
    pub(crate) at: StoreTime,
    /// Counted from then.
    pub(crate) lease: Duration,
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
    /// The inbox of the process whose hold it is.
    pub(crate) inbox: InboxId,
    /// Whether an acquire of the hold is unanswered, so that it has to be refused if it arrives
    /// after this.
    pub(crate) tombstone: bool,
    /// Whether its depth may have changed.
    pub(crate) nested: bool,
    /// Whether no place of the process in the line can be meant for this hold.
    pub(crate) placeless: bool,
    pub(crate) successor: Option<Successor>,
}

impl ReleaseRequest {
    /// Whether nothing but its field can be there of the hold, and none follows it.
    pub(crate) fn is_short(&self) -> bool {
        self.placeless && !self.tombstone && !self.nested && self.successor.is_none()
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

/// What stands in a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// Field and depth of each holder, of at most [`SHOWN`] of them. Other programs may write any bytes
    /// there; a depth that is no number from 0 to `u64::MAX` is shown as 0.
    pub(crate) holders: Vec<(Vec<u8>, u64)>,
    /// `None` if the lock never expires.
    pub(crate) remaining: Option<Duration>,
    /// `None` if the lock is held by a program that gives no tokens, or if the token is not known.
    pub(crate) token: Option<FencingToken>,
    /// How many processes stand in the queue.
    pub(crate) waiting: u64,
}

/// A holder that an inspection has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) field: Vec<u8>,
    pub(crate) token: Option<FencingToken>,
}

impl Snapshot {
    /// The first holder with the token of the lock.
    pub(crate) fn seen(self) -> Option<Seen> {
        let token = self.token;
        self.holders
            .into_iter()
            .next()
            .map(|(field, _)| Seen { field, token })
    }
}

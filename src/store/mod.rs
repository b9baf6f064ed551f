//! The seam between the lock and where it lives: its operations, the messages that a lock has moved to
//! this process, and the count of disconnects.
//!
//! Every operation is atomic in the store. A request may be executed although no answer comes, may
//! be executed late, and may be executed twice; each operation is written so that this changes nothing
//! (P8). The exception is an acquire that was answered and is executed once more after its hold has
//! ended: it takes the lock for that hold, until the lease ends. TCP does not repeat a request, nor does
//! anything below this crate.

use std::{fmt, sync::Weak, time::Duration};

use tokio::{sync::watch, time::Instant};

use self::{survey::Survey, waits::Waits};
use crate::base::{
    confirm::Replicas,
    id::{HoldId, InboxId},
    key::LockKey,
};

mod answer;
#[cfg(test)]
#[path = "../../tests/contract/mod.rs"]
mod contract;
#[cfg(test)]
#[path = "../../tests/differential/mod.rs"]
mod differential;
pub(crate) mod memory;
mod protocol;
pub(crate) mod redis;
#[cfg(any(test, feature = "test-util"))]
pub(crate) mod server;
pub(crate) mod survey;
#[cfg(any(test, feature = "test-util"))]
pub(crate) mod through;
pub(crate) mod waits;

pub(crate) use self::{answer::Answer, protocol::*};

/// How long an ended hold is remembered, and so how late a request may still arrive.
pub(crate) const TOMBSTONE_LIFE: Duration = Duration::from_secs(600);

/// Where locks live.
pub(crate) trait Store: fmt::Debug + Send + Sync {
    /// Connects, unless it is connected. Every request does so that needs to.
    fn connect(&self) -> Answer<()> {
        Box::pin(async { Ok(()) })
    }

    /// Takes the lock for a hold if it is free and no live process waits for it. Repeating it for a
    /// hold that already has the lock answers with the same token and a lease of at least the TTL.
    /// Otherwise a request with an entry enters the queue, or keeps its process's place there.
    fn acquire(&self, key: &LockKey, request: AcquireRequest) -> Answer<AcquireReply>;

    /// Lets holds share the lock, unless it is held exclusively or a live process waits for it: one reply for each
    /// of them, in their order. Repeating it for a hold that is in already answers with its token, and its
    /// lease lasts at least the TTL from then. Those that are not let in wait as in [`acquire`](Self::acquire).
    fn share(&self, key: &LockKey, request: ShareRequest) -> Answer<Vec<AcquireReply>>;

    /// Moves the depth of a hold to a target, unless a change with a later number has been made.
    fn depth(&self, key: &LockKey, change: DepthChange) -> Answer<Presence>;

    /// Makes the lease of a hold that has the lock alone last at least the TTL from the execution of the request.
    fn renew(&self, key: &LockKey, renewal: Renewal) -> Answer<Presence>;

    /// The same for holds that share the lock, each of which has a lease of its own. Returns those that
    /// are gone. One whose downgrade has not been executed has the lock alone until then.
    fn keep(&self, key: &LockKey, keeping: Keeping) -> Answer<Vec<HoldId>>;

    /// From now on the hold shares the lock that it has alone, with a lease of at least the TTL, and with its token.
    /// Readers that are first in the queue enter. Repeating it changes nothing but the lease.
    fn downgrade(&self, key: &LockKey, downgrading: Downgrading) -> Answer<Presence>;

    /// Ends a hold, whether it stands in the lock or in the queue, or an unanswered acquire may still
    /// put it there. The lock moves on: to the successor, or to the process that has waited longest. Where it is to be
    /// held for longer than it was, it stands until then, and ends by itself.
    fn release(&self, key: &LockKey, request: ReleaseRequest) -> Answer<ReleaseReply>;

    /// Takes several locks for one hold, or none of them, with leases of this TTL. It takes those alone that are free and
    /// that no process waits for, and never waits. Repeating it for a hold that has them all already answers with the
    /// same tokens and leases of at least the TTL. The keys differ, and are [`MOST_TOGETHER`] at most.
    fn acquire_all(&self, keys: &[LockKey], hold: HoldId, ttl: Duration)
    -> Answer<AcquireAllReply>;

    /// Makes the leases last at least the TTL from the execution of the request. Returns the index of the first hold
    /// that is gone.
    fn renew_all(&self, holds: &[HoldOf], ttl: Duration) -> Answer<Option<usize>>;

    /// Ends those of the holds whose locks no other process waits for. It is for the first attempt, and for holds of
    /// which nothing but the field can be there. Returns for each whether it was ended; the others are as they were.
    fn release_all(&self, holds: &[HoldOf]) -> Answer<Vec<bool>>;

    /// Waits until so many replicas have what was executed over the connection for the lock while it had this epoch. A
    /// store without a server has none to wait for.
    fn confirm(
        &self,
        _key: &LockKey,
        _replicas: Replicas,
        _within: Duration,
        _epoch: u64,
    ) -> Answer<Confirmation> {
        Box::pin(async { Ok(Confirmation::Confirmed) })
    }

    /// What stands in the lock now; `None` if it is free.
    fn inspect(&self, key: &LockKey) -> Answer<Option<Snapshot>>;

    /// The same, maybe without how many processes wait. Each of them may ask for it.
    fn holders(&self, key: &LockKey) -> Answer<Option<Snapshot>> {
        self.inspect(key)
    }

    /// Ends the holds that were `seen`, as far as they are still there, and returns their fields. The lock moves on, unless
    /// others are in it. A hash that does not look like a lock is refused.
    fn force_release(&self, key: &LockKey, seen: Seen) -> Answer<Vec<Vec<u8>>>;

    /// Where acquisitions that wait are published.
    fn waits(&self) -> &dyn Waits;

    /// Where operators look at many locks, and at many that wait.
    fn survey(&self) -> &dyn Survey;

    /// Opens the inbox, unless it is open: `listener` is told from now on which locks have moved to
    /// it. Returns false while it is broken, and where there can be none, so that waiters have to ask; the
    /// listener is woken whenever that changes.
    fn listen(&self, inbox: InboxId, listener: Weak<dyn Listener>) -> bool;

    /// `holders` are told which holds were ended by force, be it by another process, over every connection that is made
    /// from now on. A message may be lost.
    fn watch(&self, _holders: Weak<dyn Holders>) {}

    /// The inbox may be dead: a waiter had to ask although a message should have come.
    fn check_subscription(&self);

    /// A request about the lock that was sent at `since` has no answer, and its sender cannot wait for long. Where the
    /// connection has been silent since then, the next request gets another one.
    fn suspect(&self, key: &LockKey, since: Instant);

    /// How long a request about the lock that is sent now may take until it is answered or fails, in any runtime that goes on
    /// polling it.
    fn answers_within(&self, _key: &LockKey) -> Duration {
        Duration::MAX
    }

    /// Whether a request that is sent at `sent` is answered, or has failed, at the limit.
    fn answers_by(&self, key: &LockKey, sent: Instant, limit: Instant) -> bool {
        let answered_by = sent.checked_add(self.answers_within(key));
        answered_by.is_some_and(|answered_by| answered_by <= limit)
    }

    /// Tells the server that answers for the lock from the others.
    fn server_of(&self, _key: &LockKey) -> usize {
        0
    }

    /// Whether there is a connection over which a request about the lock is sent at once.
    fn is_connected(&self, _key: &LockKey) -> bool {
        true
    }

    /// Changes whenever a connection was made. `None` where it is not known.
    fn connections(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    /// Closes its connections. A request after that fails.
    fn close(&self) {}

    /// Changes whenever a connection was lost, so that every hold that rests on it is verified.
    fn disconnects(&self) -> watch::Receiver<u64>;

    /// How many of them concern the lock.
    fn disconnects_of(&self, key: &LockKey) -> u64;

    /// Changes with every new connection over which the lock is asked for: times of the store from before and after must
    /// not be compared, since it may be another server that answers.
    fn connection_epoch(&self, _key: &LockKey) -> u64 {
        self.connection_epochs()
    }

    /// Changes with every new connection.
    fn connection_epochs(&self) -> u64;

    /// Whether one request may be about both of these locks.
    fn spans(&self, _one: &LockKey, _other: &LockKey) -> bool {
        true
    }
}

/// The receiver of the messages that go to all processes.
pub(crate) trait Holders: Send + Sync {
    /// Holds were ended by force; those of other processes and of other `Locks` are among them.
    fn forced(&self, message: ForcedMessage);
}

/// The receiver of the messages that a lock has moved.
pub(crate) trait Listener: Send + Sync {
    /// A lock has moved to holds of this process.
    fn handoff(&self, message: HandoffMessage);

    /// Another process has come to wait for a lock that this one has.
    fn contended(&self, _key: &str) {}

    /// Whether no caller waits for a message.
    fn is_idle(&self) -> bool;

    /// Messages may have been missed up to now, or will be from now on: the inbox is open, or broken.
    fn missed(&self);
}

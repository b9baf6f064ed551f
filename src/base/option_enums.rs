//! The enums of the options, one for each option that is neither a time nor a number.

use std::time::Duration;

/// What happens to a body when its lock is lost.
///
/// # Examples
///
/// ```
/// use reentry::{Locks, OnLost};
///
/// let builder = Locks::builder().url("memory:").on_lost(OnLost::KeepRunning);
/// # assert!(builder.build_lazy().is_ok());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnLost {
    /// The body is dropped at once, and the caller gets [`LockError::Lost`](crate::LockError::Lost).
    #[default]
    Abort,
    /// The body runs on, and its output is returned.
    ///
    /// The body can call [`Held::is_lost`](crate::Held::is_lost) or await
    /// [`Held::lost`](crate::Held::lost).
    KeepRunning,
}

/// What happens when an enclosing call already holds the key.
///
/// # Examples
///
/// ```
/// use reentry::{Locks, Reentrancy};
///
/// let builder = Locks::builder().url("memory:").reentrancy(Reentrancy::Forbid);
/// # assert!(builder.build_lazy().is_ok());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reentrancy {
    /// The lock is re-entered.
    #[default]
    Allow,
    /// The acquisition fails at once with [`LockError::AlreadyHeld`](crate::LockError::AlreadyHeld).
    Forbid,
}

/// Whether nested entries and exits wait until the store has the new depth.
///
/// The option decides what other programs see in the hash, not who may enter: the lock itself is
/// held in the meantime.
///
/// # Examples
///
/// ```
/// use reentry::{DepthSync, Locks};
///
/// let builder = Locks::builder().url("memory:").depth_sync(DepthSync::Background);
/// # assert!(builder.build_lazy().is_ok());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DepthSync {
    /// Entries and exits wait, so that the depth in the store is exact while the nested body runs. Each costs a
    /// round trip. While the store is away, they go on after one response timeout, as in the background.
    #[default]
    Awaited,
    /// Entries and exits do not wait. A background task brings the store up to date, with one request for several changes
    /// if they come fast. The depth in the store is exact again when the task has caught up. A loss of the lock is noticed
    /// then, too.
    Background,
}

/// How a waiter learns that the lock is free.
///
/// In one process only the first waiter for a key talks to the store; the others queue behind it. The first waiter
/// takes a place in the lock's queue in the store, keeps the place alive by a request in every
/// [heartbeat](crate::LocksBuilder::heartbeat), and requests the lock when the lease that it knows of expires.
///
/// # Examples
///
/// ```
/// use reentry::{Locks, Wake};
/// use std::time::Duration;
///
/// let poll = Wake::Poll { interval: Duration::from_millis(200), attempts: None };
/// let builder = Locks::builder().url("memory:").wake(poll);
/// # assert!(builder.build_lazy().is_ok());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Wake {
    /// The store sends a message, over one subscription per [`Locks`](crate::Locks), which is opened when
    /// a caller has to wait for the first time.
    ///
    /// Without a subscription this is the same as `Backoff`: if a pool was given without a URL, if the
    /// server rejects subscriptions, and until a broken subscription is made anew. A
    /// message that is lost, or a subscription that hangs, delays a hand-off by up to two heartbeats.
    #[default]
    Notify,
    /// The waiter asks again after a delay that grows, with jitter, from 10 ms to 100 ms, or to the heartbeat
    /// if that is shorter.
    Backoff,
    /// The waiter asks again after a fixed interval, as the classic implementations do.
    Poll {
        /// The time between an answer and the next request. Must not be zero.
        ///
        /// If the interval is longer than the heartbeat, the process takes no place in the queue, and gets the lock
        /// only when no other process waits.
        interval: Duration,
        /// How many times one waiter asks before it gives up with [`LockError::Timeout`](crate::LockError::Timeout); with
        /// `None` only `wait` limits that.
        attempts: Option<u32>,
    },
}

/// How a lock moves from one call graph to the next one in the same process.
///
/// # Examples
///
/// ```
/// use reentry::{HandOff, Locks};
///
/// let builder = Locks::builder().url("memory:").handoff(HandOff::InProcess);
/// # assert!(builder.build_lazy().is_ok());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HandOff {
    /// In the store, in the request that releases the lock: an inspection of the lock shows every holder.
    #[default]
    InStore,
    /// In memory, without a request, while the lease lasts.
    ///
    /// A group of call graphs that follow each other shares one hold in the store, that is, its
    /// [hold id](crate::Held::hold_id) and its lease; each call graph has a fencing token of its own. The
    /// group goes on as long as no other process waits. It ends
    /// - after a heartbeat;
    /// - after [`local_handoffs`](crate::LocksBuilder::local_handoffs), once another process waits, or where no
    ///   message can announce such a process ([`Wake`]);
    /// - when the renewal of the hold is due;
    /// - after a section shorter than the microsecond that the next token needs;
    /// - before a waiter with another TTL or a `max_hold`.
    ///
    /// See Dice, Marathe and Shavit, [*Lock Cohorting*](https://doi.org/10.1145/2145816.2145848), 2012.
    InProcess,
}

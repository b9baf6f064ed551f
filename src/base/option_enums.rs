//! The enums of the options: one for each that is no time and no number.

use std::time::Duration;

/// What happens to a body whose lock is lost.
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
    /// The body is dropped at once and the caller gets [`LockError::Lost`](crate::LockError::Lost).
    #[default]
    Abort,
    /// The body runs on and its output is returned.
    ///
    /// It can ask [`Held::is_lost`](crate::Held::is_lost) or await
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
/// It decides what other programs see in the hash, not who may enter: the lock itself is
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
    /// They wait, so that the depth in the store is exact while the nested body runs. Each costs a
    /// round trip. While the store is away they go on after one response timeout, as in the background.
    #[default]
    Awaited,
    /// They do not wait. A task in the background brings the store up to date, several changes at once if
    /// they come fast; the depth in the store is exact again when it has caught up. That a lock is
    /// gone is noticed then too.
    Background,
}

/// How a waiter learns that it is its turn.
///
/// In one process only the first waiter of a key talks to the store; the others stand behind it. It
/// takes a place in the lock's queue there, keeps it alive by asking once in every
/// [heartbeat](crate::LocksBuilder::heartbeat), and asks at the end of the lease that it knows of.
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
    /// The store tells it, over one subscription per [`Locks`](crate::Locks) that is opened when
    /// a caller has to wait for the first time.
    ///
    /// While there is none it is as `Backoff`: where a pool was given without a URL, where the
    /// server refuses subscriptions, and from the end of a broken one until it is made anew. A
    /// message that is lost, or a subscription that hangs, delays a hand-off by up to two heartbeats.
    #[default]
    Notify,
    /// It asks again after a delay that grows, with jitter, from 10 ms to 100 ms, or to the heartbeat
    /// if that is shorter.
    Backoff,
    /// It asks again after a fixed interval, as the classic implementations do.
    Poll {
        /// The time between an answer and the next request. Must not be zero.
        ///
        /// If it is longer than the heartbeat, the process takes no place in the queue, and gets in
        /// when no other process is waiting.
        interval: Duration,
        /// How many times one waiter asks before it gives up with [`LockError::Timeout`](crate::LockError::Timeout); `None`
        /// leaves that to `wait` alone.
        attempts: Option<u32>,
    },
}

/// How a lock goes from one call graph to the next one in the same process.
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
    /// In the store, in the request that releases it: an inspection of the lock shows every holder.
    #[default]
    InStore,
    /// In memory, without a request, while the lease lasts.
    ///
    /// A group of call graphs that follow each other shares one hold in the store: its
    /// [hold id](crate::Held::hold_id) and its lease; each has a fencing token of its own. The
    /// group goes on as long as no other process waits. It ends after a heartbeat; after
    /// [`local_handoffs`](crate::LocksBuilder::local_handoffs) once another process has come to wait, or where no
    /// message can tell of one ([`Wake`]); when its renewal is due; at a section shorter than the microsecond that
    /// the next token needs; and at a waiter with another TTL or a `max_hold`. See
    /// Dice, Marathe and Shavit, [*Lock Cohorting*](https://doi.org/10.1145/2145816.2145848), 2012.
    InProcess,
}

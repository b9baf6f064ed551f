//! The types of the options that are neither a time nor a number.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::base::error::LockError;

/// The mode of a hold: exclusive, or shared with other readers.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), reentry::LockError> {
/// use reentry::{Locks, Mode};
///
/// let locks = Locks::in_memory();
/// let guard = locks.lock("report:2026").acquire().await?;
/// assert_eq!(guard.held().mode(), Mode::Exclusive);
/// guard.held().downgrade().await?;
/// assert_eq!(guard.held().mode(), Mode::Shared);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// No other call graph has the lock in any mode: the holder is a writer.
    #[default]
    Exclusive,
    /// Any number of call graphs may share the lock, and none has it exclusively: the holder is a reader.
    Shared,
}

impl Mode {
    /// The name in spans and metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Shared => "shared",
        }
    }
}

/// The order in which readers and writers get a lock that they wait for.
///
/// # Examples
///
/// ```
/// use reentry::{Fairness, Locks};
///
/// let builder = Locks::builder().url("memory:").fairness(Fairness::PreferWriters);
/// # assert!(builder.build_lazy().is_ok());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fairness {
    /// First come, first served: no reader overtakes a writer that waits.
    #[default]
    Fifo,
    /// Readers overtake all writers that wait. While readers keep coming, a writer may wait forever.
    PreferReaders,
    /// Writers overtake all readers that wait. While writers keep coming, a reader may wait forever.
    PreferWriters,
}

impl Fairness {
    /// Whether requests in this mode overtake the others.
    pub(crate) fn prefers(self, mode: Mode) -> bool {
        matches!(
            (self, mode),
            (Self::PreferReaders, Mode::Shared) | (Self::PreferWriters, Mode::Exclusive)
        )
    }
}

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

impl Wake {
    /// Whether a waiter that has asked `asked` times must give up.
    pub(crate) fn is_exhausted(self, asked: u32) -> bool {
        matches!(self, Self::Poll { attempts: Some(attempts), .. } if asked >= attempts)
    }

    pub(crate) fn check(self) -> Result<(), LockError> {
        let zero = match self {
            Self::Poll { interval, .. } if interval.is_zero() => "interval",
            Self::Poll {
                attempts: Some(0), ..
            } => "attempts",
            Self::Poll { .. } | Self::Backoff | Self::Notify => return Ok(()),
        };
        Err(LockError::config(format!(
            "the {zero} of Wake::Poll must not be zero"
        )))
    }
}

/// How a lock moves from one call graph to the next one in the same process.
///
/// # Examples
///
/// ```
/// use reentry::{Handoff, Locks};
///
/// let builder = Locks::builder().url("memory:").handoff(Handoff::InProcess);
/// # assert!(builder.build_lazy().is_ok());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Handoff {
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

/// The number of replicas of the server that must have a lock before it counts; for
/// [`LocksBuilder::confirm`](crate::LocksBuilder::confirm).
///
/// A replica that is promoted knows only the locks that it has received. Sentinels and clusters prefer the replica with the
/// most data, but only as far as they know: where two of three servers have a lock, the third one may be promoted. So a lock
/// needs [`all`](Self::all) to outlive every failover; with [`at_least`](Self::at_least) locks can be taken while a replica
/// is away.
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), reentry::LockError> {
/// use reentry::{Locks, Replicas};
///
/// let within = Duration::from_millis(500);
/// let builder = Locks::builder().url("memory:").confirm(Replicas::all(), within);
/// # builder.build().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Replicas(Option<NonZeroU32>);

impl Replicas {
    /// All replicas, and at least one: as many as the server has had since it became the primary, as far as this `Locks` has
    /// seen, and as the sentinels, or the servers of the cluster, saw healthy. A replica that is cut off still counts, since it
    /// may be promoted. A replica that was removed for good counts too, until the next failover or the next start of this
    /// process.
    ///
    /// A replica counts as soon as it has loaded the data of its primary, and it counts once, even if it comes back under
    /// another address. A backup by `redis-cli --rdb` does not count. A replica of priority 0 counts, though it is never
    /// promoted: the server reports how many replicas have a lock, but not which ones.
    #[must_use]
    pub const fn all() -> Self {
        Self(None)
    }

    /// At least `count` replicas; one replica if `count` is 0.
    #[must_use]
    pub const fn at_least(count: u32) -> Self {
        match NonZeroU32::new(count) {
            Some(count) => Self(Some(count)),
            None => Self(Some(NonZeroU32::MIN)),
        }
    }

    /// The number of replicas that must have a lock where there are `all`.
    pub(crate) fn of(self, all: u32) -> u32 {
        self.0.map_or(all.max(1), NonZeroU32::get)
    }
}

/// The number of replicas that must have a lock, and the time within which they must have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Confirm {
    pub(crate) replicas: Replicas,
    /// Milliseconds in 32 bits, to keep each hold small.
    within: NonZeroU32,
}

impl Confirm {
    pub(crate) fn new(replicas: Replicas, within: Duration) -> Result<Self, LockError> {
        let millis = u32::try_from(within.as_millis()).ok();
        match millis.and_then(NonZeroU32::new) {
            Some(within) => Ok(Self { replicas, within }),
            None => Err(LockError::config(format!(
                "replicas cannot confirm within {within:?}: from 1 ms to 49 days"
            ))),
        }
    }

    pub(crate) fn within(self) -> Duration {
        Duration::from_millis(self.within.get().into())
    }
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

//! The options and their defaults, and the only place where they are checked.

use std::num::NonZeroU32;
use std::time::Duration;

use tokio::time::Instant;

use crate::base::error::LockError;
use crate::base::lease_times::RENEWALS_PER_TTL;

/// The options of the queues of one `Locks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct QueueOptions {
    /// The longest interval between two requests of a waiter, if there are no failures.
    pub(crate) heartbeat: Duration,
    /// How many consecutive times a lock moves from one local waiter to the next while another process waits.
    pub(crate) turns: u32,
    /// The longest time for which a caller waits without a response of the store.
    pub(crate) outage: Duration,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(1),
            turns: 16,
            outage: Duration::from_secs(5),
        }
    }
}

impl QueueOptions {
    pub(crate) fn check(self) -> Result<(), LockError> {
        let (outage, shortest) = (self.outage, 2 * self.heartbeat);
        if outage < shortest {
            let reason = format!(
                "`outage` must be at least {shortest:?}, twice the time between two requests of a waiter, not {outage:?}"
            );
            return Err(LockError::config(reason));
        }
        Ok(())
    }

    /// The time after which a waiter with this TTL is reported: 5 s, or less if leases are short.
    pub(crate) fn reports_after(ttl: Duration) -> Duration {
        (ttl / 6).min(Duration::from_secs(5))
    }

    /// The heartbeat of a waiter with this TTL.
    pub(crate) fn heartbeat(self, ttl: Duration) -> Duration {
        self.heartbeat.min(ttl / RENEWALS_PER_TTL)
    }
}

/// Single attempts, in place of a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retry {
    pub(crate) attempts: u32,
    pub(crate) interval: Duration,
}

/// The options of a request. A request begins with those that the builder has set for all requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockOptions {
    /// The lease to request. When the terms are resolved, it is at least `min_hold` and at most `max_hold`.
    pub(crate) ttl: Duration,
    /// The TTL if the request itself has set it. Only then a re-entry lengthens the lease of its hold.
    pub(crate) own_ttl: Option<Duration>,
    /// The longest time for which a caller waits. Zero is a single attempt.
    pub(crate) wait: Duration,
    pub(crate) retry: Option<Retry>,
    pub(crate) max_hold: Option<Duration>,
    /// The minimum time for which the lock is held. The lease is at least as long, so that the lock is kept if the
    /// holder dies.
    pub(crate) min_hold: Option<Duration>,
    /// How much longer the lease lasts in the store than here, at least. It is the same for all requests of a `Locks`.
    pub(crate) grace: Duration,
    /// Whether the caller may take over the hold of another call graph in memory.
    pub(crate) may_inherit: bool,
    pub(crate) on_lost: OnLost,
    pub(crate) mode: Mode,
    /// The number of permits, if the lock is a semaphore.
    pub(crate) permits: Option<u32>,
    /// The replicas that must have the lock before it counts. They are the same for all requests of a `Locks`.
    pub(crate) confirm: Option<Confirm>,
}

impl Default for LockOptions {
    fn default() -> Self {
        Self {
            ttl: Self::DEFAULT_TTL,
            own_ttl: None,
            wait: Self::DEFAULT_WAIT,
            retry: None,
            max_hold: None,
            min_hold: None,
            grace: Duration::ZERO,
            may_inherit: true,
            on_lost: OnLost::default(),
            mode: Mode::default(),
            permits: None,
            confirm: None,
        }
    }
}

impl LockOptions {
    pub(crate) const DEFAULT_TTL: Duration = Duration::from_secs(30);
    /// The default of `wait`. It is longer than the TTL, so that waiters outlast a dead holder.
    pub(crate) const DEFAULT_WAIT: Duration = Duration::from_secs(60);
    /// The shortest TTL. The margin for clock drift would use up a shorter lease.
    const MIN_TTL: Duration = Duration::from_millis(20);
    /// The longest TTL. Redis computes expiry times in signed 64-bit milliseconds, and a century is far below their
    /// limit.
    const MAX_TTL: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

    pub(crate) fn waits(&self) -> bool {
        !self.wait.is_zero()
    }

    /// The instant until which a caller waits that began at `since`. A single attempt has no such limit, nor has a time
    /// too long to represent.
    pub(crate) fn wait_limit(&self, since: Instant) -> Option<Instant> {
        since.checked_add(self.wait).filter(|_| self.waits())
    }

    /// Checks the options against each other, and derives what follows from several of them.
    pub(crate) fn resolve(mut self) -> Result<Self, LockError> {
        // The lease lasts for the minimum time, so that the lock stays held if its holder dies before.
        self.ttl = self.ttl.max(self.min_hold.unwrap_or_default());
        // No holder keeps the lock for longer than `max_hold`, so the lease of a dead one need not last longer either.
        let lease = self
            .max_hold
            .map_or(self.ttl, |max_hold| max_hold.min(self.ttl));
        if let Some(reason) = self.contradiction(lease) {
            return Err(LockError::config(reason));
        }
        // Both times count from the beginning of a hold. So the hold cannot be one that another caller has begun.
        self.may_inherit = self.max_hold.is_none() && self.min_hold.is_none();
        // The store counts milliseconds.
        self.min_hold = self.min_hold.filter(|it| it.as_millis() > 0);
        self.ttl = lease;
        Ok(self)
    }

    /// Returns the reason why no lock can have these options.
    fn contradiction(self, lease: Duration) -> Option<String> {
        let (ttl, grace) = (self.ttl, self.grace);
        // One mistake is enough for an error. The first one that is found is named.
        let is_void = |retry: Retry| retry.attempts == 0 || retry.interval.is_zero();
        let reason = match (self.min_hold, self.max_hold) {
            _ if self.retry.is_some_and(is_void) => {
                "neither the `attempts` nor the `interval` of `retry` may be zero".to_owned()
            }
            _ if !(Self::MIN_TTL..=Self::MAX_TTL).contains(&ttl) => {
                format!("`ttl` must be between 20 ms and 100 years, not {ttl:?}")
            }
            (_, Some(max_hold)) if max_hold < Self::MIN_TTL => {
                format!("`max_hold` must be at least 20 ms, not {max_hold:?}")
            }
            // A renewal is due after a third of the lease. So at least another third is left for it.
            _ if grace > lease / 3 => {
                format!("`grace` must be at most a third of the lease of {lease:?}, not {grace:?}")
            }
            (Some(_), _) if self.mode == Mode::Shared => {
                "a shared lock cannot have a `min_hold`".to_owned()
            }
            (Some(min_hold), Some(max_hold)) if max_hold < min_hold => {
                format!(
                    "`min_hold` must be at most the `max_hold` of {max_hold:?}, not {min_hold:?}"
                )
            }
            _ if self.permits == Some(0) => "a semaphore must have at least one permit".to_owned(),
            _ => return None,
        };
        Some(reason)
    }
}

/// The mode of a hold: exclusive, or shared with other readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Mode {
    /// No other call graph holds the lock in any mode. The holder is a writer.
    #[default]
    Exclusive,
    /// Any number of call graphs may share the lock, and none holds it exclusively. The holder is a reader.
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

/// What happens to a body when its lock is lost. [`LockRequest::on_lost`](crate::LockRequest::on_lost) has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnLost {
    /// The body is dropped immediately, and the caller gets [`LockError::Lost`](crate::LockError::Lost).
    #[default]
    Abort,
    /// The body continues, and its output is returned. It watches for the loss itself, with
    /// [`Held::is_lost`](crate::Held::is_lost) or [`Held::lost`](crate::Held::lost).
    KeepRunning,
}

/// The number of replicas that must have a lock, and the time within which they must have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Confirm {
    replicas: NonZeroU32,
    /// Milliseconds in 32 bits, to keep each hold small.
    within: NonZeroU32,
}

impl Confirm {
    pub(crate) fn new(replicas: u32, within: Duration) -> Result<Self, LockError> {
        let replicas = NonZeroU32::new(replicas)
            .ok_or_else(|| LockError::config("`confirm` requires at least one replica"))?;
        // The limit of 49 days is that of milliseconds in 32 bits.
        let millis = u32::try_from(within.as_millis()).ok();
        match millis.and_then(NonZeroU32::new) {
            Some(within) => Ok(Self { replicas, within }),
            None => Err(LockError::config(format!(
                "the time limit of `confirm` must be between 1 ms and 49 days, not {within:?}"
            ))),
        }
    }

    pub(crate) fn replicas(self) -> u32 {
        self.replicas.get()
    }

    pub(crate) fn within(self) -> Duration {
        Duration::from_millis(self.within.get().into())
    }
}

/// Whether replicas have the changes that the server has executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Confirmation {
    Confirmed,
    /// Too few of them had the changes in time.
    Late,
    /// The connection has failed, or was replaced.
    Unknown,
}

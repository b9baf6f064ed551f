//! The seam between the lock and where it lives: six operations and the news of an outage.
//!
//! Every operation is atomic in the store. A request may be executed although no answer comes, may
//! be executed late, and may be executed twice; each operation is written so that none of this
//! changes a depth twice or takes a lock for nobody (P8).

use std::{fmt, pin::Pin, time::Duration};

use tokio::sync::watch;

use crate::{
    error::StoreError,
    id::{FencingToken, HoldId},
    key::LockKey,
};

#[cfg(test)]
mod contract;
#[cfg(test)]
mod differential;
pub(crate) mod memory;
pub(crate) mod redis;

/// How long an ended hold is remembered, and so how late a request may still arrive.
pub(crate) const TOMBSTONE_LIFE: Duration = Duration::from_secs(600);

/// The least time that a lock's token and depth sequence are kept after their last use.
const META_LIFE: Duration = Duration::from_secs(600);

/// How long the meta of a lock with this TTL is kept: past any lease of it.
pub(crate) fn meta_life(ttl: Duration) -> Duration {
    META_LIFE.max(2 * ttl)
}

pub(crate) type Answer<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

/// Where locks live.
pub(crate) trait Store: fmt::Debug + Send + Sync {
    /// Takes the lock for a hold if it is free. Repeating it for a hold that already has the lock
    /// answers with the same token and a lease of at least the TTL.
    fn acquire(&self, key: &LockKey, claim: Claim) -> Answer<Acquired>;

    /// Moves the depth of a hold to a target, unless a change with a later number has been made.
    fn depth(&self, key: &LockKey, change: DepthChange) -> Answer<Presence>;

    /// Makes the lease last at least `ttl` from the execution of the request. A connection that is
    /// silent for longer than `patience` is given up.
    fn renew(
        &self,
        key: &LockKey,
        hold: HoldId,
        ttl: Duration,
        patience: Duration,
    ) -> Answer<Presence>;

    /// Ends a hold, whether it stands in the lock or an unanswered acquire may still put it there.
    fn release(&self, key: &LockKey, ending: Ending) -> Answer<Presence>;

    /// What stands in the lock now; `None` if it is free.
    fn inspect(&self, key: &LockKey) -> Answer<Option<Snapshot>>;

    /// Deletes the lock if it is still held by `seen`.
    fn force_release(&self, key: &LockKey, seen: Seen) -> Answer<bool>;

    /// Changes whenever the connection was lost, so that whatever rests on it is verified.
    fn outages(&self) -> watch::Receiver<u64>;
}

/// One hold's wish for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) hold: HoldId,
    pub(crate) ttl: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    /// The hold has the lock, with this lease counted from the execution of the request.
    Held {
        token: FencingToken,
        lease: Duration,
    },
    /// Somebody else has it, for so long; `None` if it never expires.
    Busy { remaining: Option<Duration> },
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
    /// The TTL of the hold, which bounds from below how long its sequence number is kept.
    pub(crate) ttl: Duration,
    /// Whether the lease is to last at least `ttl` from now.
    pub(crate) lengthen: bool,
}

/// The end of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) hold: HoldId,
    /// Whether an acquire of the hold is unanswered, so that it has to be refused if it arrives
    /// after this.
    pub(crate) tombstone: bool,
}

/// Whether the hold stood in the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Present,
    Gone,
}

/// What stands in a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// Field and depth of each holder.
    pub(crate) holders: Vec<(String, u64)>,
    /// `None` if the lock never expires.
    pub(crate) remaining: Option<Duration>,
    /// `None` if the lock is held by a program that gives no tokens.
    pub(crate) token: Option<FencingToken>,
}

/// A holder that an inspection has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) field: String,
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

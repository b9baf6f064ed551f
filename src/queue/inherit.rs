//! Handing a lock over in memory: the next call graph goes on with the hold, its lease and its
//! watchdog, and takes the next one of the tokens that came with it.

use std::{sync::Arc, time::Duration};

use tokio::{runtime, task::AbortHandle, time::Instant};

use super::{Entering, Grant, Queue};
use crate::{depth::Depth, options::HandOff, report, store::Tokens};

/// What goes from one member of a hold to the next.
#[derive(Clone, Debug)]
pub(crate) struct Inheritance {
    /// With the lease, which it guards together with the watchdog.
    pub(crate) depth: Arc<Depth>,
    pub(crate) watchdog: AbortHandle,
    /// Where the watchdog lives: it dies with that runtime, and stands still with it.
    pub(crate) runtime: runtime::Id,
    /// Whether some acquire of the hold was never answered.
    pub(crate) unanswered: bool,
    /// Which member has it.
    pub(crate) member: u32,
}

impl Inheritance {
    /// Ends what guards the lock, so that it may be released. Answers until when the lease lasts for
    /// certain, and its TTL.
    pub(crate) fn end(&self) -> (Instant, Duration) {
        self.watchdog.abort();
        let lease = self.depth.lease();
        lease.end();
        (lease.deadline(), lease.ttl())
    }
}

impl Queue {
    /// Hands a lock on after the last exit of a member, with the tokens that are left. False if the
    /// lock has to be released.
    ///
    /// The next one must want what is there: the same TTL, and no end of its own. And nothing in the
    /// store may be meant for it, since it enters under the id of another hold.
    pub(crate) fn hand_on(self: &Arc<Self>, left: &Inheritance, tokens: Tokens) -> bool {
        let (depth, lease) = (&left.depth, left.depth.lease());
        if self.queueing.handoff == HandOff::InStore
            || tokens.count == 0
            || left.watchdog.is_finished()
            || !lease.is_open()
        {
            return false;
        }
        let next = self.with_line(lease.key(), |line| {
            let handoffs = line.handoffs() + 1;
            let waiter = Arc::clone(line.first()?);
            let claim = waiter.claim();
            let fits = claim.tokens > 1
                && claim.ttl == lease.ttl()
                && waiter.runtime().id() == left.runtime;
            if !fits || handoffs > self.queueing.local_handoffs || !waiter.inherits() {
                return None;
            }
            line.remove(&waiter)?;
            line.hold(lease.hold(), Entering::HandedOver(handoffs), None);
            Some(waiter)
        });
        let Some(waiter) = next.flatten() else {
            return false;
        };
        report::handed_on(lease.key(), lease.hold());
        lease.set_unclaimed(true);
        let inherited = Inheritance {
            member: depth.succeed(),
            ..left.clone()
        };
        let grant = Grant {
            queue: Arc::clone(self),
            key: lease.key().clone(),
            hold: lease.hold(),
            tokens,
            sent: Instant::now(),
            lease: lease.ttl(),
            ttl: lease.ttl(),
            unanswered: left.unanswered,
            runtime: waiter.runtime().clone(),
            inherited: Some(inherited),
            entered: false,
        };
        waiter.bring(self, grant);
        true
    }
}

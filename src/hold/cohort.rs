//! A hold that several call graphs share, one after the other: its lease, its depth and its renewals.

use std::{sync::Arc, time::Duration};

use tokio::{runtime, task::AbortHandle};

use crate::{
    base::{id::HoldId, key::LockKey},
    hold::depth::Depth,
    queue::{Release, Turn},
};

/// What goes from one turn of a hold to the next. Most holds have one turn alone.
#[derive(Clone, Debug)]
pub(crate) struct Cohort {
    /// With the lease, which it guards together with the renewals.
    pub(crate) depth: Arc<Depth>,
    pub(crate) renewal: AbortHandle,
    /// Where the renewals live.
    pub(crate) runtime: runtime::Id,
    /// Whether some acquire of the hold was never answered.
    pub(crate) unanswered: bool,
    /// Which turn it is.
    pub(crate) turn: u32,
}

impl Cohort {
    /// Ends what guards the lock, so that it may be released.
    pub(crate) fn end(&self) -> Release {
        self.renewal.abort();
        let lease = self.depth.lease();
        lease.end();
        Release {
            hold: lease.hold(),
            tombstone: self.unanswered,
            deadline: lease.deadline(),
            ttl: lease.ttl(),
        }
    }
}

impl Turn for Cohort {
    fn key(&self) -> &LockKey {
        self.depth.lease().key()
    }

    fn hold(&self) -> HoldId {
        self.depth.lease().hold()
    }

    fn ttl(&self) -> Duration {
        self.depth.lease().ttl()
    }

    fn runtime(&self) -> runtime::Id {
        self.runtime
    }

    fn is_open(&self) -> bool {
        self.depth.lease().is_open()
    }

    fn is_renewed(&self) -> bool {
        !self.renewal.is_finished()
    }

    fn claim(&self) {
        self.depth.lease().set_unclaimed(false);
    }

    fn next(&self) -> Arc<dyn Turn> {
        self.depth.lease().set_unclaimed(true);
        Arc::new(Self {
            turn: self.depth.succeed(),
            ..self.clone()
        })
    }

    fn give_up(&self) -> Release {
        // No depth of it is wanted any more: no change is sent.
        self.depth.rise();
        self.end()
    }
}

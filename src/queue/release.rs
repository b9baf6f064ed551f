//! The end of a hold: sent until it is answered, and then the first in line is told.

use std::time::Duration;

use tokio::time::Instant;

use super::Queue;
use crate::{
    error::{Effect, Failure, LostReason},
    id::HoldId,
    key::LockKey,
    releaser::pauses,
    report,
    store::{Ending, Presence, TOMBSTONE_LIFE},
};

/// A hold that is to end.
#[derive(Debug)]
pub(crate) struct Release {
    pub(crate) key: LockKey,
    pub(crate) hold: HoldId,
    /// Whether an acquire of the hold was never answered.
    pub(crate) tombstone: bool,
    /// Until when the lease lasts for certain.
    pub(crate) deadline: Instant,
    /// How long the lock may stand in the store after the last request about it.
    pub(crate) ttl: Duration,
}

impl Queue {
    /// Releases. Fails if the lock turns out to have been lost before, or if it could not be released
    /// at all and stands until its lease ends.
    pub(crate) async fn release(&self, release: Release) -> Result<(), Failure> {
        let ended = self.end(&release).await;
        self.kick(&release.key);
        ended
    }

    /// `Gone` proves a loss only on the first attempt, since a repetition may meet its own success,
    /// and only before the deadline, since after it the lease may just have run out.
    async fn end(&self, release: &Release) -> Result<(), Failure> {
        let &Release {
            ref key,
            hold,
            tombstone,
            deadline,
            ttl,
        } = release;
        let give_up = Instant::now()
            + if tombstone {
                ttl.max(TOMBSTONE_LIFE)
            } else {
                ttl
            };
        let mut pauses = pauses();
        let mut first = true;
        loop {
            let error = match self.store.release(key, Ending { hold, tombstone }).await {
                Ok(Presence::Present) => {
                    report::released(key, hold);
                    return Ok(());
                }
                Ok(Presence::Gone) if first && Instant::now() < deadline => {
                    return Err(Failure::Lost(LostReason::Gone));
                }
                Ok(Presence::Gone) => return Ok(()),
                Err(error) => error,
            };
            first = false;
            let pause = pauses.next().unwrap_or_default();
            if error.effect() == Effect::Refused || Instant::now() + pause >= give_up {
                report::release_abandoned(key, hold, &error);
                return Err(Failure::Store(error));
            }
            report::release_retried(key, hold, &error);
            tokio::time::sleep(pause).await;
        }
    }
}

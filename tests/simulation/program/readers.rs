//! Readers: several of one task together, nested ones, and writers that continue as readers.

use super::{Inside, Program, millis, one_in};
use crate::support::sweep::poll_at_most;
use crate::{LockError, LockGuard, LockRequest, held};

impl Program {
    /// A nested request. Under a shared lock it must share the lock.
    pub(super) fn again(&self, key: &str) -> LockRequest {
        let request = self.locks.lock(key);
        let shares = held(key).is_some_and(|held| held.is_shared());
        if shares || one_in(3) {
            request.read()
        } else {
            request
        }
    }

    /// Several readers that join together, and so enter with one request. Some of them leave early.
    pub(super) async fn read_together(&self, key: &str) {
        let read = || async {
            let request = self.request(key).read();
            let section = self.section(key, request);
            let ended = if one_in(4) && !self.climate.is_prompt() {
                poll_at_most(fastrand::usize(1..20), section, || ()).await
            } else {
                Some(section.await)
            };
            if let Some(ended) = ended {
                self.ended(key, ended);
            }
        };
        tokio::join!(read(), read(), read(), async {
            if one_in(3) {
                self.ended(key, self.section(key, self.request(key)).await);
            }
        });
    }

    /// Writes, and continues as a reader.
    pub(super) async fn downgrade(&self, key: &str) {
        let wish = self.wish();
        let request = self.request(key);
        if one_in(3) {
            return self.downgrade_guard(key).await;
        }
        let body = async {
            let inside = self.enter(key, wish);
            self.stay(&inside).await;
            self.share(key, &inside).await?;
            self.stay(&inside).await;
            Ok(())
        };
        let ended = request.run(body).await;
        self.ended(key, ended.and_then(|inner| inner));
    }

    async fn downgrade_guard(&self, key: &str) {
        let wish = self.wish();
        let guard: LockGuard = match self.request(key).await {
            Ok(guard) => guard,
            Err(error) => return self.ended(key, Err(error)),
        };
        let inside = self.ledger.enter(self.process, guard.held(), wish);
        let ended = guard.scope(self.share(key, &inside)).await;
        drop(inside);
        self.ended(key, ended.and_then(|inner| inner));
        if one_in(2) {
            // It was found lost before, or just now.
            if let Err(LockError::Lost { reason, .. }) = guard.release().await {
                self.ledger.lost(self.process, key, reason);
            }
        }
    }

    async fn share(&self, key: &str, inside: &Inside) -> Result<(), LockError> {
        let held = held(key).expect("the body runs under its lock");
        if one_in(4) {
            // It continues although it is no longer polled, so the release may come in between.
            let downgrade = held.downgrade();
            match poll_at_most(fastrand::usize(1..4), downgrade, || ()).await {
                Some(downgraded) => downgraded?,
                None if one_in(2) => return Ok(()),
                None => {}
            }
        } else {
            held.downgrade().await?;
        }
        self.stay(inside).await;
        if !held.is_shared() {
            self.ledger
                .violation(format_args!("{key}: a downgrade has changed nothing"));
        }
        let write = self.locks.with_lock(key, async {}).await;
        if matches!(write, Ok(()) | Err(LockError::Busy { .. })) && !held.is_lost() {
            self.ledger
                .violation(format_args!("{key}: a write under a read: {write:?}"));
        }
        let read = self.locks.lock(key).read().run(self.stay(inside));
        read.await?;
        if one_in(4) {
            self.compare_depth(key).await;
        }
        if one_in(8) {
            // Longer than a lease.
            tokio::time::sleep(millis(0..=6_000)).await;
            inside.step();
        }
        Ok(())
    }
}

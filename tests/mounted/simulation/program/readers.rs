//! Readers: several of one task together, and nested ones.

use super::{Inside, Program, millis, one_in};
use crate::support::sweep::poll_at_most;
use crate::{LockError, LockRequest, held};

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

    /// A reader and what is nested in it, of which nothing may write.
    pub(super) async fn read(&self, key: &str) {
        let wish = self.wish();
        let body = async {
            let inside = self.enter(key, wish);
            self.stay(&inside).await;
            self.read_again(key, &inside).await
        };
        let ended = self.request(key).read().run(body).await;
        self.ended(key, ended.and_then(|inner| inner));
    }

    async fn read_again(&self, key: &str, inside: &Inside) -> Result<(), LockError> {
        let held = held(key).expect("the body runs under its lock");
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

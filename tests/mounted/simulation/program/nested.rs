//! Nested entries: deeper and deeper, or in parallel branches.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::{Inside, Program};
use crate::base::key::LockKey;
use crate::hold::held::Ids as _;
use crate::simulation::climate::{millis, one_in};
use crate::store::Inspect;
use crate::{LockError, held};

/// The maximum time until the work in the background has ended.
const QUIET: Duration = Duration::from_secs(4);

impl Program {
    /// Enters up to three more times, and compares the depth in the store.
    pub(super) async fn nest(&self, key: &str) {
        let wish = self.wish();
        let ended = self
            .request(key)
            .run(async {
                let inside = self.enter(key, wish);
                self.deeper(key, &inside, fastrand::u32(1..4)).await
            })
            .await;
        self.ended(key, ended.and_then(|inner| inner));
    }

    async fn deeper(&self, key: &str, inside: &Inside, times: u32) -> Result<(), LockError> {
        self.stay(inside).await;
        if times == 0 {
            if one_in(3) {
                self.compare_depth(key).await;
            }
            return Ok(());
        }
        let request = self.again(key);
        let request = if one_in(4) {
            request.ttl(self.ttl * 2)
        } else {
            request
        };
        let begun = Instant::now();
        let inner = Box::pin(async {
            self.entered(key, begun);
            self.deeper(key, inside, times - 1).await
        });
        request.run(inner).await??;
        inside.step();
        if one_in(4) {
            self.compare_depth(key).await;
        }
        Ok(())
    }

    /// Called from inside a nested body. Its entry has not waited, however long the store does not respond (P3).
    fn entered(&self, key: &str, begun: Instant) {
        let waited = begun.elapsed();
        if !waited.is_zero() && !self.climate.pauses {
            let text = format_args!("{key}: a nested entry has waited for {waited:?}");
            self.ledger.violation(text);
        }
    }

    /// When nothing is in progress, the field in the store equals the number of entries (P3).
    pub(super) async fn compare_depth(&self, key: &str) {
        let held = held(key).expect("the body runs under its lock");
        if !self.server.calm_for(QUIET + QUIET) {
            return;
        }
        sleep(QUIET).await;
        // There is always something in progress while siblings enter and leave.
        let depth = held.depth();
        sleep(millis(50..=50)).await;
        if held.depth() != depth {
            return;
        }
        let key = LockKey::new("", key).expect("a key");
        let seen = self.server.ask(Inspect::of(&key)).await;
        let field = held.hold_id().to_string().into_bytes();
        let stored = seen
            .iter()
            .flat_map(|seen| &seen.holders)
            .find(|holder| holder.field == field)
            .map(|holder| holder.depth);
        let expected = Some(u64::from(held.depth()));
        if !held.is_lost() && self.climate.keeps_leases() && stored != expected {
            self.ledger.violation(format_args!(
                "{}: depth {stored:?}, not {expected:?}",
                held.key()
            ));
        }
    }

    /// Two branches under one lock; one of them is dropped half-way.
    pub(super) async fn branch(&self, key: &str) {
        let wish = self.wish();
        let body = async {
            let inside = self.enter(key, wish);
            let branch = || self.again(key).run(self.stay(&inside));
            let (kept, dropped) = tokio::join!(branch(), timeout(millis(0..=500), branch()));
            kept.and(dropped.unwrap_or(Ok(())))?;
            self.stay(&inside).await;
            Ok(())
        };
        let ended = self.request(key).run(body).await;
        self.ended(key, ended.and_then(|inner| inner));
    }
}

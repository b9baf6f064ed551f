//! Work that leaves the task under a lock, and outlives the body that took it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{Inside, Program};
use crate::simulation::climate::{millis, one_in};
use crate::{FutureExt, LockError};

impl Program {
    /// A body that leaves work behind. Its section continues until all of that has ended.
    pub(super) async fn leave_work(&self, key: &str) {
        let wish = self.wish();
        // If a process is killed, they end too.
        let mut children = JoinSet::new();
        let mut valid_at_end = HashMap::new();
        let body = async {
            let inside = Arc::new(self.enter(key, wish));
            for _ in 0..fastrand::u32(1..=3) {
                let child = self.clone().work(key.to_owned(), Arc::clone(&inside));
                let was_valid = Arc::<AtomicBool>::default();
                let note = Arc::clone(&was_valid);
                let child = async move {
                    let (ended, inside) = child.await;
                    note.store(inside.is_valid(), Relaxed);
                    ended
                };
                let child = children.spawn(child.in_current_call());
                valid_at_end.insert(child.id(), was_valid);
            }
            if one_in(2) {
                self.stay(&inside).await;
            }
        };
        let ended = self.request(key).run(body).await;
        self.ended(key, ended);
        if one_in(4) && !self.climate.is_prompt() {
            sleep(millis(0..=500)).await;
            children.abort_all();
        }
        while let Some(child) = children.join_next_with_id().await {
            let Ok((id, ended)) = child else {
                continue;
            };
            // Only a loss masks its output, and not a loss after its end (P13).
            if ended.is_err() && valid_at_end[&id].load(Relaxed) && self.climate.keeps_holds() {
                self.ledger
                    .violation(format_args!("{key}: an output is masked: {ended:?}"));
            }
            self.ended(key, ended.and_then(|inner| inner));
        }
    }

    async fn work(self, key: String, inside: Arc<Inside>) -> (Result<(), LockError>, Arc<Inside>) {
        self.stay(&inside).await;
        let nested = async {
            self.stay(&inside).await;
            if one_in(4) {
                self.compare_depth(&key).await;
            }
        };
        let ended = if one_in(2) {
            self.again(&key).run(nested).await
        } else {
            nested.await;
            Ok(())
        };
        if ended.is_ok() {
            inside.step();
        }
        (ended, inside)
    }
}

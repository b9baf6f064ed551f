//! The sweeps through all locks, the reads of the locks on the screen between them, and those of the lock that is shown
//! with its queue.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::Sender;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::state::Update;
use crate::commands::show::Shown;
use crate::inspector::Inspector;

/// The pause after an error.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);

/// The number of waiting processes that are shown of one lock.
const WAITING: usize = 500;

/// Sweeps until the receiver is gone. `on_screen` returns the keys on the screen.
pub(crate) async fn sweep(
    mut inspector: Inspector,
    patterns: Vec<String>,
    interval: Duration,
    on_screen: watch::Receiver<Arc<[String]>>,
    updates: Sender<Update>,
) {
    let mut read_at = Instant::now();
    loop {
        let mut list = inspector.list(&patterns);
        let error = loop {
            let begun = Instant::now();
            let update = match list.next_page().await {
                Ok(Some(page)) => Update::Page(page, list.progress()),
                Ok(None) => {
                    list = inspector.list(&patterns);
                    Update::End
                }
                Err(error) => break error,
            };
            let pause = match &update {
                // The server gets as much time for other clients as this page took.
                Update::Page(..) => begun.elapsed(),
                _ => interval,
            };
            if updates.send(update).await.is_err() {
                return;
            }
            sleep(pause).await;
            if read_at.elapsed() >= interval {
                let keys = Arc::clone(&on_screen.borrow());
                for key in keys.iter() {
                    let update = match inspector.one(key).await {
                        Ok(lock) => Update::Again(key.clone(), lock),
                        Err(error) => failed(&error),
                    };
                    if updates.send(update).await.is_err() {
                        return;
                    }
                }
                read_at = Instant::now();
            }
        };
        if updates.send(failed(&error)).await.is_err() {
            return;
        }
        sleep(PAUSE_AFTER_ERROR).await;
        // After a failover, other servers have the locks.
        if let Ok(again) = inspector.again().await {
            inspector = again;
        }
    }
}

/// Reads one lock with its queue until the receiver is gone.
pub(crate) async fn show(
    mut inspector: Inspector,
    key: String,
    interval: Duration,
    updates: Sender<Update>,
) {
    loop {
        let (update, pause) = match Shown::of(&inspector, &key, WAITING).await {
            Ok(shown) => (Update::Shown(shown.to_string()), interval),
            Err(error) => (failed(&error), PAUSE_AFTER_ERROR),
        };
        let is_failed = matches!(update, Update::Failed(_));
        if updates.send(update).await.is_err() {
            return;
        }
        sleep(pause).await;
        if is_failed && let Ok(again) = inspector.again().await {
            inspector = again;
        }
    }
}

fn failed(error: &anyhow::Error) -> Update {
    Update::Failed(format!("{error:#}"))
}

//! The sweeps through all locks, the reads of the locks on the screen between them, and those of the lock that is shown
//! with its queue.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::Sender;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::state::News;
use crate::commands::show::Shown;
use crate::look::Look;

/// The pause after an error.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);

/// The number of waiting processes that are shown of one lock.
const WAITING: usize = 500;

/// Sweeps until the receiver is gone. `on_screen` returns the keys on the screen.
pub(crate) async fn sweep(
    mut look: Look,
    patterns: Vec<String>,
    interval: Duration,
    on_screen: watch::Receiver<Arc<[String]>>,
    heard: Sender<News>,
) {
    let mut looked = Instant::now();
    loop {
        let mut list = look.list(&patterns);
        let error = loop {
            let begun = Instant::now();
            let news = match list.next_page().await {
                Ok(Some(page)) => News::Page(page, list.progress()),
                Ok(None) => {
                    list = look.list(&patterns);
                    News::End
                }
                Err(error) => break error,
            };
            let pause = match &news {
                // The server gets as much time for other clients as this page took.
                News::Page(..) => begun.elapsed(),
                _ => interval,
            };
            if heard.send(news).await.is_err() {
                return;
            }
            sleep(pause).await;
            if looked.elapsed() >= interval {
                let keys = Arc::clone(&on_screen.borrow());
                for key in keys.iter() {
                    let news = match look.one(key).await {
                        Ok(lock) => News::Again(key.clone(), lock),
                        Err(error) => failed(&error),
                    };
                    if heard.send(news).await.is_err() {
                        return;
                    }
                }
                looked = Instant::now();
            }
        };
        if heard.send(failed(&error)).await.is_err() {
            return;
        }
        sleep(PAUSE_AFTER_ERROR).await;
        // After a failover, other servers have the locks.
        if let Ok(again) = look.again().await {
            look = again;
        }
    }
}

/// Reads one lock with its queue until the receiver is gone.
pub(crate) async fn show(mut look: Look, key: String, interval: Duration, heard: Sender<News>) {
    loop {
        let (news, pause) = match Shown::of(&look, &key, WAITING).await {
            Ok(shown) => (News::Shown(shown.to_string()), interval),
            Err(error) => (failed(&error), PAUSE_AFTER_ERROR),
        };
        let is_failed = matches!(news, News::Failed(_));
        if heard.send(news).await.is_err() {
            return;
        }
        sleep(pause).await;
        if is_failed && let Ok(again) = look.again().await {
            look = again;
        }
    }
}

fn failed(error: &anyhow::Error) -> News {
    News::Failed(format!("{error:#}"))
}

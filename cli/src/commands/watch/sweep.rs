//! The sweeps through all locks, and the reads of the locks on the screen between them.

use std::sync::Arc;
use std::time::Duration;

use reentry::{__admin, LockError, Locks};
use tokio::sync::mpsc::Sender;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::state::News;
use crate::view::LockView;

/// The pause after an error.
const PAUSE: Duration = Duration::from_secs(1);

/// Sweeps until the receiver is gone. `on_screen` returns the keys on the screen.
pub(crate) async fn sweep(
    locks: Locks,
    pattern: String,
    interval: Duration,
    on_screen: watch::Receiver<Arc<[String]>>,
    heard: Sender<News>,
) {
    let mut looked = Instant::now();
    let mut list = locks.list(&pattern);
    loop {
        let begun = Instant::now();
        let news = match list.next_page().await {
            Ok(Some(page)) => {
                let page = page.into_iter().map(LockView::from).collect();
                News::Page(page, list.progress())
            }
            Ok(None) => {
                list = locks.list(&pattern);
                News::End
            }
            Err(error) => failed(error),
        };
        let pause = match &news {
            // The server gets as much time for other clients as this page took.
            News::Page(..) => begun.elapsed(),
            News::End | News::Again(..) => interval,
            News::Failed(_) => PAUSE,
        };
        if heard.send(news).await.is_err() {
            return;
        }
        sleep(pause).await;
        if looked.elapsed() >= interval {
            let keys = Arc::clone(&on_screen.borrow());
            for key in keys.iter() {
                let news = match __admin::glance(&locks, key).await {
                    Ok(lock) => News::Again(key.clone(), lock.map(LockView::from)),
                    Err(error) => failed(error),
                };
                if heard.send(news).await.is_err() {
                    return;
                }
            }
            looked = Instant::now();
        }
    }
}

fn failed(error: LockError) -> News {
    News::Failed(format!("{:#}", anyhow::Error::new(error)))
}

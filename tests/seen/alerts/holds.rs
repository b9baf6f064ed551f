//! The alerts about locks that are held, or are being released.

use std::time::Duration;

use futures_util::future::join_all;
use reentry::testing::Server;
use reentry::{LockError, Locks};
use tokio::time::sleep;

use super::{KEY, MINUTE, SECOND};
use crate::prometheus::{Fires, Scrapes};

const HOUR: Duration = Duration::from_secs(3_600);

const UNANSWERED: Fires<'_> = (
    "ReentryRenewalsUnanswered",
    "warning",
    "renewals of orders get no response in time",
);

const GROWS: Fires<'_> = (
    "ReentryBackgroundGrows",
    "warning",
    "1001 releases of orders are still pending",
);

const LOST: Fires<'_> = (
    "ReentryLockLost",
    "critical",
    "orders lost locks while it held them (deleted)",
);

#[tokio::test(start_paused = true)]
async fn a_lost_lock_is_an_alarm() -> Result<(), LockError> {
    let mut scrapes = Scrapes::of_this_test();
    let locks = Locks::in_memory();
    for minute in 0..12 {
        let guard = locks.lock(KEY).await?;
        if minute == 5 {
            locks.admin().force_release(KEY).await?;
        }
        drop(guard);
        sleep(MINUTE).await;
        scrapes.scrape();
    }
    scrapes.assert_fires_at(5, &[]);
    scrapes.assert_fires_at(7, &[LOST]);
    Ok(())
}

/// A lock that is renewed every five minutes, while the server is away for this long.
async fn renewed(away_for: Duration) -> Result<Scrapes, LockError> {
    let mut scrapes = Scrapes::of_this_test();
    let server = Server::new();
    let locks = server.locks();
    let guard = locks.lock(KEY).ttl(15 * MINUTE).await?;
    let absence = tokio::spawn(async move {
        sleep(290 * SECOND).await;
        server.pause();
        sleep(away_for).await;
        server.resume();
    });
    for _ in 0..12 {
        sleep(MINUTE).await;
        scrapes.scrape();
    }
    assert!(!guard.held().is_lost());
    absence.abort();
    Ok(scrapes)
}

#[tokio::test(start_paused = true)]
async fn renewals_without_an_answer_are_an_alarm() -> Result<(), LockError> {
    renewed(HOUR).await?.assert_fires(&[UNANSWERED]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn renewals_that_are_late_once_are_no_alarm() -> Result<(), LockError> {
    let scrapes = renewed(30 * SECOND).await?;
    (6..12).for_each(|scrape| scrapes.assert_fires_at(scrape, &[]));
    Ok(())
}

/// Guards are dropped while the server is away, or while it responds.
#[tokio::test(start_paused = true)]
async fn a_growing_number_of_releases_is_an_alarm() -> Result<(), LockError> {
    for is_away in [true, false] {
        let mut scrapes = Scrapes::of_this_test();
        let server = Server::new();
        let locks = server.builder().ttl(HOUR).build().await?;
        let acquiring = (0..1_001).map(|order| locks.lock(format!("order:{order}")).acquire());
        let guards = join_all(acquiring).await;
        if is_away {
            server.stop();
        }
        drop(guards);
        for _ in 0..9 {
            sleep(MINUTE).await;
            scrapes.scrape();
        }
        scrapes.assert_fires(if is_away { &[GROWS] } else { &[] });
    }
    Ok(())
}

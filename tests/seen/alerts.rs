//! Each alert fires in the situation that it is named after, and in no other one. The program of the test is in that
//! situation, and its metrics are what Prometheus scrapes.

use std::time::Duration;

use futures_util::future::join_all;
use reentry::LockError;
use reentry::testing::Server;
use tokio::time::sleep;

use crate::prometheus::{Scrapes, alerts};

mod acquisitions;
mod connections;
mod holds;

const KEY: &str = "order:42";
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn every_alert_has_a_situation() {
    let situations = concat!(
        include_str!("alerts/acquisitions.rs"),
        include_str!("alerts/connections.rs"),
        include_str!("alerts/holds.rs"),
    );
    for alert in alerts() {
        assert!(situations.contains(&format!("\"{alert}\"")), "{alert}");
    }
}

/// Two processes of a service that take turns. No caller waits in vain, and messages arrive.
#[tokio::test(start_paused = true)]
async fn a_service_without_faults_raises_no_alarm() -> Result<(), LockError> {
    let mut scrapes = Scrapes::of_this_test();
    let server = Server::new();
    let (one, other) = (server.locks(), server.locks());
    for _ in 0..25 {
        let turns = (0..5).map(|_| async {
            let body = || sleep(SECOND);
            tokio::try_join!(one.with_lock(KEY, body()), other.with_lock(KEY, body()))
        });
        for turn in join_all(turns).await {
            turn?;
        }
        drop(one.lock(KEY).try_acquire().await?);
        one.lock("report").run(sleep(MINUTE)).await?;
        scrapes.scrape();
    }
    scrapes.assert_fires(&[]);
    Ok(())
}

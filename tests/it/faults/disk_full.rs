//! A server that cannot write to its disk, and so rejects every write (MISCONF).

use std::future::pending;
use std::time::Duration;

use crate::support::told::{cause_of, lost};
use crate::support::{DEADLINE, RedisServer, patient, within};
use reentry::LostReason;

const TTL: Duration = Duration::from_millis(900);

/// Unlike a server out of memory, it rejects renewals as well.
#[tokio::test]
async fn a_full_disk_ends_holders_at_their_deadlines() {
    let server = RedisServer::start().await;
    let locks = patient(&server).ttl(TTL).build().await.unwrap();
    let held = locks.with_lock("key", async {
        server.fill_disk().await;
        pending::<()>().await;
    });
    let ended = within(DEADLINE, "the lease expires", held).await;
    assert_eq!(lost(ended).1, LostReason::Expired);

    let waiting = locks.lock("other").wait(Duration::from_millis(100));
    let error = waiting.acquire().await.unwrap_err();
    let said = cause_of(&error);
    assert!(error.is_unavailable() && said.contains("MISCONF"), "{said}");

    server
        .ask("CONFIG SET stop-writes-on-bgsave-error no")
        .await;
    locks.with_lock("key", async {}).await.unwrap();
}

//! All sentinels are asked, whichever are added and removed.

use super::ground::{
    PATIENCE, builder, built_at, outlives_a_failover, until_depth, until_free, until_inboxes,
    until_replicated, until_unvisited,
};
use crate::support::rig::KEY;
use crate::support::sentinel::NAME;
use crate::support::told::cause_of;
use crate::support::{DEADLINE, RedisServer, SentinelSet, eventually, sentinel, within};
use reentry::{LockError, LostReason};
use std::error::Error;
use std::time::{Duration, Instant};

/// Its servers do not know `HELLO`: they report by `ROLE` which of them is the primary.
#[tokio::test]
async fn one_sentinel_is_enough_to_be_told_of_the_others() {
    let set = SentinelSet::start_with(sentinel::Config {
        nodes: &["--rename-command", "HELLO", ""],
        ..sentinel::Config::default()
    });
    let set = set.await;
    let seed = format!("redis+sentinel://{}/{NAME}", set.sentinels[2].address());
    let locks = built_at(seed).build().await.unwrap();
    set.sentinels[2].stop();
    outlives_a_failover(&set, &locks).await;
}

#[tokio::test]
async fn a_sentinel_that_stands_still_delays_no_failover() {
    let set = SentinelSet::start().await;
    let locks = builder(&set).build().await.unwrap();
    let guard = locks.lock(KEY).await.unwrap();
    until_replicated(&set, 0).await;
    set.sentinels[0].pause();
    set.nodes[0].stop();
    let new = set.until_failed_over(0).await;
    let start = Instant::now();
    within(PATIENCE, "it enters", locks.with_lock("other", async {}))
        .await
        .unwrap();
    // This takes only the time to notice the silence, which is much less than the time until a connection is given up.
    assert!(start.elapsed() < DEADLINE, "{:?}", start.elapsed());
    assert!(!guard.held().is_lost());
    // A process that begins now is not delayed either.
    let late = builder(&set).build().await.unwrap();
    let taken = late.lock(KEY).try_acquire().await.unwrap();
    assert!(taken.is_none());
    guard.release().await.unwrap();
    until_free(&set.nodes[new]).await;
}

#[tokio::test]
async fn locks_work_without_sentinels_and_follow_them_afterwards() {
    let set = SentinelSet::start().await;
    let locks = builder(&set).build().await.unwrap();
    set.sentinels.iter().for_each(RedisServer::stop);
    let nested = locks.with_lock(KEY, until_depth(&set.nodes[0], 2));
    locks.with_lock(KEY, nested).await.unwrap().unwrap();

    for sentinel in &set.sentinels {
        sentinel.start_again().await;
    }
    set.until_settled().await;
    outlives_a_failover(&set, &locks).await;
}

#[tokio::test]
async fn a_first_connection_without_sentinels_is_an_error_that_names_them() {
    let set = SentinelSet::start().await;
    set.sentinels.iter().for_each(RedisServer::stop);
    let connecting = builder(&set).build();
    let error = within(DEADLINE, "an answer", connecting).await.unwrap_err();
    let LockError::Unavailable { source, .. } = &error else {
        panic!("{error:?}");
    };
    let said = source.to_string();
    assert!(
        said.contains(&set.addresses()) && said.contains(NAME),
        "{said}"
    );
    assert!(source.source().is_some());

    // An acquisition continues to try.
    let locks = builder(&set).build_lazy().unwrap();
    let waiting = locks.lock(KEY).wait(Duration::from_millis(200)).acquire();
    let error = within(DEADLINE, "the wait ends", waiting)
        .await
        .unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
}

#[tokio::test]
async fn a_name_that_the_sentinels_do_not_know_is_refused_at_once() {
    let set = SentinelSet::start().await;
    let unknown = built_at(format!("redis+sentinel://{}/payments", set.addresses()));
    let error = unknown.clone().build().await.unwrap_err();
    assert!(matches!(error, LockError::Misuse { .. }), "{error:?}");
    // It is not tried again until the wait is over.
    let locks = unknown.wait(Duration::MAX).build_lazy().unwrap();
    let acquiring = within(DEADLINE, "an answer", locks.lock(KEY).acquire());
    let error = acquiring.await.unwrap_err();
    assert!(matches!(error, LockError::Misuse { .. }), "{error:?}");
    let cause = cause_of(&error);
    assert!(cause.contains("no primary with this name"), "{cause}");
    assert!(format!("{error:?}").contains("payments"), "{error:?}");
}

/// None remains when the locks are gone or closed. Those to the sentinels do not remain even before.
#[tokio::test]
async fn no_connection_outlives_the_locks_or_their_end() {
    let set = SentinelSet::start().await;
    for is_closed in [true, false] {
        let locks = builder(&set).build().await.unwrap();
        // Both connections follow the primary.
        let guard = locks.lock(KEY).await.unwrap();
        let waiting = tokio::spawn(locks.with_lock(KEY, async {}));
        until_inboxes(&set.nodes[0], 1).await;
        guard.release().await.unwrap();
        waiting.await.unwrap().unwrap();
        until_unvisited(&set).await;
        let closed = is_closed.then(|| locks.clone());
        if let Some(closed) = &closed {
            assert!(closed.close(Duration::MAX).await.is_clean());
        }
        drop(locks);
        let none = async || set.nodes[0].command_connections().await == 0;
        eventually(PATIENCE, "no connection for commands is left", none).await;
        until_inboxes(&set.nodes[0], 0).await;
    }
}

/// The lock is lost with its data, and in no other case.
#[tokio::test]
async fn a_failover_that_a_sentinel_is_told_to_make_loses_nothing_that_was_replicated() {
    let set = SentinelSet::start().await;
    let locks = builder(&set).build().await.unwrap();
    let kept = locks.lock(KEY).await.unwrap();
    until_replicated(&set, 0).await;
    set.nodes[0].cut_replication().await;
    let lost = locks.lock("lost").await.unwrap();
    let failing_over = set.failover();
    let (new, reason) = tokio::join!(failing_over, lost.held().lost());
    assert_eq!(reason, LostReason::Deleted);
    assert!(!kept.held().is_lost());
    kept.release().await.unwrap();
    until_free(&set.nodes[new]).await;
}

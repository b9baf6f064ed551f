//! Futures that are kept and not polled: the waiters behind them still get in.

use std::time::Duration;

use crate::support::rig::KEY;
use crate::support::{DEADLINE, RedisServer, connect, eventually, waiters};
use futures_util::FutureExt;
use reentry::{HandOff, Locks};
use tokio::task::JoinSet;
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);

async fn in_memory(handoff: HandOff) -> Locks {
    let builder = Locks::builder().url("memory:").ttl(3 * SECOND);
    let locks = builder.handoff(handoff).build().await.unwrap();
    // A key of which no token is known has no groups.
    locks.with_lock(KEY, async {}).await.unwrap();
    sleep(SECOND).await;
    locks
}

#[tokio::test(start_paused = true)]
async fn a_lock_handed_to_a_waiter_left_alone_goes_on_when_its_lease_ends() {
    for handoff in [HandOff::InStore, HandOff::InProcess] {
        let locks = in_memory(handoff).await;
        let guard = locks.lock(KEY).await.unwrap();
        let mut left_alone = Box::pin(locks.with_lock(KEY, async {}));
        assert!((&mut left_alone).now_or_never().is_none());
        let behind = tokio::spawn(locks.lock(KEY).wait(600 * SECOND).run(async {}));
        let both_wait = async || waiters(&locks, KEY).await == Some(2);
        eventually(DEADLINE, "both wait", both_wait).await;
        guard.release().await.unwrap();
        behind.await.unwrap().unwrap();
        drop(left_alone);
    }
}

/// Short waits end before a heartbeat would ask for them.
#[tokio::test(start_paused = true)]
async fn a_lock_whose_lease_ended_untouched_is_free_for_short_waits_too() {
    let locks = in_memory(HandOff::InStore).await;
    let guard = locks.lock(KEY).await.unwrap();
    let mut left_alone = Box::pin(locks.with_lock(KEY, async {}));
    assert!((&mut left_alone).now_or_never().is_none());
    guard.release().await.unwrap();
    let is_free = async || locks.inspect(KEY).await.unwrap().is_none();
    eventually(DEADLINE, "a free lock", is_free).await;
    for _ in 0..5 {
        let short = locks.lock(KEY).wait(SECOND * 9 / 10);
        drop(short.acquire().await.unwrap());
    }
    drop(left_alone);
}

/// It has no place in the store's queue, and must not keep those behind it from one.
#[tokio::test]
async fn a_request_that_does_not_wait_leaves_the_line_when_it_was_refused_unseen() {
    let server = RedisServer::start().await;
    let (here, there) = (connect(&server).await, connect(&server).await);
    let guard = there.lock(KEY).await.unwrap();
    let mut left_alone = Box::pin(here.lock(KEY).no_wait().acquire());
    assert!((&mut left_alone).now_or_never().is_none());
    let behind = tokio::spawn(here.lock(KEY).wait_forever().run(async {}));
    let mut others = JoinSet::new();
    for _ in 0..2 {
        let other = connect(&server).await;
        others.spawn(async move {
            loop {
                other.with_lock(KEY, async {}).await.unwrap();
            }
        });
    }
    guard.release().await.unwrap();
    let entered = tokio::time::timeout(DEADLINE, behind).await;
    entered.expect("its turn").unwrap().unwrap();
    drop(left_alone);
}

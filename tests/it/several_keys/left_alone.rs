//! Several locks with callers that are no longer polled, and with runtimes that end.

use crate::support::runtime::runtime;
use crate::support::{
    DEADLINE, RedisServer, eventually, in_memory, patient_at, until_free, waiters, within,
};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use reentry::{LockError, LockRequest, Locks, held};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const KEYS: [&str; 3] = ["a", "b", "c"];

/// The order in which they are acquired is that of their slots.
const FIRST: &str = "b";
const SECOND: &str = "c";

in_memory!(locks_of_an_unpolled_body_are_released_and_acquired_again,);

async fn are_free(locks: &Locks) {
    for key in KEYS {
        until_free(locks, key).await;
    }
}

/// It has the first lock, and waits for the second one.
async fn locks_of_an_unpolled_body_are_released_and_acquired_again(locks: Locks) {
    let writers = || locks.lock_all(KEYS).ttl(60 * DEADLINE).wait(Duration::MAX);
    let inside = || async {
        KEYS.iter()
            .all(|key| held(key).is_some_and(|it| !it.is_lost()))
    };
    let guards = |request: LockRequest| async move {
        let guard = request.acquire().await?;
        Ok(guard.all().iter().all(|held| !held.is_lost()))
    };
    let all: [BoxFuture<'_, Result<bool, LockError>>; 4] = [
        writers().run(inside()).boxed(),
        writers().read().run(inside()).boxed(),
        guards(writers()).boxed(),
        guards(writers().read()).boxed(),
    ];
    for mut left_alone in all {
        let holder = locks.lock(SECOND).await.unwrap();
        let waits = async || {
            assert!((&mut left_alone).now_or_never().is_none());
            waiters(&locks, SECOND).await == Some(1)
        };
        eventually(DEADLINE, "it waits for the second lock", waits).await;
        let other = locks.with_lock(FIRST, async {});
        within(DEADLINE, "the other has the first lock", other)
            .await
            .unwrap();
        holder.release().await.unwrap();
        let inside = within(DEADLINE, "it has them in the end", left_alone).await;
        assert!(inside.unwrap());
        are_free(&locks).await;
    }
}

/// Both heartbeats pass, and not the whole TTL.
#[tokio::test(start_paused = true)]
async fn an_unpolled_lock_all_releases_its_locks_after_two_heartbeats() {
    let locks = Locks::in_memory();
    let holder = locks.lock(SECOND).await.unwrap();
    let mut left_alone = Box::pin(locks.lock_all(KEYS).wait(Duration::MAX).run(async {}));
    assert!((&mut left_alone).now_or_never().is_none());
    holder.release().await.unwrap();
    let begun = Instant::now();
    locks.with_lock(FIRST, async {}).await.unwrap();
    assert!(
        begun.elapsed() <= Duration::from_millis(2_100),
        "{:?}",
        begun.elapsed()
    );
    left_alone.await.unwrap();
}

/// It is polled, however long that takes.
#[tokio::test(start_paused = true)]
async fn a_polled_lock_all_keeps_the_locks_that_it_has() {
    let locks = Locks::in_memory();
    let holder = locks.lock(SECOND).await.unwrap();
    let waiting = tokio::spawn(locks.lock_all(KEYS).wait(Duration::MAX).run(async {}));
    sleep(Duration::from_secs(600)).await;
    let first = locks.admin().inspect(FIRST).await.unwrap().unwrap();
    assert!(locks.lock(FIRST).try_acquire().await.unwrap().is_none());
    holder.release().await.unwrap();
    waiting.await.unwrap().unwrap();
    assert_eq!(first.holders.len(), 1);
}

/// The request was sent, and its runtime ends before the response is read. The acquisition continues where it is next
/// polled, or is dropped.
#[test]
fn others_enter_when_the_runtime_of_a_lock_all_has_ended() {
    let ground = runtime();
    let server = ground.block_on(RedisServer::start());
    for url in [server.url(), "memory:".to_owned()] {
        for is_dropped in [false, true] {
            let first = runtime();
            let builder = patient_at(&*url).wait(DEADLINE);
            let locks = ground.block_on(builder.build()).unwrap();
            let mut begun = Box::pin(locks.lock_all(KEYS).run(async {}));
            let early = first.block_on(async { (&mut begun).now_or_never() });
            drop(first);
            ground.block_on(async {
                if is_dropped {
                    drop(begun);
                } else if early.is_none() {
                    let other = locks.with_lock("b", async {});
                    within(DEADLINE, "the other enters", other).await.unwrap();
                    within(DEADLINE, "they enter", begun).await.unwrap();
                }
                are_free(&locks).await;
            });
        }
    }
}

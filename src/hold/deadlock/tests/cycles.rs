//! Cycles that share a wait, long cycles, and cycles through locks with many readers: each ends soon.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use tokio::sync::Barrier;
use tokio::time::{Instant, timeout};

use super::MAX_CYCLE;
use super::store::Watched;
use crate::base::timer::sleep;
use crate::{LockError, LockGuard, Locks};

/// The heartbeat of the locks in use.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Acquires the outer lock, and the inner one inside it as soon as all of them hold their outer locks.
async fn nest(
    locks: &Locks,
    (outer, is_shared): (&str, bool),
    inner: &str,
    after: Duration,
    all: &Barrier,
) -> Result<(), LockError> {
    let mut outer = locks.lock(outer).wait(Duration::MAX);
    if is_shared {
        outer = outer.read();
    }
    let body = async {
        all.wait().await;
        sleep(after).await;
        locks.lock(inner).wait(Duration::MAX).run(async {}).await
    };
    outer.try_run(body).await
}

/// The number of victims.
fn victims(results: &[Result<(), LockError>]) -> u32 {
    let victims = results.iter().map(|result| match result {
        Err(error) => u32::from(error.is_deadlock()),
        Ok(()) => 0,
    });
    victims.sum()
}

/// A writer holds what the readers of another lock want, and wants their lock. They begin one after the other. Returns
/// the number of victims, and the time from the first wait on.
async fn writer_among(readers: u32, apart: Duration, writer_at: u32) -> (u32, Duration) {
    let locks = Watched::new().locks();
    let all = Barrier::new(readers as usize + 1);
    let begun = Instant::now();
    let nests = (0..=readers).map(async |at| {
        let (outer, inner) = if at == writer_at {
            (("held", false), "shared")
        } else {
            (("shared", true), "held")
        };
        nest(&locks, outer, inner, apart * at, &all).await
    });
    let victims = victims(&join_all(nests).await);
    (victims, begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn cycles_that_share_their_waits_all_end_soon() {
    for readers in [1, 2, 3, 8, 30] {
        for apart in [0, 10, 300] {
            let apart = Duration::from_millis(apart);
            for writer_at in [0, readers / 2, readers] {
                let (victims, took) = writer_among(readers, apart, writer_at).await;
                let case = format!("{readers} readers, {apart:?} apart, the writer at {writer_at}");
                assert!((1..=readers).contains(&victims), "{case}: {victims}");
                assert!(took < apart * readers + 2 * HEARTBEAT, "{case}: {took:?}");
            }
        }
    }
}

/// Each holds a key and waits for that of the next one.
async fn cycle(members: usize) -> (u32, Duration) {
    let locks = Watched::new().locks();
    let all = Barrier::new(members);
    let begun = Instant::now();
    let nests = (0..members).map(async |at| {
        let [outer, inner] = [at, (at + 1) % members].map(|at| format!("key:{at}"));
        nest(&locks, (&outer, false), &inner, Duration::ZERO, &all).await
    });
    let victims = victims(&join_all(nests).await);
    (victims, begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_long_cycle_ends_within_two_heartbeats() {
    for members in [8, 9, 20, MAX_CYCLE] {
        let (victims, took) = cycle(members).await;
        assert_eq!(victims, 1);
        assert!(took < 2 * HEARTBEAT, "{members}: {took:?}");
    }
}

/// Two callers read a lock with many others, and each wants to write what the other one reads.
#[tokio::test(start_paused = true)]
async fn a_cycle_through_locks_with_many_readers_ends() -> Result<(), LockError> {
    const READERS: usize = 500;
    let locks = Watched::new().locks();
    let keys = ["one", "other"].repeat(READERS);
    let others = try_join_all(keys.iter().map(|key| locks.lock(*key).read().acquire())).await?;
    let (both, begun) = (Barrier::new(2), Instant::now());
    let first = async {
        let zero = Duration::ZERO;
        tokio::select! {
            result = nest(&locks, ("one", true), "other", zero, &both) => result,
            result = nest(&locks, ("other", true), "one", zero, &both) => result,
        }
    };
    let first = timeout(100 * HEARTBEAT, first).await;
    assert_eq!(first.map(|result| victims(&[result])), Ok(1));
    // The time is eight pauses of a quarter of a heartbeat, and the time for a short cycle.
    assert!(begun.elapsed() < 4 * HEARTBEAT, "{:?}", begun.elapsed());
    try_join_all(others.into_iter().map(LockGuard::release)).await?;
    Ok(())
}

/// The number of walks does not matter: all of them wait for one that waits for many readers.
#[tokio::test(start_paused = true)]
async fn long_walks_make_at_most_1024_lookups_per_heartbeat() -> Result<(), LockError> {
    const SPAN: u32 = 11;
    for waits in [3, 40] {
        let store = Watched::new();
        let locks = store.locks();
        let wide = || locks.lock("wide");
        let readers = try_join_all((0..400).map(|_| wide().read().acquire())).await?;
        let wanted = locks.lock("wanted").await?;
        let behind = wanted.scope(wide().wait(Duration::MAX).run(async {}));
        let others = join_all((0..waits).map(async |at| {
            let inner = locks.lock("wanted").wait(Duration::MAX).run(async {});
            locks.lock(format!("own:{at}")).try_run(inner).await
        }));
        let looks = async {
            // The first lookups of each walk have been made.
            sleep(HEARTBEAT / 2).await;
            let before = store.asked().waits;
            sleep(HEARTBEAT * SPAN).await;
            store.asked().waits - before
        };
        tokio::select! {
            _ = behind => unreachable!("there are readers"),
            _ = others => unreachable!("it is held"),
            looks = looks => assert!((1..=1_024 * SPAN).contains(&looks), "{waits}: {looks}"),
        }
        drop(readers);
    }
    Ok(())
}

/// Holds the outer lock by a guard, and the inner one inside it. A victim drops the guard and begins again immediately.
/// Returns how often it was the victim.
async fn persists(
    locks: &Locks,
    outer: &str,
    inner: &str,
    both: &Barrier,
) -> Result<u32, LockError> {
    let mut victims = 0;
    loop {
        let guard = locks.lock(outer).wait(Duration::MAX).await?;
        if victims == 0 {
            both.wait().await;
        }
        let inner = locks.lock(inner).wait(Duration::MAX);
        match guard.scope(inner.run(async {})).await? {
            Ok(()) => break guard.release().await.map(|()| victims),
            Err(error) if error.is_deadlock() => victims += 1,
            Err(error) => break Err(error),
        }
    }
}

/// Its locks are released in the background, when it is in the line again.
#[tokio::test(start_paused = true)]
async fn a_victim_that_retries_immediately_is_not_chosen_again() -> Result<(), LockError> {
    for _ in 0..20 {
        let store = Watched::new();
        let locks = || {
            let store = Arc::clone(&store);
            Locks::builder("memory:").build_on_wire(store, HEARTBEAT)
        };
        let (one, other, both) = (locks(), locks(), Barrier::new(2));
        let begun = Instant::now();
        let one = persists(&one, "a", "b", &both);
        let (one, other) = tokio::join!(one, persists(&other, "b", "a", &both));
        assert_eq!(one? + other?, 1);
        assert!(begun.elapsed() < 2 * HEARTBEAT, "{:?}", begun.elapsed());
    }
    Ok(())
}

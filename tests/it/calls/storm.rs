//! P1, P3 and P7 together. Many tasks on many threads enter, re-enter, give up, time out and drop their futures after
//! any number of polls. After that nothing is left. The simulation does the same on one thread, and the chaos tests on
//! a server. This file is about threads without a network.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::dice::Dice;
use crate::support::sweep::poll_at_most;
use crate::support::{DEADLINE, Section, depths, until_free, waiters, within};
use futures_util::future::BoxFuture;
use reentry::{LockError, Locks, held};
use tokio::task::{JoinSet, yield_now};

const TASKS: u64 = 12;

const TURNS: u32 = 200;

/// Polls `future` at most this number of times, each time that it is woken.
async fn polled<F: Future>(future: F, dice: &mut Dice, most: u64) -> Option<F::Output> {
    let times = usize::try_from(1 + dice.roll(most)).unwrap();
    poll_at_most(times, future, || ()).await
}

/// A body that enters again, in two parallel branches, and is alone in the meantime.
async fn nested(locks: &Locks, section: &Section) {
    let enter = || locks.with_lock("key", async { assert!(held("key").unwrap().depth() > 1) });
    section.visit().await;
    let (one, other) = tokio::join!(enter(), enter());
    one.and(other).unwrap();
    section.visit().await;
}

fn is_contended<T>(result: Result<T, LockError>) {
    if let Err(error) = result {
        assert!(error.is_busy(), "{error:?}");
    }
}

async fn one_turn(locks: &Locks, section: &Section, dice: &mut Dice) {
    let request = || locks.lock("key");
    match dice.roll(8) {
        0 => locks.with_lock("key", section.visit()).await.unwrap(),
        1 => request().run(nested(locks, section)).await.unwrap(),
        2 | 3 => {
            let call = request().run(nested(locks, section));
            polled(call, dice, 12).await.transpose().unwrap();
        }
        4 => is_contended(request().no_wait().run(section.visit()).await),
        5 => {
            let wait = Duration::from_micros(dice.roll(3_000));
            is_contended(request().wait(wait).run(nested(locks, section)).await);
        }
        6 => {
            let guard = request().await.unwrap();
            guard.scope(nested(locks, section)).await.unwrap();
            drop(guard);
        }
        _ => {
            if let Some(guard) = request().try_acquire().await.unwrap() {
                polled(guard.scope(nested(locks, section)), dice, 6).await;
                // A future that was dropped inside leaves by itself, and no other caller enters before that.
                section.visit().await;
                guard.release().await.unwrap();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn random_calls_on_many_threads_leave_nothing_behind() {
    let locks = Locks::in_memory();
    let section = Arc::new(Section::default());
    let mut tasks = JoinSet::new();
    for seed in 0..TASKS {
        let (locks, section) = (locks.clone(), Arc::clone(&section));
        tasks.spawn(async move {
            let mut dice = Dice(seed);
            for _ in 0..TURNS {
                one_turn(&locks, &section, &mut dice).await;
                yield_now().await;
            }
        });
    }
    let all = async {
        tasks.join_all().await;
    };
    within(3 * DEADLINE, "the end of the storm", all).await;
    assert!(section.visits() > 0);
    until_free(&locks, "key").await;
    // A request that was dropped in flight may take and release the lock once more.
    let guard = locks.lock("key").await.unwrap();
    assert_eq!(waiters(&locks, "key").await, Some(0));
    assert_eq!(depths(&locks, "key").await, [1]);
    guard.release().await.unwrap();
}

/// Re-enters the lock of its parent, which may be leaving, and leaves a child of its own behind. All of them see the
/// token of the section to which they belong.
fn member(locks: Locks, section: Arc<AtomicU64>, seed: u64) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let mut dice = Dice(seed);
        let token = u64::from(held("key").unwrap().fencing_token());
        let alone = || assert_eq!(section.load(Ordering::SeqCst), token, "an overlap");
        for _ in 0..dice.roll(4) {
            alone();
            let nested = async {
                alone();
                yield_now().await;
                assert_eq!(u64::from(held("key").unwrap().fencing_token()), token);
            };
            locks.with_lock("key", nested).await.unwrap();
        }
        if seed > 0 && dice.roll(3) == 0 {
            let child = reentry::spawn(member(locks, Arc::clone(&section), seed / 3));
            if dice.roll(3) == 0 {
                child.abort();
            }
        }
        alone();
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn spawned_work_on_many_threads_does_not_overlap() {
    let locks = Locks::in_memory();
    let section = Arc::<AtomicU64>::default();
    let mut tasks = JoinSet::new();
    for seed in 0..TASKS * u64::from(TURNS) {
        let (locks, section) = (locks.clone(), Arc::clone(&section));
        tasks.spawn(async move {
            let nested = locks.clone();
            let body = async {
                let mut children = Vec::new();
                let token = u64::from(held("key").unwrap().fencing_token());
                section.store(token, Ordering::SeqCst);
                for child in 0..=seed % 3 {
                    let seed = seed * 3 + child;
                    let child = member(nested.clone(), Arc::clone(&section), seed);
                    children.push(reentry::spawn(child));
                }
                yield_now().await;
                children
            };
            for child in locks.with_lock("key", body).await.unwrap() {
                child.await.unwrap().unwrap();
            }
        });
    }
    within(3 * DEADLINE, "the end of the storm", tasks.join_all()).await;
    until_free(&locks, "key").await;
}

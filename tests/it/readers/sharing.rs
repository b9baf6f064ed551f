//! P1, P2: who shares a lock, who is kept out, and what a nested call gets.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering::SeqCst};

use crate::support::{DEADLINE, depths, eventually, on_both_stores, waiters, within};
use reentry::{LockError, Locks, Mode, Reentrancy, held};
use tokio::sync::{Barrier, oneshot};
use tokio::task::JoinSet;

on_both_stores!(
    readers_are_inside_together,
    a_writer_excludes_readers_and_readers_exclude_a_writer,
    readers_and_writers_never_meet,
    a_reader_behind_a_writer_waits,
    readers_behind_a_writer_enter_together,
    a_read_under_a_read_is_the_same_hold,
    a_read_under_a_write_stays_exclusive,
    a_write_under_a_read_is_refused_at_once,
    a_read_that_does_not_wait_enters_beside_others,
    a_read_that_does_not_wait_is_busy_behind_a_writer,
    guards_share_too,
    tokens_tell_whether_a_writer_came_between,
    each_reader_shows_its_own_hold,
    force_ends_all_readers,
    a_reader_that_is_dropped_leaves_the_others_inside,
    branches_below_one_reader_are_one_hold,
);

async fn readers_are_inside_together(locks: Locks) {
    let inside = Arc::new(Barrier::new(20));
    let mut tasks = JoinSet::new();
    for _ in 0..20 {
        let (locks, inside) = (locks.clone(), Arc::clone(&inside));
        tasks.spawn(async move {
            locks
                .with_read_lock("key", async {
                    inside.wait().await;
                })
                .await
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap().unwrap();
    }
    assert!(locks.inspect("key").await.unwrap().is_none());
}

async fn a_writer_excludes_readers_and_readers_exclude_a_writer(locks: Locks) {
    let reader = locks.lock("key").shared().await.unwrap();
    let write = locks.lock("key").no_wait().await;
    assert!(matches!(write, Err(LockError::Busy { .. })), "{write:?}");
    reader.release().await.unwrap();
    let writer = locks.lock("key").await.unwrap();
    let read = locks.lock("key").shared().no_wait().await;
    assert!(matches!(read, Err(LockError::Busy { .. })), "{read:?}");
    writer.release().await.unwrap();
}

/// Writers count down from 0 and readers up: neither ever sees the other.
async fn readers_and_writers_never_meet(locks: Locks) {
    let inside = Arc::new(AtomicI64::new(0));
    let together = Arc::new(AtomicI64::new(0));
    let mut tasks = JoinSet::new();
    for task in 0..12 {
        let (locks, inside) = (locks.clone(), Arc::clone(&inside));
        let together = Arc::clone(&together);
        tasks.spawn(async move {
            for section in 0..10 {
                let writes = (task + section) % 4 == 0;
                let step = if writes { -1 } else { 1 };
                let body = async {
                    let before = inside.fetch_add(step, SeqCst);
                    assert!(if writes { before == 0 } else { before >= 0 }, "{before}");
                    together.fetch_max(before + 1, SeqCst);
                    for _ in 0..3 {
                        tokio::task::yield_now().await;
                    }
                    inside.fetch_sub(step, SeqCst);
                };
                let request = locks.lock("key");
                let request = if writes { request } else { request.shared() };
                request.run(body).await.unwrap();
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert!(together.load(SeqCst) > 1);
    assert!(locks.inspect("key").await.unwrap().is_none());
}

/// A caller that waits in this process.
fn wait(
    locks: &Locks,
    tasks: &mut JoinSet<()>,
    shares: bool,
    body: impl Future<Output = ()> + Send + 'static,
) {
    let request = locks.lock("key");
    let request = if shares { request.shared() } else { request };
    tasks.spawn(async move { request.run(body).await.unwrap() });
}

async fn until_waiting(locks: &Locks, count: usize) {
    let waiting = async || waiters(locks, "key").await == Some(count);
    eventually(DEADLINE, &format!("{count} wait"), waiting).await;
}

async fn a_reader_behind_a_writer_waits(locks: Locks) {
    let first = locks.lock("key").shared().await.unwrap();
    let (mut tasks, order) = (JoinSet::new(), Arc::new(std::sync::Mutex::new(Vec::new())));
    let note = |name: &'static str| {
        let order = Arc::clone(&order);
        async move { order.lock().unwrap().push(name) }
    };
    wait(&locks, &mut tasks, false, note("writer"));
    until_waiting(&locks, 1).await;
    wait(&locks, &mut tasks, true, note("reader"));
    until_waiting(&locks, 2).await;
    first.release().await.unwrap();
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), ["writer", "reader"]);
}

async fn readers_behind_a_writer_enter_together(locks: Locks) {
    let writer = locks.lock("key").await.unwrap();
    let (mut tasks, inside) = (JoinSet::new(), Arc::new(Barrier::new(5)));
    for n in 0..5 {
        let inside = Arc::clone(&inside);
        wait(&locks, &mut tasks, true, async move {
            inside.wait().await;
        });
        until_waiting(&locks, n + 1).await;
    }
    writer.release().await.unwrap();
    let all = async { while tasks.join_next().await.transpose().unwrap().is_some() {} };
    within(DEADLINE, "all are inside", all).await;
}

async fn a_read_under_a_read_is_the_same_hold(locks: Locks) {
    let nested = async {
        let outer = held("key").unwrap();
        let inner = locks.with_read_lock("key", async { held("key").unwrap().hold_id() });
        assert_eq!(inner.await.unwrap(), outer.hold_id());
        locks
            .with_read_lock("key", async {
                assert_eq!(depths(&locks, "key").await, [2]);
            })
            .await
            .unwrap();
        assert_eq!(depths(&locks, "key").await, [1]);
    };
    locks.with_read_lock("key", nested).await.unwrap();
}

async fn a_read_under_a_write_stays_exclusive(locks: Locks) {
    let nested = async {
        let mode = locks.with_read_lock("key", async { held("key").unwrap().mode() });
        assert_eq!(mode.await.unwrap(), Mode::Exclusive);
        let outside = tokio::spawn(locks.lock("key").shared().try_acquire());
        assert!(outside.await.unwrap().unwrap().is_none());
    };
    locks.with_write_lock("key", nested).await.unwrap();
}

async fn a_write_under_a_read_is_refused_at_once(locks: Locks) {
    let nested = async {
        let write = locks.with_lock("key", async {}).await;
        assert!(
            matches!(&write, Err(LockError::Upgrade { key, .. }) if key == "key"),
            "{write:?}"
        );
        let forbidden = locks.lock("key").reentrancy(Reentrancy::Forbid).await;
        assert!(matches!(forbidden, Err(LockError::AlreadyHeld { .. })));
        locks.with_lock("other", async {}).await.unwrap();
        assert_eq!(depths(&locks, "key").await, [1]);
    };
    locks.with_read_lock("key", nested).await.unwrap();
}

async fn a_read_that_does_not_wait_enters_beside_others(locks: Locks) {
    let mut guards = Vec::new();
    for _ in 0..10 {
        guards.push(locks.lock("key").shared().no_wait().await.unwrap());
    }
    assert_eq!(depths(&locks, "key").await, [1; 10]);
    for guard in guards {
        guard.release().await.unwrap();
    }
}

async fn a_read_that_does_not_wait_is_busy_behind_a_writer(locks: Locks) {
    let reader = locks.lock("key").shared().await.unwrap();
    let mut tasks = JoinSet::new();
    wait(&locks, &mut tasks, false, async {});
    until_waiting(&locks, 1).await;
    let late = locks.lock("key").shared().no_wait().await;
    assert!(matches!(late, Err(LockError::Busy { .. })), "{late:?}");
    reader.release().await.unwrap();
    tasks.join_next().await.unwrap().unwrap();
}

async fn guards_share_too(locks: Locks) {
    let one = locks.lock("key").shared().await.unwrap();
    let other = locks.lock("key").shared().await.unwrap();
    assert_eq!(one.held().mode(), Mode::Shared);
    assert_ne!(one.held().owner(), other.held().owner());
    let nested = one.scope(locks.with_read_lock("key", async { held("key").unwrap().depth() }));
    assert_eq!(nested.await.unwrap().unwrap(), 2);
    drop(one);
    other.release().await.unwrap();
    let free = async || locks.inspect("key").await.unwrap().is_none();
    eventually(DEADLINE, "the lock is free", free).await;
}

async fn tokens_tell_whether_a_writer_came_between(locks: Locks) {
    let token = async |shares: bool| {
        let request = locks.lock("key");
        let request = if shares { request.shared() } else { request };
        let body = async { held("key").unwrap().fencing_token() };
        request.run(body).await.unwrap()
    };
    let reader = locks.lock("key").shared().await.unwrap();
    let first = reader.held().fencing_token();
    assert_eq!(token(true).await, first);
    reader.release().await.unwrap();
    let writer = token(false).await;
    assert!(writer > first);
    assert!(token(true).await > writer);
}

async fn each_reader_shows_its_own_hold(locks: Locks) {
    let one = locks.lock("key").shared().await.unwrap();
    let other = locks.lock("key").shared().await.unwrap();
    let info = locks.inspect("key").await.unwrap().unwrap();
    assert_eq!(info.mode, Mode::Shared);
    let mut shown: Vec<_> = info
        .holders
        .iter()
        .map(|holder| holder.hold_id.clone())
        .collect();
    let mut held: Vec<_> = [&one, &other]
        .map(|guard| guard.held().hold_id().to_string())
        .into();
    shown.sort();
    held.sort();
    assert_eq!(shown, held);
    assert!(info.holders.iter().all(|holder| holder.remaining.is_some()));
    assert_eq!(info.token, Some(one.held().fencing_token()));
    for guard in [one, other] {
        guard.release().await.unwrap();
    }
}

async fn force_ends_all_readers(locks: Locks) {
    let one = locks.lock("key").shared().await.unwrap();
    let other = locks.lock("key").shared().await.unwrap();
    assert!(locks.force_release("key").await.unwrap());
    let writer = locks.lock("key").no_wait().await.unwrap();
    for guard in [one, other] {
        let released = guard.release().await;
        assert!(released.is_err_and(|error| error.is_lost()));
    }
    assert_eq!(depths(&locks, "key").await, [1]);
    writer.release().await.unwrap();
}

async fn a_reader_that_is_dropped_leaves_the_others_inside(locks: Locks) {
    let stays = locks.lock("key").shared().await.unwrap();
    let (inside, has_entered) = oneshot::channel();
    let body = async move {
        let _ = inside.send(());
        std::future::pending::<()>().await;
    };
    let request = locks.lock("key").shared();
    let goes = tokio::spawn(async move { request.run(body).await });
    has_entered.await.unwrap();
    assert_eq!(depths(&locks, "key").await, [1, 1]);
    goes.abort();
    let alone = async || depths(&locks, "key").await == [1];
    eventually(DEADLINE, "one is left", alone).await;
    assert!(locks.lock("key").try_acquire().await.unwrap().is_none());
    stays.release().await.unwrap();
}

async fn branches_below_one_reader_are_one_hold(locks: Locks) {
    let most = AtomicU32::new(0);
    let branch = || async {
        let body = async {
            most.fetch_max(held("key").unwrap().depth(), SeqCst);
            tokio::task::yield_now().await;
        };
        locks.with_read_lock("key", body).await.unwrap();
    };
    let all = async { tokio::join!(branch(), branch(), branch()) };
    locks.with_read_lock("key", all).await.unwrap();
    assert!(most.load(SeqCst) > 2);
    assert!(locks.inspect("key").await.unwrap().is_none());
}

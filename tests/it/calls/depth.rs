//! P3: while the lock is held, the holder's field in the store follows the number of its entries, for which none of them
//! waits.

use std::pin::Pin;

use crate::support::{RedisServer, connect, in_memory, until_depths};
use futures_util::FutureExt;
use reentry::{LockError, Locks};

in_memory!(
    entries_of_many_tasks_below_one_guard_settle_at_one,
    nested_entries_and_exits_are_ready_at_their_first_poll,
);

/// Enters `levels` times, one inside the other, and runs `innermost` at the bottom.
fn descend<'a>(
    locks: &'a Locks,
    levels: u32,
    innermost: Pin<Box<dyn Future<Output = ()> + 'a>>,
) -> Pin<Box<dyn Future<Output = Result<(), LockError>> + 'a>> {
    Box::pin(async move {
        if levels == 0 {
            innermost.await;
            return Ok(());
        }
        let inner = descend(locks, levels - 1, innermost);
        locks.with_lock("key", inner).await?
    })
}

async fn nested_entries_and_exits_are_ready_at_their_first_poll(locks: Locks) {
    let body = async {
        let nested = descend(&locks, 5, Box::pin(async {}));
        nested.now_or_never().expect("none of them waits").unwrap();
    };
    locks.with_lock("key", body).await.unwrap();
}

/// Entries that were begun below the guard continue in separate tasks, or are dropped wherever they are. Whatever the
/// order, the sum is correct.
async fn entries_of_many_tasks_below_one_guard_settle_at_one(locks: Locks) {
    let guard = locks.lock("key").await.unwrap();
    let begin = guard.scope(async {
        let mut entries = Vec::new();
        for _ in 0..20 {
            let mut entry = Box::pin(locks.with_lock("key", tokio::task::yield_now()));
            let done = (&mut entry).now_or_never().is_some();
            assert!(!done, "the body waits at least once");
            entries.push(entry);
        }
        entries
    });
    let mut tasks = tokio::task::JoinSet::new();
    for (n, entry) in begin.await.unwrap().into_iter().enumerate() {
        if n % 3 > 0 {
            tasks.spawn(entry);
        }
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap().unwrap();
    }
    until_depths(&locks, "key", &[1]).await;
    assert_eq!(guard.held().depth(), 1);
    guard.release().await.unwrap();
    assert!(locks.admin().inspect("key").await.unwrap().is_none());
}

#[tokio::test]
async fn changes_that_come_fast_are_sent_as_one() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    locks.with_lock("key", async {}).await.unwrap();
    let before = server.commandstats().await;
    let body = descend(&locks, 100, Box::pin(async {}));
    locks.with_lock("key", body).await.unwrap().unwrap();
    let calls = server.calls_since(&before).await;
    let sent: u64 = ["evalsha", "eval"]
        .iter()
        .filter_map(|name| calls.get(*name))
        .sum();
    // These are the acquire, the release, and one change of the depth, perhaps with the text of its script: all entries
    // and exits take place within one poll.
    assert!(sent <= 4, "{calls:?}");
}

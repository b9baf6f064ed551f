//! `DepthSync::Background`: nested entries and exits do not wait for the store, which is updated later.

use std::pin::Pin;

use crate::support::{DEADLINE, RedisServer, connect, depths, eventually, on_both_stores};
use reentry::{DepthSync, LockError, Locks};

const KEY: &str = "order:42";

on_both_stores! {
    the_store_catches_up_with_the_entries_and_with_the_exits,
    a_nested_entry_is_ready_at_its_first_poll,
    the_lock_is_free_after_the_last_exit,
}

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
        let request = locks.lock(KEY).depth_sync(DepthSync::Background);
        request.run(descend(locks, levels - 1, innermost)).await?
    })
}

async fn depth_is(locks: &Locks, depth: u64) {
    eventually(DEADLINE, "the store has the depth", async || {
        depths(locks, KEY).await == [depth]
    })
    .await;
}

async fn the_store_catches_up_with_the_entries_and_with_the_exits(locks: Locks) {
    let body = async {
        descend(&locks, 9, Box::pin(depth_is(&locks, 10)))
            .await
            .unwrap();
        depth_is(&locks, 1).await;
    };
    locks.with_lock(KEY, body).await.unwrap();
}

async fn a_nested_entry_is_ready_at_its_first_poll(locks: Locks) {
    let body = async {
        let nested = descend(&locks, 5, Box::pin(async {}));
        let polled = futures_util::FutureExt::now_or_never(nested);
        polled.expect("no entry or exit waits").unwrap();
    };
    locks.with_lock(KEY, body).await.unwrap();
}

async fn the_lock_is_free_after_the_last_exit(locks: Locks) {
    descend(&locks, 5, Box::pin(async {})).await.unwrap();
    assert!(locks.inspect(KEY).await.unwrap().is_none());
}

#[tokio::test]
async fn changes_that_come_fast_are_sent_as_one() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    locks.with_lock(KEY, async {}).await.unwrap();
    let before = server.commandstats().await;
    let body = descend(&locks, 100, Box::pin(async {}));
    locks.with_lock(KEY, body).await.unwrap().unwrap();
    let calls = server.calls_since(&before).await;
    let sent: u64 = ["evalsha", "eval"]
        .iter()
        .filter_map(|name| calls.get(*name))
        .sum();
    // These are the acquire, the release, and at most one change of the depth: all entries and exits take place within
    // one poll.
    assert!(sent <= 3, "{calls:?}");
}

#[cfg(feature = "macros")]
mod by_attribute {
    use futures_util::FutureExt;
    use reentry::{DepthSync, LockError, locked};

    use crate::support::{DEADLINE, RedisServer, connect, within};

    #[locked("order:{id}", depth_sync = DepthSync::Background)]
    async fn in_the_background(id: u32) -> Result<u32, LockError> {
        Ok(id)
    }

    #[locked("order:{id}")]
    async fn awaited(id: u32) -> Result<u32, LockError> {
        Ok(id)
    }

    #[tokio::test]
    async fn a_nested_call_waits_for_the_store_as_depth_sync_says() {
        let server = RedisServer::start().await;
        let locks = connect(&server).await;
        let nested = async {
            let waiting = awaited(42).now_or_never().is_none();
            (in_the_background(42).now_or_never(), waiting)
        };
        let outer = locks.scope(locks.with_lock(super::KEY, nested));
        let (entered, waiting) = within(DEADLINE, "the outer call", outer).await.unwrap();
        assert_eq!(entered.map(Result::ok), Some(Some(42)));
        assert!(waiting);
    }
}

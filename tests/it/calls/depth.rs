//! P3: while the lock is held, the holder's field in the store follows the number of its entries, for which none of them
//! waits.

use std::pin::Pin;

use crate::support::{RedisServer, connect, in_memory};
use futures_util::FutureExt;
use reentry::{LockError, Locks};

in_memory!(nested_entries_and_exits_are_ready_at_their_first_poll);

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

//! The futures themselves: `Send` if the body is, small however deep they nest, lazy, and with a static lifetime.

use crate::support::in_memory;
use reentry::{LockError, Locks, held};

in_memory!(nothing_happens_before_the_first_poll,);

/// This is how users write it: each level is an `async fn` that runs an `async` block under the lock.
#[tokio::test]
async fn the_size_stays_small_over_five_async_fns() {
    macro_rules! levels {
        ($name:ident) => {
            async fn $name(locks: &Locks) -> u32 {
                locks.with_lock("key", async { held("key").unwrap().depth() }).await.unwrap()
            }
        };
        ($name:ident $next:ident $($names:ident)*) => {
            async fn $name(locks: &Locks) -> u32 {
                locks.with_lock("key", async { $next(locks).await }).await.unwrap()
            }
            levels!($next $($names)*);
        };
    }
    levels!(first second third fourth fifth);
    let locks = Locks::in_memory();
    let future = first(&locks);
    let size = size_of_val(&future);
    assert!(size < 16 * 1024, "{size} bytes");
    assert_eq!(future.await, 5);
}

async fn nothing_happens_before_the_first_poll(locks: Locks) {
    let unpolled = locks.with_lock("key", async { unreachable!("entered") });
    let acquire = locks.lock("key").acquire();
    let invalid = locks.with_lock("", async {});
    assert!(locks.admin().inspect("key").await.unwrap().is_none());
    let guard = locks.lock("key").no_wait().await.unwrap();
    drop((unpolled, acquire));
    guard.release().await.unwrap();
    assert!(matches!(invalid.await, Err(LockError::Misuse { .. })));
}

//! P2: an acquisition re-enters exactly when an enclosing scope holds the key.

use std::pin::Pin;

use crate::support::{depths, in_memory, until_depths};
use reentry::__admin::{Ids as _, current_owner};
use reentry::{Locks, held};
use tokio::sync::Semaphore;

in_memory!(
    a_key_is_reentered_through_other_keys_in_between,
    what_is_held_shows_inside_and_nowhere_else,
    recursion_reenters_to_depth_200,
);

async fn a_key_is_reentered_through_other_keys_in_between(locks: Locks) {
    let innermost = async {
        until_depths(&locks, "a", &[2]).await;
        assert_eq!(depths(&locks, "b").await, [1]);
        assert_eq!(held("a").unwrap().depth(), 2);
    };
    let middle = async { locks.with_lock("a", innermost).await.unwrap() };
    let outer = async { locks.with_lock("b", middle).await.unwrap() };
    locks.with_lock("a", outer).await.unwrap();
}

async fn what_is_held_shows_inside_and_nowhere_else(locks: Locks) {
    let nothing = || held("key").is_none() && current_owner().is_none();
    assert!(nothing());
    let body = async {
        let seen = held("key").unwrap();
        assert_eq!(current_owner(), Some(seen.owner()));
        assert!(held("another").is_none());
        let info = locks.admin().inspect("key").await.unwrap().unwrap();
        assert_eq!(info.holders[0].hold_id, seen.hold_id().to_string());
        assert_eq!(info.holders[0].owner, Some(seen.owner().to_string()));
        assert_eq!(info.token, Some(seen.fencing_token()));
        seen
    };
    let seen = locks.with_lock("key", body).await.unwrap();
    assert!(nothing());
    // The view outlives the lock and reports that.
    assert_eq!(seen.depth(), 0);
    assert!(seen.remaining().is_zero());
    assert!(!seen.is_lost());
}

type Recursion<'a> = Pin<Box<dyn Future<Output = u32> + Send + 'a>>;

/// Enters `levels` times and waits at the bottom. Only the recursion itself is boxed.
fn descend<'a>(locks: &'a Locks, levels: u32, bottom: &'a Semaphore) -> Recursion<'a> {
    Box::pin(async move {
        if levels == 0 {
            bottom.acquire().await.unwrap().forget();
            return held("key").unwrap().depth();
        }
        let deeper = async { descend(locks, levels - 1, bottom).await };
        let depth = locks.with_lock("key", deeper).await.unwrap();
        let left = held("key").map_or(0, |held| held.depth());
        assert_eq!(left, depth - levels);
        depth
    })
}

async fn recursion_reenters_to_depth_200(locks: Locks) {
    let bottom = Semaphore::new(1);
    assert_eq!(descend(&locks, 200, &bottom).await, 200);
    assert!(locks.admin().inspect("key").await.unwrap().is_none());
}

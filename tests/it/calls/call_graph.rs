//! P2: an acquisition re-enters exactly when an enclosing scope holds the key.

use crate::support::{depths, in_memory, until_depths};
use reentry::__admin::{Ids as _, current_owner};
use reentry::{Locks, held};

in_memory!(
    a_key_is_reentered_through_other_keys_in_between,
    what_is_held_shows_inside_and_nowhere_else,
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

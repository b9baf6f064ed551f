//! No waiter is overtaken by a caller that acquires several locks. For several processes, the contract of the stores
//! tests this.

use std::sync::Arc;

use crate::support::{DEADLINE, Section, in_memory, until_waiting, within};
use reentry::Locks;

in_memory!(callers_in_this_process_are_not_overtaken,);

/// A lock that is free, and that a caller of this process waits for, is not acquired before that caller.
async fn callers_in_this_process_are_not_overtaken(locks: Locks) {
    let holder = locks.lock("a").await.unwrap();
    let section = Arc::new(Section::default());
    let visited = Arc::clone(&section);
    let first = locks.with_lock("a", async move { visited.visit().await });
    let first = tokio::spawn(first);
    until_waiting(&locks, "a", 1).await;
    let both = || locks.lock_all(["b", "a"]);
    assert!(both().try_acquire().await.unwrap().is_none());
    let visited = Arc::clone(&section);
    let second = tokio::spawn(both().run(async move { visited.visits() }));
    until_waiting(&locks, "a", 2).await;
    holder.release().await.unwrap();
    let first = within(DEADLINE, "the first enters", first).await;
    first.unwrap().unwrap();
    let second = within(DEADLINE, "the second enters", second).await;
    assert_eq!(second.unwrap().unwrap(), 1);
}

//! Permits: a limited number of callers at a time.

use crate::support::{depths, in_memory};
use reentry::Locks;

in_memory!(
    a_permit_is_not_shared_with_nested_calls,
    permits_and_locks_exclude_each_other,
    each_caller_uses_its_own_number_of_permits,
);

async fn a_permit_is_not_shared_with_nested_calls(locks: Locks) {
    let body = async {
        let nested = async { depths(&locks, "key").await };
        locks.semaphore("key", 2).run(nested).await.unwrap()
    };
    assert_eq!(locks.semaphore("key", 2).run(body).await.unwrap(), [1, 1]);
}

async fn permits_and_locks_exclude_each_other(locks: Locks) {
    let permit = locks.semaphore("key", 2).await.unwrap();
    assert!(locks.lock("key").try_acquire().await.unwrap().is_none());
    permit.release().await.unwrap();
    let lock = locks.lock("key").await.unwrap();
    let permit = locks.semaphore("key", 2).try_acquire().await.unwrap();
    assert!(permit.is_none());
    lock.release().await.unwrap();
}

async fn each_caller_uses_its_own_number_of_permits(locks: Locks) {
    let permit = locks.semaphore("key", 5).await.unwrap();
    let few = locks.semaphore("key", 1).try_acquire().await.unwrap();
    assert!(few.is_none());
    let more = locks.semaphore("key", 2).no_wait().await.unwrap();
    for permit in [permit, more] {
        permit.release().await.unwrap();
    }
    let refused = locks.semaphore("key", 0).run(async {}).await;
    assert!(refused.unwrap_err().is_misuse());
}

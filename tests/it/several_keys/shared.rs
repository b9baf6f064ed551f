//! Several locks that are shared: each as a single reader has it, and either all of them or none.

use crate::support::{DEADLINE, depths, eventually, in_memory, until_waiting, within};
use reentry::{LockError, Locks};

const KEYS: [&str; 3] = ["a", "b", "c"];

in_memory!(
    readers_of_several_keys_are_inside_together,
    a_writer_of_one_key_keeps_them_out_of_all,
    a_shared_lock_all_re_enters_enclosing_locks_in_their_mode,
);

async fn readers_of_several_keys_are_inside_together(locks: Locks) {
    let one = locks.lock_all(KEYS).read().await.unwrap();
    let other = locks.lock_all(["c", "b"]).read().no_wait().await.unwrap();
    assert!(one.all().iter().all(|held| held.is_shared()));
    assert_eq!(depths(&locks, "b").await, [1, 1]);
    for key in KEYS {
        let write = locks.lock(key).no_wait().await.unwrap_err();
        assert!(matches!(write, LockError::Busy { .. }), "{write}");
    }
    one.release().await.unwrap();
    let writer = locks.lock("a").no_wait().await.unwrap();
    writer.release().await.unwrap();
    other.release().await.unwrap();
    let all = locks.lock_all(KEYS).try_acquire().await.unwrap();
    assert!(all.is_some());
}

async fn a_writer_of_one_key_keeps_them_out_of_all(locks: Locks) {
    let writer = locks.lock("b").await.unwrap();
    let read = locks.lock_all(KEYS).read().no_wait().await.unwrap_err();
    assert!(read.is_busy() && read.key() == Some("b"), "{read}");
    let free = async || {
        let writers = locks.lock_all(["a", "c"]).try_acquire().await.unwrap();
        writers.is_some()
    };
    eventually(DEADLINE, "what they had got is given back", free).await;
    let read = tokio::spawn(locks.lock_all(KEYS).read().run(async {}));
    until_waiting(&locks, "b", 1).await;
    writer.release().await.unwrap();
    within(DEADLINE, "they enter", read).await.unwrap().unwrap();
}

async fn a_shared_lock_all_re_enters_enclosing_locks_in_their_mode(locks: Locks) {
    let shared = async {
        let guard = locks.lock_all(KEYS).read().await.unwrap();
        let shared = [0, 1, 2].map(|at| guard.all()[at].is_shared());
        let again = locks.lock_all(KEYS).read().run(async {});
        guard.scope(again).await.unwrap().unwrap();
        guard.release().await.unwrap();
        shared
    };
    let shared = locks.with_lock("b", shared).await.unwrap();
    // The re-entered lock is the first.
    assert_eq!(shared, [false, true, true]);
}

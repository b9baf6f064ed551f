//! P5, P6, P8 and P13 while the server is unavailable, silent or unreachable, for callers that wait, hold and release.
//! The same cases run in memory and on Redis.

use std::future::pending;
use std::time::Duration;

use crate::support::told::lost;
use crate::support::{DEADLINE, depths, eventually, until_waiting, within};
use ground::Ground;
use ground::Trouble::{CutOff, Down, Silent};
use reentry::{LockError, Locks, LocksBuilder, LostReason, OnLost, held};
use tokio::sync::{Barrier, oneshot};
use tokio::time::Instant;

mod ground;

const ALL: [ground::Trouble; 3] = [Down, Silent, CutOff];

const SECOND: Duration = Duration::from_secs(1);
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(300);
const KEY: &str = "order:42";

/// Leases that no test outlives.
const FAR: Duration = Duration::from_secs(300);

macro_rules! on_both_grounds {
    ($($case:ident: $troubles:expr,)+) => {
        mod in_memory {
            use super::*;

            $(#[tokio::test(start_paused = true)]
            async fn $case() {
                ground::in_memory(super::$case, $troubles).await;
            })+
        }

        mod on_redis {
            use super::*;

            $(#[tokio::test]
            async fn $case() {
                ground::on_redis(super::$case, $troubles).await;
            })+
        }
    };
}

on_both_grounds!(
    a_wait_in_vain_ends_with_the_last_error: ALL,
    one_request_is_an_open_question_and_the_next_one_is_not_sent: ALL,
    a_waiter_enters_when_it_is_over: ALL,
    waiters_behind_a_holder_get_their_turns_afterwards: ALL,
    a_lock_is_lost_at_its_deadline_and_the_next_one_enters: ALL,
    a_lock_is_kept_if_its_lease_lasts_longer: ALL,
    outputs_are_returned_and_the_locks_are_free_in_the_end: ALL,
    a_restart_without_data_is_noticed_at_once: [Down],
);

fn impatient(builder: LocksBuilder) -> LocksBuilder {
    let builder = builder.connect_timeout(SECOND).ttl(FAR).wait(DEADLINE);
    builder.response_timeout(RESPONSE_TIMEOUT)
}

async fn is_free(locks: &Locks, key: &str) {
    let free = async || {
        locks
            .admin()
            .inspect(key)
            .await
            .is_ok_and(|info| info.is_none())
    };
    eventually(DEADLINE, &format!("{key} is free"), free).await;
}

async fn a_wait_in_vain_ends_with_the_last_error(ground: Ground) {
    let [a, b] = ground.replicas(impatient).await;
    ground.begin(&a).await;
    let start = Instant::now();
    let error = a.lock(KEY).wait(2 * SECOND).await.unwrap_err();
    ground.assert_took(start.elapsed(), 2 * SECOND);
    assert!(error.is_unavailable() && !error.is_busy(), "{error:?}");
    let LockError::Unavailable { source, .. } = error else {
        panic!("{error:?}");
    };
    let source = source.to_string();
    assert!(source.contains(&ground.endpoint()), "{source}");
    ground.end(&a).await;
    // Requests that were executed late are undone.
    for locks in [&b, &a] {
        locks.with_lock(KEY, async {}).await.unwrap();
    }
    is_free(&b, KEY).await;
}

/// Returns whether the outcome of a request is unknown, and how long it took.
async fn ask(locks: &Locks) -> (bool, Duration) {
    let start = Instant::now();
    match locks.lock(KEY).no_wait().await {
        Err(LockError::Unavailable { source, .. }) => {
            (source.is_outcome_unknown(), start.elapsed())
        }
        other => panic!("{other:?}"),
    }
}

async fn one_request_is_an_open_question_and_the_next_one_is_not_sent(ground: Ground) {
    let [a, b] = ground.replicas(impatient).await;
    ground.begin(&a).await;
    if ground.trouble == Down {
        // The end of a real connection is noticed a little later.
        while ask(&a).await.0 {}
        ground.assert_took(ask(&a).await.1, Duration::ZERO);
    } else {
        let (is_open, took) = ask(&a).await;
        assert!(is_open, "{:?}", ground.trouble);
        ground.assert_took(took, RESPONSE_TIMEOUT);
        let (is_open, took) = ask(&a).await;
        assert!(!is_open, "{:?}", ground.trouble);
        ground.assert_took(took, SECOND);
    }
    if ground.trouble == CutOff {
        // The others continue in the meantime.
        let start = Instant::now();
        b.with_lock(KEY, async {}).await.unwrap();
        ground.assert_within(start.elapsed(), Duration::ZERO);
    }
    ground.end(&a).await;
    for locks in [&b, &a] {
        locks.with_lock(KEY, async {}).await.unwrap();
    }
}

async fn a_waiter_enters_when_it_is_over(ground: Ground) {
    let [a, b] = ground.replicas(impatient).await;
    ground.begin(&a).await;
    // A clone is the same replica.
    let waiting = tokio::spawn(a.clone().lock(KEY).acquire());
    // It lasts for as long as another caller waits in vain.
    a.lock("beside").wait(2 * SECOND).await.unwrap_err();
    assert!(!waiting.is_finished());
    let start = Instant::now();
    ground.end(&a).await;
    let guard = within(DEADLINE, "the waiter enters", waiting).await;
    ground.assert_within(start.elapsed(), Duration::ZERO);
    assert_eq!(depths(&b, KEY).await, [1]);
    guard.unwrap().unwrap().release().await.unwrap();
    is_free(&b, KEY).await;
}

async fn waiters_behind_a_holder_get_their_turns_afterwards(ground: Ground) {
    let [a, b] = ground.replicas(impatient).await;
    let holder = a.lock(KEY).await.unwrap();
    let mut waiting = Vec::new();
    for (locks, count) in [(&a, 3), (&b, 1)] {
        for _ in 0..count {
            waiting.push(tokio::spawn(locks.lock(KEY).run(async {})));
        }
        until_waiting(locks, KEY, count).await;
    }
    ground.begin(&a).await;
    // It continues in the background.
    holder.release().await.unwrap();
    ground.end(&a).await;
    for waiter in waiting {
        let entered = within(DEADLINE, "a waiter enters", waiter).await;
        entered.unwrap().unwrap();
    }
    is_free(&b, KEY).await;
}

async fn a_lock_is_lost_at_its_deadline_and_the_next_one_enters(ground: Ground) {
    let ttl = 2 * SECOND;
    let [a, b] = ground.replicas(|builder| impatient(builder).ttl(ttl)).await;
    let (begins, has_begun) = (Barrier::new(4), Barrier::new(4));
    let away = async || {
        begins.wait().await;
        has_begun.wait().await;
    };
    let start = Instant::now();
    let (song, silence) = oneshot::channel::<()>();
    let dropped = async {
        let body = async {
            let _song = song;
            away().await;
            pending::<()>().await;
        };
        let lost = a.with_lock("dropped", body).await;
        (lost, silence.await.is_err(), start.elapsed())
    };
    let nested = a.with_lock("nested", async {
        away().await;
        a.with_lock("nested", pending::<()>()).await
    });
    let keeps = a.lock("keeps").on_lost(OnLost::KeepRunning);
    let keeps = keeps.run(async {
        away().await;
        let held = held("keeps").unwrap();
        let reason = held.lost().await;
        assert!(held.is_lost() && held.remaining().is_zero());
        (reason, held.fencing_token())
    });
    let trouble = async {
        begins.wait().await;
        ground.begin(&a).await;
        has_begun.wait().await;
    };
    let (dropped, nested, keeps, ()) = tokio::join!(dropped, nested, keeps, trouble);
    let (dropped, is_dropped, took) = dropped;
    for result in [dropped, nested.and_then(|inner| inner)] {
        assert_eq!(lost(result).1, LostReason::Expired);
    }
    assert!(is_dropped);
    ground.assert_within(took, ttl);
    let (reason, token) = keeps.unwrap();
    assert_eq!(reason, LostReason::Expired);
    assert!(took >= ttl * 98 / 100, "{took:?}");
    if ground.trouble != CutOff {
        ground.end(&a).await;
    }
    for key in ["dropped", "nested", "keeps"] {
        // A renewal that is executed late does not restore the lock.
        let next = within(DEADLINE, "the next one enters", b.lock(key).acquire()).await;
        assert!(key != "keeps" || next.unwrap().held().fencing_token() > token);
    }
    assert!(start.elapsed() >= took);
    ground.assert_within(start.elapsed(), ttl + SECOND);
}

async fn a_lock_is_kept_if_its_lease_lasts_longer(ground: Ground) {
    let ttl = 9 * SECOND;
    let [a, b] = ground.replicas(|builder| impatient(builder).ttl(ttl)).await;
    let body = a.with_lock(KEY, async {
        let held = held(KEY).unwrap();
        for _ in 0..2 {
            ground.begin(&a).await;
            a.with_lock(KEY, async {}).await.unwrap();
            let due = async || held.remaining() < ttl * 7 / 12;
            eventually(DEADLINE, "a renewal is due", due).await;
            ground.end(&a).await;
            let renewed = async || held.remaining() > ttl * 9 / 12;
            eventually(DEADLINE, "the lease is renewed", renewed).await;
        }
        let is_right = async || depths(&b, KEY).await == [1];
        eventually(DEADLINE, "the nested entries are left", is_right).await;
        b.lock(KEY).no_wait().await.unwrap_err().is_busy()
    });
    assert!(body.await.unwrap(), "{:?}", ground.trouble);
    is_free(&b, KEY).await;
}

/// P13. The leases are longer than the test, so that neither an output nor the next holder waits for them.
async fn outputs_are_returned_and_the_locks_are_free_in_the_end(ground: Ground) {
    #[derive(Debug, PartialEq)]
    struct OutOfStock;
    impl From<LockError> for OutOfStock {
        fn from(error: LockError) -> Self {
            panic!("the lock's error masks the body's: {error}");
        }
    }
    let [a, b] = ground.replicas(impatient).await;
    let guard = a.lock("guard").await.unwrap();
    let (begins, has_begun) = (Barrier::new(4), Barrier::new(4));
    let away = async || {
        begins.wait().await;
        has_begun.wait().await;
        Instant::now()
    };
    let body = a.with_lock("body", away());
    let nested = a.with_lock("nested", a.with_lock("nested", away()));
    let flat = a.try_with_lock("flat", async {
        away().await;
        Err::<(), _>(OutOfStock)
    });
    let released = async {
        begins.wait().await;
        ground.begin(&a).await;
        has_begun.wait().await;
        guard.release().await
    };
    let all = async { tokio::join!(body, nested, flat, released) };
    let (body, nested, flat, released) = within(DEADLINE, "the outputs", all).await;
    let end = body.unwrap();
    nested.unwrap().unwrap();
    assert_eq!(flat, Err(OutOfStock));
    released.unwrap();
    ground.assert_within(end.elapsed(), RESPONSE_TIMEOUT);
    ground.end(&a).await;
    for key in ["body", "nested", "flat", "guard"] {
        is_free(&b, key).await;
    }
}

async fn a_restart_without_data_is_noticed_at_once(ground: Ground) {
    let [a, b] = ground.replicas(|builder| builder.ttl(FAR)).await;
    let guards = (0..50).map(|number| a.lock(format!("key-{number}")).acquire());
    let mut guards = futures_util::future::try_join_all(guards).await.unwrap();
    let holder = a.lock(KEY).await.unwrap();
    let token = || held(KEY).unwrap().fencing_token();
    let waiting =
        [&a, &a, &b].map(|locks| tokio::spawn(locks.with_lock(KEY, async move { token() })));
    for (locks, count) in [(&a, 2), (&b, 1)] {
        until_waiting(locks, KEY, count).await;
    }
    let (before, start) = (holder.held().fencing_token(), Instant::now());
    guards.push(holder);
    ground.restart_empty().await;
    for guard in &guards {
        let reason = within(DEADLINE, "the idle hold notices", guard.held().lost()).await;
        assert_eq!(reason, LostReason::Deleted);
    }
    for waiter in waiting {
        let entered = within(DEADLINE, "a waiter enters", waiter).await;
        assert!(entered.unwrap().unwrap() > before);
    }
    ground.assert_within(start.elapsed(), SECOND);
    is_free(&b, KEY).await;
}

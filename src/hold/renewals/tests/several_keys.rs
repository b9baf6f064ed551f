//! The holds of one acquisition: one request renews them, and its body begins only after all of its locks are known to
//! have survived a lost connection.

use super::*;
use crate::LockGuard;
use crate::base::timer::sleep;

/// Two locks. The second one was acquired five seconds after the first.
async fn taken_one_by_one(locks: &Locks) -> LockGuard {
    let taken = locks.lock_all(["a", "b"]).acquire().await.unwrap();
    let last = taken.all().last().unwrap().key().to_owned();
    taken.release().await.unwrap();
    let other = locks.lock(last).acquire().await.unwrap();
    let (taken, ()) = tokio::join!(locks.lock_all(["a", "b"]).acquire(), async {
        sleep(5 * SECOND).await;
        other.release().await.unwrap();
    });
    taken.unwrap()
}

#[tokio::test(start_paused = true)]
async fn one_request_renews_the_locks_that_were_taken_together() {
    for (together, expected) in [(true, 29..=30), (false, 58..=60)] {
        let store = Counting::new();
        let locks = store.locks();
        let guard = match together {
            true => locks.lock_all(["a", "b"]).acquire().await.unwrap(),
            false => taken_one_by_one(&locks).await,
        };
        let renewed = store.renewed_within(300 * SECOND).await;
        assert!(expected.contains(&renewed), "{renewed}");
        assert!(guard.all().iter().all(|held| !held.is_lost()));
    }
}

/// Only their combination may be rejected, for example while the slot of a cluster moves.
#[tokio::test(start_paused = true)]
async fn the_locks_of_one_acquisition_are_separated_after_a_rejection() {
    let store = Counting::new();
    let locks = store.locks();
    let _guard = locks.lock_all(["a", "b"]).acquire().await.unwrap();
    *store.rejects.lock() = Some("a");
    let together = store.together_within(TTL / 3 + SECOND).await;
    assert_eq!(together[0].len(), 2);
    let alone = &together[1..];
    assert!(
        alone.len() > 1 && alone.iter().all(|keys| keys.len() == 1),
        "{together:?}"
    );
}

/// One is renewed, and no replica has that. Of the other one nothing is known.
#[tokio::test(start_paused = true)]
async fn what_no_replica_has_is_renewed_again() {
    let store = Counting::new();
    let builder = Locks::builder("memory:").ttl(TTL).confirm(1, SECOND);
    let locks = builder.build_on_wire(Arc::clone(&store), SECOND);
    let guard = locks.lock_all(["a", "b"]).acquire().await.unwrap();
    *store.unconfirmed.lock() = Some(vec![RenewReply::Renewed, RenewReply::Failed]);
    sleep(2 * TTL).await;
    assert!(guard.all().iter().all(|held| !held.is_lost()));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_of_several_goes_on_without_one_that_has_ended() {
    let store = Counting::new();
    let locks = store.locks();
    let before = alive();
    let guard = taken_one_by_one(&locks).await;
    // It outlives the others.
    let kept = guard
        .scope(locks.lock("b").acquire())
        .await
        .unwrap()
        .unwrap();
    store.is_silent.store(true, Relaxed);
    assert!(store.renewed_within(TTL / 3).await > 0);
    guard.release().await.unwrap();
    store.is_silent.store(false, Relaxed);
    sleep(TTL).await;
    assert!(!kept.held().is_lost());
    // The end of the last one ends a renewal in flight.
    store.is_silent.store(true, Relaxed);
    assert!(store.renewed_within(TTL / 3).await > 0);
    kept.release().await.unwrap();
    assert_eq!(store.renewed_within(TTL).await, 0);
    assert_eq!(alive(), before);
}

/// Two locks. The caller has one of them, and waits for the other, while the connection is lost. Renewals take a tenth
/// of a second from then on.
async fn begins(is_gone: bool) -> (Result<(), LockError>, Option<Duration>) {
    let store = Counting::new();
    let (locks, elsewhere) = (store.locks(), store.locks());
    let taken = locks.lock_all(["a", "b"]).acquire().await.unwrap();
    let order: Vec<_> = taken
        .all()
        .iter()
        .map(|held| held.key().to_owned())
        .collect();
    taken.release().await.unwrap();
    let second = elsewhere.lock(&order[1]).acquire().await.unwrap();
    let first = async {
        // The caller sends a request in every heartbeat.
        sleep(SECOND - 50 * MOMENT).await;
        store.is_late.store(true, Relaxed);
        if is_gone {
            // This is what a server does that returns without data.
            store.store.forget();
            store.disconnect();
            let _new_holder = elsewhere.lock(&order[0]).acquire().await.unwrap();
            drop(second.release().await);
            sleep(SECOND).await;
        } else {
            store.disconnect();
            second.release().await.unwrap();
        }
        Instant::now()
    };
    let mut begun = None;
    let body = locks.lock_all(["a", "b"]).run(async {
        begun = Some(Instant::now());
    });
    let (ran, released) = tokio::join!(body, first);
    (
        ran,
        begun.map(|begun| begun.saturating_duration_since(released)),
    )
}

#[tokio::test(start_paused = true)]
async fn a_body_does_not_begin_with_a_lock_that_went_with_the_server() {
    let (ran, begun) = begins(true).await;
    assert!(ran.is_err_and(|error| error.is_lost()));
    assert_eq!(begun, None);
}

#[tokio::test(start_paused = true)]
async fn a_body_begins_when_its_first_lock_is_verified() {
    let (ran, waited) = begins(false).await;
    ran.unwrap();
    let in_time = |waited: Duration| !waited.is_zero() && waited <= SECOND / 2;
    assert!(waited.is_some_and(in_time), "{waited:?}");
}

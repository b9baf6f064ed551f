//! P6: a loss is acted on. How a holder learns of it from a server is in `forced` and `outage`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::in_memory;
use futures_util::FutureExt;
use reentry::{LockError, Locks, LostReason, OnLost, held};

in_memory!(
    a_forced_release_drops_the_body_at_once,
    with_keep_running_the_body_continues_and_sees_the_loss,
    a_guard_reports_its_loss,
    a_lost_lock_is_not_reentered,
    a_loss_found_by_the_release_is_reported_by_a_guard,
    lost_never_resolves_after_a_release,
);

const TTL: Duration = Duration::from_secs(3);

const LONG: Duration = Duration::from_secs(3_600);

/// Sets its flag when it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn is_gone<T>(result: &Result<T, LockError>) -> bool {
    matches!(result, Err(LockError::Lost { key, reason: LostReason::Deleted, .. }) if key == "key")
}

async fn a_forced_release_drops_the_body_at_once(locks: Locks) {
    let dropped = Arc::new(AtomicBool::new(false));
    let body = async {
        let _flag = Dropped(Arc::clone(&dropped));
        assert!(locks.admin().force_release("key").await.unwrap());
        std::future::pending::<()>().await;
    };
    // It is not renewed before the end of the test.
    let result = locks.lock("key").ttl(LONG).run(body).await;
    assert!(is_gone(&result), "{result:?}");
    assert!(result.unwrap_err().is_lost());
    assert!(dropped.load(Ordering::SeqCst), "the body outlived the call");
    locks.with_lock("key", async {}).await.unwrap();
}

async fn with_keep_running_the_body_continues_and_sees_the_loss(locks: Locks) {
    let body = async {
        let held = held("key").unwrap();
        assert!(!held.is_lost() && held.remaining() > Duration::ZERO);
        assert!(locks.admin().force_release("key").await.unwrap());
        assert_eq!(held.lost().await, LostReason::Deleted);
        assert!(held.is_lost());
        assert_eq!(held.remaining(), Duration::ZERO);
        // It stays lost, and every later call reports that.
        assert_eq!(held.lost().await, LostReason::Deleted);
        "the output"
    };
    let request = locks.lock("key").ttl(TTL).on_lost(OnLost::KeepRunning);
    assert_eq!(request.run(body).await.unwrap(), "the output");
}

async fn a_guard_reports_its_loss(locks: Locks) {
    let guard = locks.lock("key").ttl(TTL).await.unwrap();
    assert!(locks.admin().force_release("key").await.unwrap());
    assert_eq!(guard.held().lost().await, LostReason::Deleted);
    let refused = guard.scope(async { unreachable!("entered") }).await;
    assert!(is_gone::<()>(&refused));
    assert!(is_gone(&guard.release().await));

    let keep = locks.lock("key").ttl(TTL).on_lost(OnLost::KeepRunning);
    let guard = keep.await.unwrap();
    assert!(locks.admin().force_release("key").await.unwrap());
    assert_eq!(guard.held().lost().await, LostReason::Deleted);
    assert!(
        guard
            .scope(async { held("key").unwrap().is_lost() })
            .await
            .unwrap()
    );
    guard.release().await.unwrap();
}

/// This is so even if the body continues: a request for the lock must not get a lost one.
async fn a_lost_lock_is_not_reentered(locks: Locks) {
    let body = async {
        assert!(locks.admin().force_release("key").await.unwrap());
        held("key").unwrap().lost().await;
        let nested = locks.with_lock("key", async { unreachable!("entered") });
        assert!(is_gone::<()>(&nested.await));
        assert!(is_gone(&locks.lock("key").acquire().await));
        // The requests that the old holder still sends do not disturb the next holder.
        let next = tokio::spawn(locks.lock("key").no_wait().acquire());
        let next = next.await.unwrap().unwrap();
        assert!(is_gone(&locks.lock("key").try_acquire().await));
        next
    };
    let request = locks.lock("key").ttl(TTL).on_lost(OnLost::KeepRunning);
    let next = request.run(body).await.unwrap();
    assert_eq!(crate::support::depths(&locks, "key").await, [1]);
    next.release().await.unwrap();
}

/// It was not noticed before. The exit from a body does not wait for the answer.
async fn a_loss_found_by_the_release_is_reported_by_a_guard(locks: Locks) {
    let guard = locks.lock("key").await.unwrap();
    assert!(locks.admin().force_release("key").await.unwrap());
    assert!(is_gone(&guard.release().await));
    // A nested call may notice it first, and the body does not continue.
    let body = async {
        assert!(locks.admin().force_release("key").await.unwrap());
        let entered = locks.with_lock("key", async { unreachable!("entered") });
        let told: Result<(), LockError> = entered.await;
        unreachable!("{told:?}");
    };
    assert!(is_gone(&locks.with_lock("key", body).await));
}

async fn lost_never_resolves_after_a_release(locks: Locks) {
    let body = async { held("key").unwrap() };
    let held = locks.lock("key").ttl(TTL).run(body).await.unwrap();
    let mut lost = Box::pin(held.lost());
    // A lease that began later has expired, and so has the one that was released.
    let guard = locks.lock("key").ttl(TTL).max_hold(TTL).await.unwrap();
    assert_eq!(guard.held().lost().await, LostReason::MaxHold);
    assert!((&mut lost).now_or_never().is_none() && !held.is_lost());
    // It does not take the loss of another hold for its own either.
    let guard = locks.lock("key").ttl(TTL).await.unwrap();
    assert!(locks.admin().force_release("key").await.unwrap());
    guard.held().lost().await;
    assert!((&mut lost).now_or_never().is_none() && !held.is_lost());
}

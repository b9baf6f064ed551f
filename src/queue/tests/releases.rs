//! Releases that fail: which of them are repeated, and which are in the report of `close`.

use super::*;

/// Waiters in other processes get the lock as soon as the server is available again.
#[tokio::test(start_paused = true)]
async fn a_release_that_reaches_no_server_is_repeated_soon() -> Result<(), LockError> {
    let process = Process::with_heartbeat(SECOND);
    let repeated = async |class| {
        let guard = process.locks.lock(KEY).acquire().await?;
        *process.store.failure.lock() = Some(class);
        drop(guard);
        let before = process.store.released.load(Relaxed);
        sleep(10 * SECOND).await;
        *process.store.failure.lock() = None;
        let repeated = process.store.released.load(Relaxed) - before;
        Ok::<_, LockError>(repeated)
    };
    let away = repeated(FailureClass::NotExecuted).await?;
    assert!(away >= 90, "{away}");
    let silent = repeated(FailureClass::OutcomeUnknown).await?;
    assert!(silent <= 30, "{silent}");
    Ok(())
}

/// A password that is changed back, a proxy that finds its server again.
#[tokio::test(start_paused = true)]
async fn a_release_that_is_denied_access_is_repeated() -> Result<(), LockError> {
    let process = Process::with_heartbeat(SECOND);
    let guard = process.locks.lock(KEY).acquire().await?;
    *process.store.failure.lock() = Some(FailureClass::AccessDenied);
    drop(guard);
    sleep(60 * SECOND).await;
    let released = process.store.released.load(Relaxed);
    assert!((60..=180).contains(&released), "{released}");
    let held = process.locks.close(SECOND).await;
    assert_eq!(held.to_string(), "1 acquisition or release is in flight");
    *process.store.failure.lock() = None;
    assert!(process.locks.close(Duration::MAX).await.is_clean());
    Ok(())
}

/// Until then no caller can have the lock, so the release is reported.
#[tokio::test(start_paused = true)]
async fn a_release_that_is_refused_is_in_the_report_until_its_lease_has_ended()
-> Result<(), LockError> {
    let process = Process::with_heartbeat(SECOND);
    for name in ["a", "b", "c"] {
        let guard = process.locks.lock(name).acquire().await?;
        let refuses = name != "c";
        *process.store.failure.lock() = refuses.then_some(FailureClass::Permanent);
        assert_eq!(guard.release().await.is_err(), refuses);
        sleep(if refuses { TTL / 3 * 2 } else { SECOND }).await;
    }
    let report = process.locks.close(Duration::MAX).await;
    assert_eq!(report.abandoned(), ["b"]);
    assert_eq!(report.to_string(), "1 release failed (b)");
    assert!(!report.is_clean());
    sleep(TTL).await;
    assert!(process.locks.close(Duration::MAX).await.is_clean());
    Ok(())
}

/// The rights of its user are changed one after the other, for example.
#[tokio::test(start_paused = true)]
async fn a_release_without_a_right_is_repeated_while_its_lease_lasts() -> Result<(), LockError> {
    let process = Process::with_heartbeat(SECOND);
    let guard = process.locks.lock(KEY).acquire().await?;
    *process.store.failure.lock() = Some(FailureClass::PermissionMissing);
    assert!(guard.release().await.is_err());
    sleep(60 * SECOND).await;
    let released = process.store.released.load(Relaxed);
    assert!((60..=180).contains(&released), "{released}");
    let other = process.locks.lock(KEY).try_acquire().await?;
    assert!(other.is_none());
    *process.store.failure.lock() = None;
    sleep(SECOND).await;
    let next = process.locks.lock(KEY).try_acquire().await?;
    assert!(next.is_some());
    drop(next);
    assert!(process.locks.close(Duration::MAX).await.is_clean());
    Ok(())
}

/// Its caller knows already that it was rejected, so nothing waits for it.
#[tokio::test(start_paused = true)]
async fn a_release_without_a_right_is_in_the_report() -> Result<(), LockError> {
    let process = Process::with_heartbeat(SECOND);
    let guard = process.locks.lock(KEY).acquire().await?;
    *process.store.failure.lock() = Some(FailureClass::PermissionMissing);
    assert!(guard.release().await.is_err());
    let report = process.locks.close(Duration::MAX).await;
    assert_eq!(report.to_string(), format!("1 release failed ({KEY})"));
    *process.store.failure.lock() = None;
    sleep(SECOND).await;
    assert!(process.locks.close(Duration::MAX).await.is_clean());
    Ok(())
}

/// A process that stood still sees the failure of a release whose lease has ended long ago.
#[tokio::test(start_paused = true)]
async fn a_release_that_fails_after_its_lease_is_in_no_report() -> Result<(), LockError> {
    for (late, abandoned) in [(TTL * 2, 0), (TTL / 2, 1)] {
        for class in [FailureClass::Permanent, FailureClass::OutcomeUnknown] {
            let process = Process::with_heartbeat(SECOND);
            let guard = process.locks.lock(KEY).acquire().await?;
            *process.store.failure.lock() = Some(class);
            *process.store.fails_after.lock() = late;
            drop(guard);
            sleep(late + SECOND).await;
            *process.store.failure.lock() = None;
            let report = process.locks.close(Duration::MAX).await;
            let abandoned = if class == FailureClass::Permanent {
                abandoned
            } else {
                0
            };
            assert_eq!(
                report.abandoned().len(),
                abandoned,
                "{class:?} after {late:?}: {report}"
            );
        }
    }
    Ok(())
}

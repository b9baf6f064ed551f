//! No duration that a caller may set makes anything panic, however long or short it is.
//!
//! Mounted by `src/api/builder.rs`.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

use super::LocksBuilder;
use crate::{LockError, LockRequest, Locks};

const SECOND: Duration = Duration::from_secs(1);

fn durations() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::MAX),
        Just(Duration::ZERO),
        Just(Duration::from_nanos(1)),
        (0u32..64).prop_map(|power| Duration::from_secs(1 << power)),
        (0u32..24).prop_map(|power| Duration::from_millis(1 << power)),
    ]
}

fn built(builder: LocksBuilder, option: usize, value: Duration) -> LocksBuilder {
    match option {
        0 => builder.ttl(value),
        1 => builder.wait(value),
        2 => builder.max_hold(value),
        3 => builder.grace(value),
        4 => builder.confirm(1, value),
        5 => builder.connect_timeout(value),
        6 => builder.response_timeout(value),
        _ => builder.outage(value),
    }
}

fn requested(request: LockRequest, option: usize, value: Duration) -> LockRequest {
    match option {
        0 => request.ttl(value),
        1 => request.wait(value),
        2 => request.max_hold(value),
        3 => request.min_hold(value),
        _ => request.retry(3, value),
    }
}

/// A holder, a waiter behind it, and the end of both.
async fn use_locks(locks: &Locks, request: LockRequest) -> Result<(), LockError> {
    let guard = request.clone().acquire().await?;
    drop(timeout(2 * SECOND, request.clone().run(async {})).await);
    let waiting = tokio::spawn(timeout(2 * SECOND, request.clone().run(async {})));
    sleep(SECOND).await;
    drop(guard);
    match waiting.await.expect("no panic") {
        Ok(Err(error)) if !error.is_busy() => Err(error)?,
        _ => {}
    }
    let several = locks.lock_all(["a", "b"]).run(sleep(SECOND));
    drop(timeout(2 * SECOND, several).await);
    Ok(())
}

type Options = Vec<(usize, Duration)>;

async fn set_all(options: Options, own: Options, limit: Duration) {
    let set = |builder, (option, value)| built(builder, option, value);
    let builder = Locks::builder("memory:");
    let Ok(locks) = options.into_iter().fold(builder, set).build_lazy() else {
        return;
    };
    let set = |request, (option, value)| requested(request, option, value);
    let request = own.into_iter().fold(locks.lock("order:42"), set);
    let used = use_locks(&locks, request).await;
    let is_allowed = |error: &LockError| {
        let is_invalid = matches!(error, LockError::Misuse { .. });
        error.is_busy() || error.is_lost() || is_invalid
    };
    assert!(used.as_ref().err().is_none_or(is_allowed), "{used:?}");
    drop(timeout(SECOND, locks.close(limit)).await);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_duration_panics(
        options in vec((0usize..8, durations()), 0..3),
        own in vec((0usize..5, durations()), 0..3),
        limit in durations(),
    ) {
        let mut runtime = Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().expect("a runtime");
        runtime.block_on(set_all(options, own, limit));
    }
}

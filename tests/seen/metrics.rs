//! The metrics, with their values and labels.

use std::collections::BTreeSet;
use std::time::Duration;

use reentry::{LockError, Locks};
use tokio::time::{sleep, timeout};

use crate::measures::Measures;
use crate::page;
use crate::support::{DEADLINE, RedisServer, Rig, eventually, patient};

const KEY: &str = "order:42";

#[tokio::test(start_paused = true)]
async fn a_section_is_counted_once_and_leaves_no_level_behind() -> Result<(), LockError> {
    let measures = Measures::of_this_test();
    let locks = Locks::in_memory();
    let body = async {
        sleep(Duration::from_secs(11)).await;
        locks.with_lock(KEY, async {}).await
    };
    locks.with_lock(KEY, body).await??;
    let measured = measures.totals();
    let acquired = "{mode=exclusive,outcome=acquired}";
    measured.assert(&format!("reentry_acquisitions_total{acquired}"), 1.0);
    assert_eq!(
        measured.values(&format!("reentry_wait_seconds{acquired}")),
        [0.0]
    );
    assert_eq!(
        measured.values("reentry_hold_seconds{mode=exclusive}"),
        [11.0]
    );
    for (name, expected) in [
        ("reentry_reentries_total{}", 1.0),
        ("reentry_renewals_total{answer=renewed}", 1.0),
        ("reentry_waiters{mode=exclusive}", 0.0),
        ("reentry_holds{}", 0.0),
    ] {
        measured.assert(name, expected);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn each_acquisition_is_counted_by_its_outcome() -> Result<(), LockError> {
    let measures = Measures::of_this_test();
    let locks = Locks::in_memory();
    let second = Duration::from_secs(1);
    let guard = locks.lock(KEY).await?;
    assert!(locks.lock(KEY).no_wait().await.is_err());
    assert!(locks.lock(KEY).wait(second).await.is_err());
    assert!(timeout(second, locks.lock(KEY).acquire()).await.is_err());
    let waiting = tokio::spawn(locks.lock(KEY).wait(Duration::MAX).acquire());
    sleep(second).await;
    let measured = measures.totals();
    measured.assert("reentry_waiters{mode=exclusive}", 1.0);
    measured.assert("reentry_holds{}", 1.0);
    for outcome in ["acquired", "busy", "timeout", "cancelled"] {
        let name = format!("reentry_acquisitions_total{{mode=exclusive,outcome={outcome}}}");
        measured.assert(&name, 1.0);
    }
    guard.release().await?;
    waiting.await.expect("no panic")?.release().await?;
    let measured = measures.totals();
    measured.assert("reentry_waiters{mode=exclusive}", 0.0);
    measured.assert("reentry_holds{}", 0.0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_turn_in_memory_is_a_hold_of_its_own() -> Result<(), LockError> {
    let measures = Measures::of_this_test();
    let locks = Locks::builder("memory:");
    let locks = locks.build().await?;
    // This is shorter than a heartbeat, after which the lock goes through the store.
    let short = Duration::from_millis(250);
    let body = || async move { sleep(short).await };
    let (one, other) = tokio::join!(locks.with_lock(KEY, body()), locks.with_lock(KEY, body()));
    one.and(other)?;
    let measured = measures.totals();
    measured.assert("reentry_handoffs_total{via=memory}", 1.0);
    assert_eq!(
        measured.values("reentry_hold_seconds{mode=exclusive}"),
        [0.25, 0.25]
    );
    measured.assert("reentry_holds{}", 0.0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn no_key_is_a_label_unless_a_classifier_says_so() -> Result<(), LockError> {
    let measures = Measures::of_this_test();
    let plain = Locks::in_memory();
    plain.with_lock(KEY, async {}).await?;
    let measured = measures.totals();
    assert!(measured.lacks("order"), "{measured:#?}");
    let builder = Locks::builder("memory:").prefix("app:");
    let class = |key: &str| key.split(':').next().unwrap_or_default().to_owned();
    let locks = builder.metrics_class(class).build().await?;
    locks.with_lock(KEY, async {}).await?;
    let measured = measures.totals();
    measured.assert("reentry_holds{class=order}", 0.0);
    let acquired = "reentry_acquisitions_total{class=order,mode=exclusive,outcome=acquired}";
    measured.assert(acquired, 1.0);
    Ok(())
}

/// The metrics that the other tests here have met, and all that were described to the recorder.
#[test]
fn the_page_lists_every_metric() {
    let listed: BTreeSet<_> = page::metrics().into_iter().collect();
    let source = include_str!("../../src/base/metrics.rs");
    let names = source.split('"').skip(1).step_by(2);
    let names = names.filter(|name| name.starts_with("reentry_"));
    assert_eq!(listed, names.map(str::to_owned).collect());
}

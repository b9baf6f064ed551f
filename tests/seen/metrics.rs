//! The metrics, with their values and labels.

use std::collections::BTreeSet;
use std::time::Duration;

use reentry::{LockError, Locks};
use tokio::time::{sleep, timeout};

use crate::page;
use crate::prometheus::Scrapes;

const KEY: &str = "order:42";

#[tokio::test(start_paused = true)]
async fn a_section_is_counted_once_and_leaves_no_level_behind() -> Result<(), LockError> {
    let measures = Scrapes::of_this_test();
    let locks = Locks::in_memory();
    let body = async {
        sleep(Duration::from_secs(11)).await;
        locks.with_lock(KEY, async {}).await
    };
    locks.with_lock(KEY, body).await??;
    for line in [
        r#"acquisitions_total{mode="exclusive",outcome="acquired"} 1"#,
        r#"wait_seconds_count{mode="exclusive",outcome="acquired"} 1"#,
        r#"wait_seconds_sum{mode="exclusive",outcome="acquired"} 0"#,
        r#"hold_seconds_count{mode="exclusive"} 1"#,
        r#"hold_seconds_sum{mode="exclusive"} 11"#,
        "reentries_total 1",
        r#"renewals_total{answer="renewed"} 1"#,
        r#"waiters{mode="exclusive"} 0"#,
        "holds 0",
    ] {
        measures.assert(line);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn each_acquisition_is_counted_by_its_outcome() -> Result<(), LockError> {
    let measures = Scrapes::of_this_test();
    let locks = Locks::in_memory();
    let second = Duration::from_secs(1);
    let guard = locks.lock(KEY).await?;
    assert!(locks.lock(KEY).no_wait().await.is_err());
    assert!(locks.lock(KEY).wait(second).await.is_err());
    assert!(timeout(second, locks.lock(KEY).acquire()).await.is_err());
    let waiting = tokio::spawn(locks.lock(KEY).wait(Duration::MAX).acquire());
    sleep(second).await;
    measures.assert(r#"waiters{mode="exclusive"} 1"#);
    measures.assert("holds 1");
    for outcome in ["acquired", "busy", "timeout", "cancelled"] {
        let labels = format!(r#"{{mode="exclusive",outcome="{outcome}"}}"#);
        measures.assert(&format!("acquisitions_total{labels} 1"));
    }
    guard.release().await?;
    waiting.await.expect("no panic")?.release().await?;
    measures.assert(r#"waiters{mode="exclusive"} 0"#);
    measures.assert("holds 0");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_turn_in_memory_is_a_hold_of_its_own() -> Result<(), LockError> {
    let measures = Scrapes::of_this_test();
    let locks = Locks::in_memory();
    // This is shorter than a heartbeat, after which the lock goes through the store.
    let short = Duration::from_millis(250);
    let body = || async move { sleep(short).await };
    let (one, other) = tokio::join!(locks.with_lock(KEY, body()), locks.with_lock(KEY, body()));
    one.and(other)?;
    measures.assert(r#"handoffs_total{via="memory"} 1"#);
    measures.assert(r#"hold_seconds_count{mode="exclusive"} 2"#);
    measures.assert(r#"hold_seconds_sum{mode="exclusive"} 0.5"#);
    measures.assert("holds 0");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn no_key_is_a_label_unless_a_classifier_says_so() -> Result<(), LockError> {
    let measures = Scrapes::of_this_test();
    let plain = Locks::in_memory();
    plain.with_lock(KEY, async {}).await?;
    assert!(!measures.samples().contains("order"));
    let builder = Locks::builder("memory:").prefix("app:");
    let class = |key: &str| key.split(':').next().unwrap_or_default().to_owned();
    let locks = builder.metrics_class(class).build().await?;
    locks.with_lock(KEY, async {}).await?;
    measures.assert(r#"holds{class="order"} 0"#);
    let labels = r#"{mode="exclusive",outcome="acquired",class="order"}"#;
    measures.assert(&format!("acquisitions_total{labels} 1"));
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

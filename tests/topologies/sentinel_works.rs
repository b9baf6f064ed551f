//! The test support itself: a primary with replicas and sentinels.

use crate::support::SentinelSet;

#[tokio::test]
async fn a_killed_primary_is_replaced_and_its_writes_are_kept() {
    let t = std::time::Instant::now();
    let set = SentinelSet::start().await;
    eprintln!("start {:?}", t.elapsed());
    assert_eq!(set.primary().await, 0);
    set.nodes[0].stop();
    let t = std::time::Instant::now();
    set.until_failed_over(0).await;
    eprintln!("over {:?}", t.elapsed());
}

#[tokio::test]
async fn a_failover() {
    let set = SentinelSet::start().await;
    let t = std::time::Instant::now();
    set.failover().await;
    eprintln!("over {:?}", t.elapsed());
}

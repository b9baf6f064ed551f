//! P13: what a body returned under a valid lease is returned to the caller, whatever the release
//! meets; the release goes on in the background and gets through when the way is free again.

use std::time::Duration;

use crate::support::rig::KEY;
use crate::support::{Cut, DEADLINE, Rig, within};
use reentry::LockError;

/// Runs `fault` at the end of the body. The lease lasts three times as long as the deadline, so an
/// output that comes within it has not waited for the lease.
async fn output_after(rig: &Rig, fault: impl AsyncFnOnce()) {
    let locked = rig.locks.with_lock(KEY, async {
        fault().await;
        "output"
    });
    let output = within(DEADLINE, "the output is returned", locked).await;
    assert_eq!(output.unwrap(), "output");
}

#[tokio::test]
async fn a_silent_network_does_not_withhold_the_output() {
    let rig = Rig::start().await;
    output_after(&rig, async || rig.proxy.blackhole()).await;
    assert_eq!(rig.depth().await, 1, "the release has not got through");
    rig.proxy.heal().await;
    rig.cut().await;
    rig.until_free().await;
}

#[tokio::test]
async fn a_broken_connection_does_not_cost_the_output() {
    let rig = Rig::start().await;
    for how in [Cut::Fin, Cut::Reset] {
        output_after(&rig, async || rig.proxy.cut_all(how).await).await;
        rig.until_free().await;
    }
}

#[tokio::test]
async fn a_refused_connection_does_not_cost_the_output() {
    let rig = Rig::start().await;
    output_after(&rig, async || {
        rig.proxy.refuse().await;
        rig.cut().await;
    })
    .await;
    assert_eq!(rig.depth().await, 1, "the release has not got through");
    rig.proxy.accept().await;
    rig.until_free().await;
}

#[tokio::test]
async fn a_stopped_server_does_not_withhold_the_output() {
    let rig = Rig::start().await;
    output_after(&rig, async || rig.server.pause()).await;
    rig.server.resume();
    rig.until_free().await;
}

#[tokio::test]
async fn a_server_that_dies_does_not_cost_the_output() {
    let rig = Rig::start().await;
    output_after(&rig, async || rig.server.stop()).await;
    rig.server.start_again().await;
    // It came back empty; the release that is still under way must not mind.
    rig.locks.with_lock(KEY, async {}).await.unwrap();
    rig.until_free().await;
}

#[tokio::test]
async fn the_output_of_a_nested_body_stands_as_well() {
    let rig = Rig::start().await;
    let outer = rig.locks.with_lock(KEY, async {
        output_after(&rig, async || rig.proxy.blackhole()).await;
        rig.proxy.heal().await;
        rig.cut().await;
        rig.until_depth(1).await;
        rig.proxy.blackhole();
    });
    within(DEADLINE, "the outer body's output", outer)
        .await
        .unwrap();
    rig.proxy.heal().await;
    rig.cut().await;
    rig.until_free().await;
}

#[tokio::test]
async fn an_error_of_the_body_itself_stands_as_well() {
    #[derive(Debug, PartialEq)]
    struct OutOfStock;
    impl From<LockError> for OutOfStock {
        fn from(error: LockError) -> Self {
            panic!("the lock's error masks the body's: {error}");
        }
    }
    let rig = Rig::start().await;
    let flat = rig.locks.with_lock_flat(KEY, async {
        rig.proxy.blackhole();
        Err::<(), _>(OutOfStock)
    });
    assert_eq!(within(DEADLINE, "the error", flat).await, Err(OutOfStock));
    rig.proxy.heal().await;
    rig.cut().await;
    rig.until_free().await;
}

#[tokio::test]
async fn a_guard_is_released_in_the_background_as_well() {
    let rig = Rig::start().await;
    let guard = rig.locks.lock(KEY).await.unwrap();
    rig.proxy.blackhole();
    within(DEADLINE, "the release returns", guard.release())
        .await
        .unwrap();
    let guarded = rig.depth().await;
    assert_eq!(guarded, 1);
    rig.proxy.heal().await;
    rig.cut().await;
    rig.until_free().await;
}

#[tokio::test]
async fn a_release_without_an_answer_until_the_lease_ends_succeeds() {
    const TTL: Duration = Duration::from_secs(2);
    // The response timeout lies beyond the lease.
    let rig = Rig::build(|builder| builder.ttl(TTL).response_timeout(DEADLINE)).await;
    let guard = rig.locks.lock(KEY).await.unwrap();
    rig.proxy.refuse().await;
    rig.cut().await;
    let released = within(DEADLINE, "the release is given up", guard.release()).await;
    // A machine that stood still for so long has lost the lock before.
    assert!(
        released.as_ref().err().is_none_or(LockError::is_lost),
        "{released:?}"
    );
    rig.until_free().await;
}

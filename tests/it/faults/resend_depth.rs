//! P8 for depth changes and renewals: a request that is lost, executed without an answer, executed
//! twice or executed late leaves the depth and the lease right.

use std::time::Duration;

use crate::support::proxy::Direction::ToServer;
use crate::support::rig::{EVALSHA, FAULTS, KEY};
use crate::support::{Action, Cut, DEADLINE, Rig, eventually};

#[tokio::test]
async fn a_nested_entry_that_goes_wrong_on_its_way_counts_once() {
    let rig = Rig::start().await;
    let outer = rig.locks.with_lock(KEY, async {
        for fault in FAULTS {
            rig.proxy.on_next(ToServer, EVALSHA, fault);
            let inner = rig.locks.with_lock(KEY, async { rig.depth().await });
            assert_eq!(inner.await.unwrap(), 2, "{fault:?}");
            assert_eq!(rig.depth().await, 1, "{fault:?}");
        }
    });
    outer.await.unwrap();
    rig.until_free().await;
}

#[tokio::test]
async fn a_nested_exit_that_goes_wrong_on_its_way_counts_once_and_the_output_stands() {
    let rig = Rig::start().await;
    let outer = rig.locks.with_lock(KEY, async {
        for fault in FAULTS {
            let inner = rig.locks.with_lock(KEY, async {
                rig.proxy.on_next(ToServer, EVALSHA, fault);
                "output"
            });
            assert_eq!(inner.await.unwrap(), "output", "{fault:?}");
            rig.until_depth(1).await;
        }
    });
    outer.await.unwrap();
    rig.until_free().await;
}

#[tokio::test]
async fn a_nested_entry_executed_late_does_not_undo_the_exit() {
    let rig = Rig::start().await;
    let outer = rig.locks.with_lock(KEY, async {
        rig.proxy.on_next(ToServer, EVALSHA, Action::Hold);
        let inner = rig.locks.with_lock(KEY, async { rig.depth().await });
        let cut = async {
            rig.proxy.wait_until_held(ToServer, EVALSHA).await;
            rig.proxy.cut_clients(Cut::Reset).await;
        };
        let (depth, ()) = tokio::join!(inner, cut);
        assert_eq!(depth.unwrap(), 2, "entered by a second request");
        let executed = rig.executed().await;
        rig.proxy.release(ToServer);
        rig.until_executed(executed, 1).await;
        assert_eq!(rig.depth().await, 1);
    });
    outer.await.unwrap();
    rig.until_free().await;
}

#[tokio::test]
async fn duplicates_of_all_depth_changes_change_nothing_in_any_order() {
    let rig = Rig::start().await;
    rig.locks.with_lock(KEY, async {}).await.unwrap();
    rig.proxy.on_every(ToServer, EVALSHA, Action::Record);
    let replay_all = async |depth: u64, answer: &[u8]| {
        let recorded = rig.proxy.recorded();
        for change in recorded.iter().skip(1).chain(recorded.iter().rev()) {
            let acquire = std::ptr::eq(change, &raw const recorded[0]);
            let expected = if acquire { b"*4\r\n" } else { answer };
            let heard = rig.proxy.replay(change).await;
            assert!(heard.starts_with(expected), "{}", heard.escape_ascii());
            assert_eq!(rig.depth().await, depth);
        }
    };
    let outer = rig.locks.with_lock(KEY, async {
        for _ in 0..2 {
            let inner = rig.locks.with_lock(KEY, async {
                replay_all(2, b":1").await;
                let innermost = rig
                    .locks
                    .with_lock(KEY, async { replay_all(3, b":1").await });
                innermost.await.unwrap();
                replay_all(2, b":1").await;
            });
            inner.await.unwrap();
            replay_all(1, b":1").await;
        }
        rig.proxy.clear_rules();
    });
    outer.await.unwrap();
    rig.until_free().await;
    for change in rig.proxy.recorded().iter().skip(1) {
        assert_eq!(rig.proxy.replay(change).await, b":0\r\n");
        assert!(
            rig.hash().await.is_empty(),
            "no field is made by a late change"
        );
    }
}

#[tokio::test]
async fn branches_over_a_failing_connection_leave_the_depth_right() {
    let rig = Rig::start().await;
    let outer = rig.locks.with_lock(KEY, async {
        for fault in FAULTS {
            rig.proxy.on_next(ToServer, EVALSHA, fault);
            let branch = || rig.locks.with_lock(KEY, tokio::task::yield_now());
            let (a, b, c) = tokio::join!(branch(), branch(), branch());
            a.and(b).and(c).unwrap();
            rig.until_depth(1).await;
        }
    });
    outer.await.unwrap();
    rig.until_free().await;
}

/// A lease that is renewed after a second, with two seconds to spare.
const RENEWED: Duration = Duration::from_secs(3);

#[tokio::test]
async fn a_renewal_that_goes_wrong_on_its_way_is_made_up_for() {
    let rigs = FAULTS.map(|fault| async move {
        let rig = Rig::with_ttl(RENEWED).await;
        let body = async {
            rig.proxy.on_next(ToServer, EVALSHA, fault);
            rig.proxy.wait_for_hits(1).await;
            let held = reentry::held(KEY).unwrap();
            // At the next renewal at most two thirds are left; a confirmed one gives more.
            let renewed = async || held.remaining() > RENEWED * 4 / 5;
            eventually(DEADLINE, "the lease is renewed", renewed).await;
            assert_eq!(rig.depth().await, 1, "{fault:?}");
            "output"
        };
        assert_eq!(rig.locks.with_lock(KEY, body).await.unwrap(), "output");
        rig.until_free().await;
    });
    futures_util::future::join_all(rigs).await;
}

#[tokio::test]
async fn a_renewal_executed_late_neither_shortens_a_lease_nor_brings_it_back() {
    let rig = Rig::with_ttl(RENEWED).await;
    let minute = Duration::from_secs(60);
    let outer = rig.locks.with_lock(KEY, async {
        rig.proxy.on_next(ToServer, EVALSHA, Action::Record);
        rig.proxy.wait_for_hits(1).await;
        let longer = rig.locks.lock(KEY).ttl(minute);
        longer.run(async {}).await.unwrap();
        assert!(rig.pttl().await > 50_000);
        let renewal = &rig.proxy.recorded()[0];
        assert_eq!(rig.proxy.replay(renewal).await, b":1\r\n");
        assert!(rig.pttl().await > 50_000);
    });
    outer.await.unwrap();
    rig.until_free().await;
    let renewal = &rig.proxy.recorded()[0];
    assert_eq!(rig.proxy.replay(renewal).await, b":0\r\n");
    assert_eq!(rig.depth().await, 0);

    let next = rig.locks.lock(KEY).ttl(minute).await.unwrap();
    assert_eq!(rig.proxy.replay(renewal).await, b":0\r\n", "not its hold");
    next.release().await.unwrap();
}

/// Greeting the server takes longer than the watchdog waits for one renewal: an attempt that gives
/// up must leave its half-made connection to the next.
#[tokio::test]
async fn a_reconnection_slower_than_one_attempt_still_saves_the_lease() {
    let second = Duration::from_secs(1);
    let rig = Rig::build(|builder| builder.ttl(3 * second).response_timeout(second)).await;
    let body = async {
        let late = Duration::from_millis(800);
        rig.proxy.on_every(ToServer, b"HELLO", Action::Delay(late));
        rig.cut().await;
        rig.proxy.wait_for_hits(1).await;
        let executed = rig.executed().await;
        rig.until_executed(executed, 1).await;
    };
    rig.locks.with_lock(KEY, body).await.unwrap();
    rig.until_free().await;
}

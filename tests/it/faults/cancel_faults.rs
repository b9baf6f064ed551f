//! P7, P8: dropping a future of this crate after any poll leaves nothing, also while the request that it
//! has sent is lost, cut off or executed twice.

use crate::support::rig::FAULTS;
use crate::support::sweep::{Ground, KEY, released_at};
use tokio::task::yield_now;

#[tokio::test]
async fn with_lock_may_be_dropped_after_any_poll() {
    for fault in FAULTS {
        let ground = Ground::on_bad_network(fault).await;
        let polls = ground.sweep(|| ground.locks.with_lock(KEY, yield_now()));
        assert!(polls.await >= 2);
    }
}

#[tokio::test]
async fn nested_bodies_may_be_dropped_after_any_poll() {
    for fault in FAULTS {
        let ground = Ground::on_bad_network(fault).await;
        let locks = &ground.locks;
        let nested = || locks.with_lock(KEY, locks.with_lock(KEY, yield_now()));
        assert!(ground.sweep(nested).await >= 2);
    }
}

#[tokio::test]
async fn waiting_may_be_dropped_after_any_poll() {
    for fault in FAULTS {
        let ground = Ground::on_bad_network(fault).await;
        let waiter = || ground.locks.with_lock(KEY, yield_now());
        let swept = ground.sweep_held(|holder| released_at(1, holder, waiter()));
        assert!(swept.await >= 2);
    }
}

#[tokio::test]
async fn a_guard_may_be_dropped_after_any_poll_of_its_life() {
    for fault in FAULTS {
        let ground = Ground::on_bad_network(fault).await;
        let life = || async {
            let guard = ground.locks.lock(KEY).await.unwrap();
            yield_now().await;
            // Without an answer it is told so, and the release goes on by itself.
            drop(guard.release().await);
        };
        assert!(ground.sweep(life).await >= 2);
    }
}

#[tokio::test]
async fn readers_may_be_dropped_after_any_poll() {
    for fault in FAULTS {
        let ground = Ground::on_bad_network(fault).await;
        let locks = &ground.locks;
        let readers = || async {
            let read = || locks.with_read_lock(KEY, yield_now());
            let (one, other) = tokio::join!(read(), read());
            one.and(other)
        };
        assert!(ground.sweep(readers).await >= 2);
    }
}

#[tokio::test]
async fn a_downgrade_may_be_dropped_after_any_poll() {
    for fault in FAULTS {
        let ground = Ground::on_bad_network(fault).await;
        let life = || async {
            let guard = ground.locks.lock(KEY).await.unwrap();
            drop(guard.held().downgrade().await);
            // Without an answer it is told so, and the release goes on by itself.
            drop(guard.release().await);
        };
        assert!(ground.sweep(life).await >= 2);
    }
}

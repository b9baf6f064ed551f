//! P7, P8: futures that are dropped after any poll leave nothing in a server, also while one of their requests is lost,
//! cut off or executed twice. `sweep` of the simulation has more futures, neighbours and faults.

use crate::support::Rig;
use crate::support::proxy::Direction::ToServer;
use crate::support::rig::{EVALSHA, FAULTS, KEY};
use crate::support::sweep::poll_times;
use futures_util::future::join_all;
use tokio::task::yield_now;

/// Each future lives for one poll longer than the one before it, until one completes. The polls are those of real
/// wake-ups.
#[tokio::test]
async fn nested_bodies_may_be_dropped_after_any_poll() {
    let sweeps = FAULTS.map(async |fault| {
        let rig = Rig::start().await;
        for polls in 1.. {
            rig.proxy.on_next(ToServer, EVALSHA, fault);
            let body = rig.locks.with_lock(KEY, yield_now());
            let body = poll_times(polls, rig.locks.with_lock(KEY, body)).await;
            rig.server.until_clean().await;
            rig.proxy.clear_rules();
            if body.is_some() {
                assert!(polls > 1 && rig.proxy.hits() > 0, "{fault:?}");
                break;
            }
        }
    });
    join_all(sweeps).await;
}

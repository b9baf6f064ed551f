//! Futures that are dropped, and runtimes that end, while requests search for their server.

use std::sync::Arc;

use super::kit::{PATIENCE, all_turns, caller, key_on, locks_in, until_nothing_is_left};
use crate::support::sweep::poll_times;
use crate::support::{Cluster, processes, within};

/// The slot has moved since the last request, so the first request is redirected. The future is dropped after each of
/// its polls.
/// polls.
#[tokio::test]
async fn a_caller_that_is_dropped_while_it_is_redirected_leaves_nothing() {
    let cluster = Cluster::start().await;
    let [locks, other] = processes(&locks_in(&cluster)).await;
    let key = key_on(&cluster, 0).await;
    let slot = cluster.slot_of(&key).await;
    locks.with_lock(&key, async {}).await.unwrap();
    for times in 1.. {
        cluster.move_slot(slot, times % 2).await;
        let polled = poll_times(times, locks.with_lock(&key, async {}));
        let polled = within(PATIENCE, "its polls", polled).await;
        all_turns([caller(&other, &key, &Arc::default())]).await;
        if let Some(output) = polled {
            output.unwrap();
            assert!(times > 2, "it waits for its server");
            break;
        }
        all_turns([caller(&locks, &key, &Arc::default())]).await;
    }
    until_nothing_is_left(&cluster).await;
}

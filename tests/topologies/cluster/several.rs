//! Several locks on several nodes, one of which is silent.

use std::time::Duration;

use super::kit::{PATIENCE, keys, locks_in, until_nothing_is_left, until_there, without_failovers};
use crate::support::{processes, within};

#[tokio::test]
async fn a_node_that_is_silent_withholds_neither_output_nor_locks() {
    let cluster = without_failovers().await;
    let [locks, other] = processes(&locks_in(&cluster)).await;
    let keys = keys(&cluster).await;
    let silent = &cluster.nodes[1];
    let body = async {
        silent.pause();
        7
    };
    let body = locks.lock_all(&keys).run(body);
    assert_eq!(within(PATIENCE, "the output", body).await.unwrap(), 7);
    // The others are released in the meantime.
    until_there(&cluster.nodes[0], &keys[0], false).await;
    until_there(&cluster.nodes[2], &keys[2], false).await;

    // A caller that cannot have all of them has none in the end.
    let soon = other.lock_all(&keys).wait(Duration::from_millis(500));
    let error = within(PATIENCE, "the limit", soon.acquire()).await;
    assert!(error.unwrap_err().is_unavailable());
    until_there(&cluster.nodes[0], &keys[0], false).await;
    until_there(&cluster.nodes[2], &keys[2], false).await;

    let waiting = other.lock_all(&keys);
    let waiting = tokio::spawn(waiting.run(async { 8 }));
    silent.resume();
    let output = within(PATIENCE, "all locks", waiting).await.unwrap();
    assert_eq!(output.unwrap(), 8);
    until_nothing_is_left(&cluster).await;
}

//! Messages reach the waiters wherever their inbox is, and the inbox moves when its node is unavailable.

use std::sync::Arc;

use super::kit::{
    PATIENCE, all_turns, another_key_on, caller, key_on, keys, locks_in, patient_in, scripts,
    until_nothing_is_left, until_queued, without_failovers,
};
use crate::support::turns::RARELY;
use crate::support::{Cluster, Section, eventually, processes};
use futures_util::future::join_all;
use reentry::{LockGuard, Locks};
use tokio::task::JoinHandle;

/// The running nodes at which this inbox listens.
async fn nodes_of(cluster: &Cluster, inbox: &str) -> Vec<usize> {
    let count = async |(place, node): (usize, &crate::support::RedisServer)| {
        let listens = async || node.subscriptions().await.iter().any(|it| it == inbox);
        let is_there = node.is_running() && listens().await;
        is_there.then_some(place)
    };
    let nodes = cluster.nodes.iter().enumerate().map(count);
    join_all(nodes).await.into_iter().flatten().collect()
}

/// One waiter at a lock on another node than that of its inbox.
struct Apart {
    holder: LockGuard,
    waiting: JoinHandle<()>,
    section: Arc<Section>,
    /// The node of the lock.
    lock: usize,
    /// The node of the inbox, and its channel.
    inbox: usize,
    channel: String,
}

/// Each process has a connection to each primary, which has run a script.
async fn connect_everywhere(cluster: &Cluster, processes: [&Locks; 2]) {
    for key in keys(cluster).await {
        for locks in processes {
            locks.with_lock(&key, async {}).await.unwrap();
        }
    }
}

/// A first waiter, for another lock, shows which inbox is that of its process.
async fn apart(cluster: &Cluster, holder: &Locks, waiter: &Locks) -> Apart {
    let section = Arc::<Section>::default();
    let first = another_key_on(cluster, 0, 1).await;
    let opener = holder.lock(&first).await.unwrap();
    let opening = caller(waiter, &first, &section);
    until_queued(&cluster.nodes[0], &first, 1).await;
    let waiting = format!("ZRANGE reentry:queue:{{{first}}}:{first} 0 -1");
    let channel = cluster.nodes[0].ask(&waiting).await;
    let mut found = Vec::new();
    let opened = async || {
        found = nodes_of(cluster, &channel).await;
        found.len() == 1
    };
    eventually(PATIENCE, "the inbox is open", opened).await;
    let inbox = found[0];
    let lock = if inbox == 1 { 2 } else { 1 };
    let key = key_on(cluster, lock).await;
    let held = holder.lock(&key).await.unwrap();
    let waiting = caller(waiter, &key, &section);
    until_queued(&cluster.nodes[lock], &key, 1).await;
    opener.release().await.unwrap();
    all_turns([opening]).await;
    assert_eq!(nodes_of(cluster, &channel).await, [inbox]);
    Apart {
        holder: held,
        waiting,
        section,
        lock,
        inbox,
        channel,
    }
}

/// Waits until an inbox is open on another node.
async fn until_moved(cluster: &Cluster, apart: &Apart) {
    let moved = async || {
        let nodes = nodes_of(cluster, &apart.channel).await;
        nodes.iter().any(|&node| node != apart.inbox)
    };
    eventually(PATIENCE, "the inbox is open elsewhere", moved).await;
}

/// Heartbeats are rare, so the lock would not arrive otherwise within the test. The waiter has not sent a request
/// either.
#[tokio::test]
async fn a_hand_off_message_arrives_from_another_node() {
    let cluster = without_failovers().await;
    let [holder, waiter] = processes(&patient_in(&cluster).__heartbeat(RARELY)).await;
    // A waiter on a connection that is opened for its request would send one more.
    connect_everywhere(&cluster, [&holder, &waiter]).await;
    let apart = apart(&cluster, &holder, &waiter).await;
    let before = scripts(&cluster.nodes[apart.lock]).await;
    apart.holder.release().await.unwrap();
    all_turns([apart.waiting]).await;
    assert_eq!(apart.section.visits(), 2);
    // These are the two releases.
    assert_eq!(scripts(&cluster.nodes[apart.lock]).await - before, 2);
    until_nothing_is_left(&cluster).await;
}

/// The end of the inbox is noticed. The lock is not on that node, and a message hands it off.
#[tokio::test]
async fn an_inbox_whose_node_dies_is_opened_elsewhere() {
    let cluster = Cluster::start().await;
    let [holder, waiter] = processes(&locks_in(&cluster).__heartbeat(RARELY)).await;
    let apart = apart(&cluster, &holder, &waiter).await;
    cluster.nodes[apart.inbox].stop();
    until_moved(&cluster, &apart).await;
    apart.holder.release().await.unwrap();
    all_turns([apart.waiting]).await;
    assert_eq!(apart.section.visits(), 2);
    until_nothing_is_left(&cluster).await;
}

/// The waiter's process holds locks on all nodes.
#[tokio::test]
async fn the_end_of_an_inbox_verifies_the_holds() {
    let cluster = without_failovers().await;
    let [holder, waiter] = processes(&patient_in(&cluster).__heartbeat(RARELY)).await;
    connect_everywhere(&cluster, [&holder, &waiter]).await;
    let mut held = Vec::new();
    for node in 0..3 {
        let key = another_key_on(&cluster, node, 2).await;
        held.push(waiter.lock(&key).await.unwrap());
    }
    let apart = apart(&cluster, &holder, &waiter).await;
    let count = async || {
        let scripts = cluster.nodes.iter().take(3).map(scripts);
        join_all(scripts).await
    };
    let before = count().await;
    let there = cluster.nodes[apart.inbox].subscriptions().await.len();
    assert_eq!(cluster.nodes[apart.inbox].kill_inboxes().await, there);
    let verified = async || count().await[apart.inbox] > before[apart.inbox];
    eventually(PATIENCE, "the hold there is verified", verified).await;
    let opened = async || nodes_of(&cluster, &apart.channel).await.len() == 1;
    eventually(PATIENCE, "the inbox is open again", opened).await;
    // The waiter has sent one request, because it may have missed a message.
    let asked = async || count().await[apart.lock] > before[apart.lock];
    eventually(PATIENCE, "the waiter has asked", asked).await;
    apart.holder.release().await.unwrap();
    all_turns([apart.waiting]).await;
    for guard in held {
        guard.release().await.unwrap();
    }
    until_nothing_is_left(&cluster).await;
}

//! A slot moves to another node while its locks are held, renewed, nested, waited for and released.

use std::sync::Arc;

use super::kit::{
    PATIENCE, all_turns, another_key_on, asking, caller, cut_lease, errors, is_renewed, key_on,
    locks_in, until_error, until_nothing_is_left, until_queued, until_renewed, until_there,
};
use crate::support::{Cluster, Section, depths, eventually, processes, within};
use reentry::{LockError, Locks};
use tokio::task::JoinHandle;

/// The target of all moves, and the node that has the slots before them.
const FROM: usize = 0;
const TO: usize = 1;

/// A lock with waiters in two processes, whose body ends on a signal. Its output is 7.
async fn contended(
    cluster: &Cluster,
    [locks, other]: &[Locks; 2],
    key: &str,
    section: &Arc<Section>,
) -> (
    tokio::sync::oneshot::Sender<()>,
    JoinHandle<Result<u32, LockError>>,
    [JoinHandle<()>; 2],
) {
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let body = async {
        let _ = ended.await;
        7
    };
    let body = tokio::spawn(locks.with_lock(key, body));
    until_there(&cluster.nodes[FROM], key, true).await;
    let waiting = [other, locks].map(|locks| caller(locks, key, section));
    until_queued(&cluster.nodes[FROM], key, 2).await;
    (end, body, waiting)
}

/// The lock is on the new node, and its line on the old one. So each script that needs both gets the error to try
/// again.
#[tokio::test]
async fn requests_wait_while_the_keys_of_a_lock_are_in_two_nodes() {
    let cluster = Cluster::start().await;
    let processes = processes(&locks_in(&cluster)).await;
    let key = key_on(&cluster, FROM).await;
    let (old, new) = (&cluster.nodes[FROM], &cluster.nodes[TO]);
    let section = Arc::<Section>::default();
    let (end, body, waiting) = contended(&cluster, &processes, &key, &section).await;
    cut_lease(old, &key).await;
    let moving = cluster.begin_move(cluster.slot_of(&key).await, TO).await;
    moving.move_keys(&[&key]).await;
    let [locks, _] = &processes;
    // Before 7.0 the old node redirects them to the new one, which returns that error.
    let both = [old, new];
    until_error(&both, "TRYAGAIN", 0).await;
    // One of these processes would remember the holder, and report that the lock is busy.
    let operator = locks_in(&cluster).build().await.unwrap();
    let refused = [
        operator.lock(&key).no_wait().acquire().await.map(drop),
        operator.admin().inspect(&key).await.map(drop),
        operator.admin().force_release(&key).await.map(drop),
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        assert!(error.is_unavailable(), "{error:?}");
    }
    assert!(old.kill_command_connections().await > 0);
    let renewed = async || is_renewed(asking(new, "PTTL", &key).await);
    eventually(PATIENCE, "it is renewed at the new node", renewed).await;

    // P13: the release gets the error to try again, and continues in the background.
    let before = errors(&both, "TRYAGAIN").await;
    end.send(()).unwrap();
    let output = within(PATIENCE, "the output", body).await.unwrap();
    assert_eq!(output.unwrap(), 7);
    until_error(&both, "TRYAGAIN", before).await;
    assert_eq!(section.visits(), 0, "the lock is not released yet");
    assert_eq!(asking::<u32>(new, "EXISTS", &key).await, 1);
    let late = caller(locks, &key, &section);
    moving.move_all_keys().await;
    moving.finish().await;
    all_turns(waiting.into_iter().chain([late])).await;
    assert_eq!(section.visits(), 3);
    until_nothing_is_left(&cluster).await;
}

/// All keys of the lock are still on the old node. The release deletes the lock, and then may not create it again for
/// the next holder. It is aborted, or hands the lock to no process.
#[tokio::test]
async fn a_release_that_is_broken_off_loses_no_waiter() {
    let cluster = Cluster::start().await;
    let processes = processes(&locks_in(&cluster)).await;
    for shared in [false, true] {
        is_broken_off(&cluster, &processes, shared).await;
    }
}

async fn is_broken_off(cluster: &Cluster, [locks, other]: &[Locks; 2], shared: bool) {
    let key = another_key_on(cluster, FROM, usize::from(shared)).await;
    let old = &cluster.nodes[FROM];
    let section = Arc::<Section>::default();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let body = async {
        let _ = ended.await;
        7
    };
    let request = if shared {
        locks.lock(&key).read()
    } else {
        locks.lock(&key)
    };
    let body = tokio::spawn(request.run(body));
    until_there(old, &key, true).await;
    let waiting = [other, locks].map(|locks| caller(locks, &key, &section));
    // A reader inside has an entry of its own in the line.
    until_queued(old, &key, 2 + u64::from(shared)).await;
    let moving = cluster.begin_move(cluster.slot_of(&key).await, TO).await;
    end.send(()).unwrap();
    let output = within(PATIENCE, "the output", body).await.unwrap();
    assert_eq!(output.unwrap(), 7);
    until_there_no_more(old, &key).await;
    assert_eq!(section.visits(), 0, "no process has the lock");
    moving.move_all_keys().await;
    moving.finish().await;
    all_turns(waiting).await;
    assert_eq!(section.visits(), 2);
    until_nothing_is_left(cluster).await;
}

/// The request names all keys of the slot. A key that does not exist counts as moved to the new node.
async fn until_there_no_more(old: &crate::support::RedisServer, key: &str) {
    let count = format!("EXISTS {key}");
    let gone = async || {
        let answer = old.try_ask(&count).await;
        answer.is_err_and(|error| error.to_string().contains("ASK"))
    };
    eventually(PATIENCE, "the lock is deleted", gone).await;
}

/// A whole move with traffic all the time: no overlap, and every caller enters.
#[tokio::test]
async fn callers_take_turns_while_their_slot_moves_to_and_fro() {
    let cluster = Cluster::start().await;
    let processes: [_; 2] = processes(&locks_in(&cluster)).await;
    let key = key_on(&cluster, FROM).await;
    let slot = cluster.slot_of(&key).await;
    let section = Arc::<Section>::default();
    let callers = |_| {
        processes.each_ref().map(|locks| {
            let (locks, key, section) = (locks.clone(), key.clone(), Arc::clone(&section));
            tokio::spawn(async move {
                for _ in 0..20 {
                    let turn = locks.with_lock(&key, section.visit());
                    turn.await.expect("its turn");
                }
            })
        })
    };
    let callers: Vec<_> = (0..3).flat_map(callers).collect();
    for (to, turns) in [(TO, 5), (FROM, 40), (2, 70)] {
        let under_way = async || section.visits() >= turns;
        eventually(PATIENCE, "the turns go on", under_way).await;
        cluster.move_slot(slot, to).await;
    }
    all_turns(callers).await;
    assert_eq!(section.visits(), 120);
    until_nothing_is_left(&cluster).await;
}

/// The move takes one step if the server can do that: Valkey 9.0 and Redis 8.4. Any other server takes all steps, so
/// that the test covers its last step. `REENTRY_SERVER` names the server.
#[tokio::test]
async fn a_lock_stays_held_when_its_slot_moves_at_once() {
    let cluster = Cluster::start().await;
    let processes = processes(&locks_in(&cluster)).await;
    let key = key_on(&cluster, FROM).await;
    let slot = cluster.slot_of(&key).await;
    let section = Arc::<Section>::default();
    let (end, body, waiting) = contended(&cluster, &processes, &key, &section).await;
    if !cluster.move_slot_at_once(slot, TO).await {
        println!("this server moves slots in steps alone, and is tested with these");
        cluster.move_slot(slot, TO).await;
    }
    let new = &cluster.nodes[TO];
    cut_lease(new, &key).await;
    // A request is redirected by the move, and then the hold is verified at its new place.
    let [locks, other] = &processes;
    assert!(depths(locks, &key).await == [1] && depths(other, &key).await == [1]);
    until_renewed(new, &key).await;
    end.send(()).unwrap();
    let output = within(PATIENCE, "the output", body).await.unwrap();
    assert_eq!(output.unwrap(), 7);
    all_turns(waiting).await;
    until_nothing_is_left(&cluster).await;
}

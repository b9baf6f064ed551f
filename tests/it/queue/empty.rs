//! P7 in numbers: when the last caller has left thousands of queues, nothing of them is left. No waiter needs more than
//! one subscription for them.

use crate::support::{DEADLINE, RedisServer, eventually, processes, unhurried, within};
use reentry::{LockGuard, Locks};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

fn name(number: usize) -> String {
    format!("order:{number}")
}

fn alive() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// Does `work` for all keys in parallel, and waits for all of them. Returns the results by key.
async fn for_all<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    works: impl Iterator<Item = F>,
) -> Vec<T> {
    let mut tasks: JoinSet<T> = works.collect();
    let mut outputs = Vec::new();
    let all = async {
        while let Some(output) = tasks.join_next().await {
            outputs.push(output.unwrap());
        }
    };
    within(3 * DEADLINE, "all of them", all).await;
    outputs
}

async fn hold_all(locks: &Locks, keys: usize) -> Vec<LockGuard> {
    let hold = |key| {
        let locks = locks.clone();
        async move { locks.lock(name(key)).await.unwrap() }
    };
    for_all((0..keys).map(hold)).await
}

async fn release_all(guards: Vec<LockGuard>) {
    let release = |guard: LockGuard| async move { guard.release().await.unwrap() };
    for_all(guards.into_iter().map(release)).await;
}

/// A caller waits for each key in each of `processes`.
fn wait_for_all(processes: &[Locks], keys: usize) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for key in 0..keys {
        for locks in processes {
            let locks = locks.clone();
            tasks.spawn(async move { locks.with_lock(name(key), async {}).await.unwrap() });
        }
    }
    tasks
}

async fn all(mut tasks: JoinSet<()>) {
    let all = async { while tasks.join_next().await.transpose().unwrap().is_some() {} };
    within(3 * DEADLINE, "all have their turns", all).await;
}

#[tokio::test]
async fn thousands_of_queues_need_one_subscription_each_process_and_leave_nothing_behind() {
    const KEYS: usize = 2_000;
    let server = RedisServer::start().await;
    let [holder] = processes(&unhurried(&server)).await;
    let waiting: [Locks; 4] = processes(&unhurried(&server)).await;
    for locks in waiting.iter().chain([&holder]) {
        locks.with_lock("first", async {}).await.unwrap();
    }
    server.until_listening(5).await;
    let before = alive();
    let guards = hold_all(&holder, KEYS).await;
    let calls = server.commandstats().await;
    let tasks = wait_for_all(&waiting, KEYS);
    // Each lock has a hash, and each line has two more keys.
    let queued = async || server.key_count().await == 3 * KEYS;
    eventually(3 * DEADLINE, "a queue at each lock", queued).await;
    release_all(guards).await;
    all(tasks).await;
    assert_eq!(server.calls_since(&calls).await.get("subscribe"), None);

    let empty = async || server.key_count().await == 0;
    eventually(DEADLINE, "no key is left", empty).await;
    let ended = async || alive() <= before;
    eventually(DEADLINE, "no task is left", ended).await;
}

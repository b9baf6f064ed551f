//! P1, P9 and P11 when the server goes down while a queue exists. With or without its data, all waiters enter, one
//! after the other.

use std::sync::Arc;
use std::time::Duration;

use crate::support::rig::KEY;
use crate::support::turns::TTL;
use crate::support::{
    DEADLINE, RedisServer, Section, eventually, patient, processes, queued, waiters, within,
};
use reentry::__admin::Ids as _;
use reentry::{Locks, LocksBuilder, held};
use tokio::task::JoinSet;

/// The waiters of both processes.
const EACH: usize = 25;

fn builder(server: &RedisServer) -> LocksBuilder {
    let builder = patient(server).ttl(TTL);
    builder.__heartbeat(Duration::from_millis(500)).turns(4)
}

/// Lets the waiters of both processes join. Each of them checks in the store, during its turn, whether it is really the
/// holder of the lock.
async fn crowd(section: &Arc<Section>, processes: [&Locks; 2]) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for locks in processes {
        for _ in 0..EACH {
            let (locks, section) = (locks.clone(), Arc::clone(section));
            tasks.spawn(async move {
                let visit = section.visit_until(async {
                    let ours = held(KEY).unwrap();
                    let info = locks.admin().inspect(KEY).await.unwrap();
                    let info = info.expect("a lock that is held");
                    let [holder] = &info.holders[..] else {
                        panic!("not one holder, but {info:?}");
                    };
                    assert_eq!(holder.hold_id, ours.hold_id().to_string());
                    assert_eq!(info.token, Some(ours.fencing_token()));
                    assert!(!ours.is_lost());
                });
                locks.with_lock(KEY, visit).await.unwrap();
            });
        }
        let wait = async || waiters(locks, KEY).await == Some(EACH);
        eventually(DEADLINE, "all of them wait", wait).await;
    }
    tasks
}

async fn all(mut tasks: JoinSet<()>) {
    let all = async { while tasks.join_next().await.transpose().unwrap().is_some() {} };
    within(2 * DEADLINE, "all have their turns", all).await;
}

#[tokio::test]
async fn waiters_outlive_a_restart_and_the_holder_keeps_its_lock() {
    let server = RedisServer::start().await;
    let [holder, one, other] = processes(&builder(&server)).await;
    let (section, guard) = (Arc::default(), holder.lock(KEY).await.unwrap());
    let tasks = crowd(&section, [&one, &other]).await;
    for _ in 0..2 {
        server.restart_with_data().await;
        // All have a connection again, including the waiters.
        let both = async || queued(&server).await == 2;
        eventually(DEADLINE, "both processes stand in the queue", both).await;
        let info = holder.admin().inspect(KEY).await.unwrap().unwrap();
        assert_eq!(info.token, Some(guard.held().fencing_token()));
        assert!(!guard.held().is_lost() && section.visits() == 0);
    }
    guard.release().await.unwrap();
    all(tasks).await;
    assert_eq!(section.visits(), 50);
}

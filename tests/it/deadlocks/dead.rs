//! A process that dies while it waits inside of a lock.

use std::time::Duration;

use crate::support::turns::processes;
use crate::support::{
    Child, DEADLINE, RedisServer, child, eventually, patient, patient_at, within,
};
use redis::AsyncCommands;
use reentry::Locks;

/// A lease that the test waits for.
const TTL: Duration = Duration::from_secs(3);
const LONG: Duration = Duration::from_secs(600);

/// Holds "b", and waits for "a" inside of it.
#[tokio::test]
async fn child_that_waits_inside() {
    let Some(role) = child::role("child_that_waits_inside") else {
        return;
    };
    let locks = patient_at(role.var("REDIS_URL")).ttl(TTL).build().await;
    let locks = locks.unwrap();
    let inner = locks.lock("a").wait(LONG).run(async {});
    let waited = locks.lock("b").run_flat(inner).await;
    unreachable!("it is killed before: {waited:?}");
}

/// Its record is still there when the other process begins to wait for the lock that it held, and closes a ring
/// that there never was.
#[tokio::test]
async fn a_record_of_a_process_that_has_died_makes_nobody_a_victim() {
    let server = RedisServer::start().await;
    let [locks]: [Locks; 1] = processes(&patient(&server).ttl(TTL)).await;
    let outer = locks.lock("a").await.unwrap();
    let url = server.url();
    let variables = [("REDIS_URL", &*url)];
    let mut dead = Child::spawn(module_path!(), "child_that_waits_inside", &variables);
    let mut connection = server.connection().await;
    let published = async || {
        let records: Vec<String> = connection.keys("reentry:waits:*").await.unwrap();
        records.len() == 1
    };
    eventually(DEADLINE, "its record", published).await;
    dead.sigkill();
    // It gets in when the lease of the dead one has ended.
    let inner = outer.scope(locks.lock("b").wait(LONG).run(async {}));
    within(DEADLINE, "its turn", inner).await.unwrap().unwrap();
    outer.release().await.unwrap();
}

//! The holder of a lock: the process that a record in the store describes. Nothing depends on the
//! record.

use std::time::Duration;

use crate::support::{DEADLINE, RedisServer, eventually, patient};
use reentry::__admin::Ids as _;
use reentry::admin::Process;
use reentry::{LockError, Locks};

/// An owner whose process is [`RECORD`].
const HOLD: &str = "0a1b2c3d-4e5f-4000-8000-000000000000:1";

const RECORD: &str = "reentry:process:0a1b2c3d4e5f";

const TEXT: &str = "orders\\nworker-3\\n4711\\n0.1.0\\n1790000000";

/// A lock that another process holds.
async fn held_elsewhere(server: &RedisServer) {
    server.ask(&format!("HSET order:42 {HOLD} 1")).await;
    server.ask("PEXPIRE order:42 60000").await;
}

/// The process that each way of inspection returns.
async fn seen(locks: &Locks) -> [Option<Process>; 2] {
    let inspected = locks.admin().inspect("order:42").await.unwrap().unwrap();
    let late = locks.lock("order:42").wait(Duration::from_secs(1)).await;
    let Err(LockError::Busy { holder, .. }) = late else {
        panic!("{late:?}");
    };
    [
        inspected.holders[0].process.clone(),
        holder.unwrap().process,
    ]
}

#[tokio::test]
async fn another_process_is_shown_as_it_has_described_itself() {
    let server = RedisServer::start().await;
    let locks = patient(&server).build().await.unwrap();
    held_elsewhere(&server).await;
    server.ask(&format!("SET {RECORD} \"{TEXT}\"")).await;
    for process in seen(&locks).await {
        let process = process.expect("it is known");
        assert_eq!(process.to_string(), "orders, pid 4711 on worker-3");
        assert_eq!(process.version, "0.1.0");
    }
    let late = locks.lock("order:42").wait(Duration::from_secs(1)).await;
    let said = late.unwrap_err().to_string();
    let holder = format!("held by orders, pid 4711 on worker-3 ({HOLD})");
    assert!(said.contains(&holder), "{said}");
}

#[tokio::test]
async fn a_record_that_is_missing_or_cannot_be_read_leaves_the_id() {
    let server = RedisServer::start().await;
    let locks = patient(&server).build().await.unwrap();
    held_elsewhere(&server).await;
    for made in ["DEL RECORD", "SET RECORD text", "HSET RECORD name orders"] {
        server.ask(&format!("DEL {RECORD}")).await;
        server.ask(&made.replace("RECORD", RECORD)).await;
        assert_eq!(seen(&locks).await, [const { None }; 2], "{made}");
    }
}

/// The keys of the processes that have described themselves.
async fn records(server: &RedisServer) -> Vec<String> {
    let keys = server.ask("KEYS reentry:process:*").await;
    keys.lines().map(str::to_owned).collect()
}

async fn until_described(server: &RedisServer) {
    let is_there = async || !records(server).await.is_empty();
    eventually(DEADLINE, "the process is described", is_there).await;
}

#[tokio::test]
async fn a_process_has_one_record_that_lives_a_day_and_comes_back() {
    let server = RedisServer::start().await;
    let locks = patient(&server).build().await.unwrap();
    let others = patient(&server).build().await.unwrap();
    until_described(&server).await;
    let [record] = &records(&server).await[..] else {
        panic!("one process");
    };
    let left: u64 = server.ask(&format!("PTTL {record}")).await.parse().unwrap();
    let day = 24 * 60 * 60 * 1_000;
    assert!(left <= day && left > day - 60_000, "{left}");
    let text = server.ask(&format!("GET {record}")).await;
    assert_eq!(text.lines().nth(2), Some(&*std::process::id().to_string()));
    // An owner of this process names the record.
    let guard = locks.lock("order:42").await.unwrap();
    let owner = guard.held().owner().to_string().replace('-', "");
    assert_eq!(*record, format!("reentry:process:{}", &owner[..12]));
    let info = others.admin().inspect("order:42").await.unwrap().unwrap();
    assert_eq!(
        info.holders[0].process.as_ref().unwrap().pid,
        std::process::id()
    );
    drop(guard);

    server.ask("FLUSHALL").await;
    server.kill_command_connections().await;
    let is_back = async || {
        // A request opens the next connection.
        let _ = locks.admin().inspect("order:42").await;
        records(&server).await == [record.clone()]
    };
    eventually(DEADLINE, "the next connection describes it", is_back).await;
}

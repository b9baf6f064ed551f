//! A server that responds, but grants no lock: the run ends with the error of the server, and does not wait.

use crate::program::{Running, reentry_for, script_at, with_errors};
use crate::support::RedisServer;

/// The exit code, and the output.
async fn refused(url: &str, keys: &[&str]) -> (Option<i32>, String) {
    let keys = keys.iter().flat_map(|key| ["--key", key]);
    let words: Vec<_> = ["run"]
        .into_iter()
        .chain(keys)
        .chain(["--", "true"])
        .collect();
    let mut run = Running::start(&mut with_errors(&reentry_for(url, &words)));
    (run.code().await, run.rest().await.concat())
}

/// One key, several keys, and a lock that another holder has.
const WISHES: [&[&str]; 3] = [&["a"], &["b", "c"], &["held"]];

/// A server with a lock that a program holds for a long time.
async fn server() -> RedisServer {
    let server = RedisServer::start().await;
    let held = "HSET held 8b1c1a3e-0000-4000-8000-000000000000:1 1";
    server.ask(held).await;
    server.ask("PEXPIRE held 3600000").await;
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reason_of_a_server_that_rejects_writes_is_named_at_once() {
    for (command, said) in [
        ("CONFIG SET maxmemory 1", "OOM"),
        ("CONFIG SET min-replicas-to-write 1", "NOREPLICAS"),
        // It keeps its data: no server listens there.
        ("REPLICAOF 127.0.0.1 1", "read only replica"),
    ] {
        let server = server().await;
        server.ask(command).await;
        for keys in WISHES {
            let (code, err) = refused(&server.url(), keys).await;
            assert_eq!(code, Some(122), "{keys:?}: {err}");
            assert!(err.contains(said), "{keys:?}: {err}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_run_names_the_holder_and_reports_failures() {
    let server = server().await;
    let waits = script_at(&server, &["--key", "held", "--timeout", "1h"], "true");
    let mut run = Running::start(&mut with_errors(&waits));
    let said = run.line().await;
    assert!(
        said.starts_with("reentry: waiting for `held`, held by 8b1c1a3e"),
        "{said}"
    );
    // The first response was that another holder has the lock, so the run continues.
    server.ask("CONFIG SET min-replicas-to-write 1").await;
    let said = run.line().await;
    assert!(said.contains("NOREPLICAS"), "{said}");
    server.ask("CONFIG SET min-replicas-to-write 0").await;
    server.ask("DEL held").await;
    assert_eq!(run.code().await, Some(0));
    assert_eq!(run.rest().await, [""; 0]);
}

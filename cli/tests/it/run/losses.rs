//! The lock is lost, or `reentry run` itself is killed: the command ends with all its processes.

use std::process::Command;

use crate::program::{Running, locks_at, script_at};
use crate::support::server::RedisServer;
use crate::support::wait::{DEADLINE, eventually};

/// A command with a child, a grandchild, and an orphan.
const FAMILY: &str = "(sh -c 'sleep 1000; true' &); (sleep 1000; true) & echo up; wait";

#[tokio::test]
async fn a_command_that_lost_its_lock_ends_with_all_its_processes() {
    let server = RedisServer::start().await;
    let locks = locks_at(&server).await;
    for cause in ["flushed", "forced", "stopped"] {
        let mut command = script_at(&server, &["-k", "a", "--ttl", "2s"], FAMILY);
        let mut run = Running::start(&mut command);
        run.says("up").await;
        match cause {
            "flushed" => drop(server.ask("FLUSHALL").await),
            "forced" => assert!(locks.admin().force_release("a").await.unwrap()),
            _ => server.stop(),
        }
        assert_eq!(run.code().await, Some(123));
        assert_eq!(run.rest().await, [""; 0]);
    }
}

#[tokio::test]
async fn a_command_may_clean_up_after_a_loss() {
    let server = RedisServer::start().await;
    let locks = locks_at(&server).await;
    let script = "trap 'echo cleaned; exit 0' TERM; echo up; while :; do sleep 0.05; done";
    let mut run = Running::start(&mut script_at(
        &server,
        &["-k", "a", "--grace", "1h"],
        script,
    ));
    run.says("up").await;
    locks.admin().force_release("a").await.unwrap();
    run.says("cleaned").await;
    // Whatever the exit code of the command is.
    assert_eq!(run.code().await, Some(123));
}

#[tokio::test]
async fn a_command_that_ignores_sigterm_is_killed_after_the_grace() {
    let server = RedisServer::start().await;
    let locks = locks_at(&server).await;
    let script = "trap '' TERM; sleep 1000 & echo up; while :; do sleep 1000; done";
    let options = ["-k", "a", "--grace", "50ms"];
    let mut run = Running::start(&mut script_at(&server, &options, script));
    run.says("up").await;
    locks.admin().force_release("a").await.unwrap();
    assert_eq!(run.code().await, Some(123));
    assert_eq!(run.rest().await, [""; 0]);
}

/// Another process may have worked under the lock since, so the result of the command is not valid.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_command_that_outlived_the_lease_of_a_stopped_run_counts_as_lost() {
    let server = RedisServer::start().await;
    let locks = locks_at(&server).await;
    let options = ["-k", "a", "--ttl", "1s"];
    let script = "echo $$; read line; exit 0";
    let mut run = Running::start(&mut script_at(&server, &options, script));
    let command = run.line().await;
    run.signal(rustix::process::Signal::STOP);
    let next = locks.lock("a").wait(DEADLINE).acquire().await.unwrap();
    drop(run.input.take());
    let has_ended = async || {
        let stat = std::fs::read_to_string(format!("/proc/{command}/stat")).unwrap();
        stat.contains(") Z ")
    };
    eventually(DEADLINE, "the command ends", has_ended).await;
    run.signal(rustix::process::Signal::CONT);
    assert_eq!(run.code().await, Some(123));
    assert!(!next.held().is_lost());
    next.release().await.unwrap();
}

/// The renewals are far apart, so the release is the first request that detects the loss.
#[tokio::test]
async fn a_loss_that_only_the_release_finds_is_reported() {
    let server = RedisServer::start().await;
    let options = ["-k", "a", "--ttl", "1h"];
    let script = "echo up; read line; exit 0";
    let mut run = Running::start(&mut script_at(&server, &options, script));
    run.says("up").await;
    server.ask("FLUSHALL").await;
    drop(run.input.take());
    assert_eq!(run.code().await, Some(123));
}

/// The lease continues for a while. The command must not continue for longer.
#[tokio::test]
async fn a_killed_run_ends_its_command() {
    let server = RedisServer::start().await;
    let ignoring = "trap '' TERM; sleep 1000 & echo up; while :; do sleep 1000; done";
    for script in [FAMILY, ignoring] {
        let options = ["-k", script, "--grace", "50ms"];
        let mut run = Running::start(&mut script_at(&server, &options, script));
        run.says("up").await;
        run.kill();
        assert_eq!(run.rest().await, [""; 0]);
    }
}

/// The grace period for a lost lock does not apply here, because nothing renews the lease.
#[tokio::test]
async fn a_run_that_was_killed_leaves_its_command_no_longer_than_the_lease() {
    let server = RedisServer::start().await;
    let script = "trap '' TERM; echo up; while :; do sleep 0.05; done";
    let options = ["-k", "a", "--ttl", "3s", "--grace", "1h"];
    let mut run = Running::start(&mut script_at(&server, &options, script));
    run.says("up").await;
    run.kill();
    assert_eq!(run.rest().await, [""; 0]);
}

/// For example, a program that monitors the run, or one that got the hold as an argument.
#[tokio::test]
async fn a_loss_ends_no_process_that_only_mentions_the_hold() {
    let server = RedisServer::start().await;
    let locks = locks_at(&server).await;
    let script = r#"echo "$REENTRY_HOLD"; exec sleep 1000"#;
    let mut run = Running::start(&mut script_at(&server, &["-k", "a"], script));
    let hold = run.line().await;
    let mut other = Command::new("sh");
    other.args(["-c", "read line; echo alive"]);
    other.env("NOTE", format!("watches REENTRY_HOLD={hold}"));
    let mut other = Running::start(&mut other);
    assert!(locks.admin().force_release("a").await.unwrap());
    assert_eq!(run.code().await, Some(123));
    drop(other.input.take());
    other.says("alive").await;
}

//! The lock is lost, or `reentry run` itself is killed: the command ends, with all that it has started.

use crate::{
    program::{Running, locks_at, script_at},
    support::server::RedisServer,
};

/// With a child, a child of it, and one whose parent has ended.
const FAMILY: &str = "(sh -c 'sleep 1000; true' &); (sleep 1000; true) & echo up; wait";

#[tokio::test]
async fn a_command_that_lost_its_lock_ends_with_all_its_processes() {
    let server = RedisServer::start().await;
    let locks = locks_at(&server).await;
    for flush in [true, false] {
        let mut command = script_at(&server, &["-k", "a", "--ttl", "3s"], FAMILY);
        let mut run = Running::start(&mut command);
        run.says("up").await;
        if flush {
            server.ask("FLUSHALL").await;
        } else {
            assert!(locks.force_release("a").await.unwrap());
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
    locks.force_release("a").await.unwrap();
    run.says("cleaned").await;
    // Whatever it says itself.
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
    locks.force_release("a").await.unwrap();
    assert_eq!(run.code().await, Some(123));
    assert_eq!(run.rest().await, [""; 0]);
}

#[tokio::test]
async fn a_command_that_is_stopped_is_ended_too() {
    let server = RedisServer::start().await;
    let locks = locks_at(&server).await;
    let script = "echo up; kill -STOP $$";
    let options = ["-k", "a", "--grace", "1h"];
    let mut run = Running::start(&mut script_at(&server, &options, script));
    run.says("up").await;
    locks.force_release("a").await.unwrap();
    assert_eq!(run.code().await, Some(123));
}

#[tokio::test]
async fn a_server_that_goes_away_takes_the_lock_with_it() {
    let server = RedisServer::start().await;
    let mut run = Running::start(&mut script_at(&server, &["-k", "a", "--ttl", "2s"], FAMILY));
    run.says("up").await;
    server.stop();
    assert_eq!(run.code().await, Some(123));
    assert_eq!(run.rest().await, [""; 0]);
}

/// The lease goes on for a while; the command must not go on for longer.
#[tokio::test]
async fn a_run_that_was_killed_takes_its_command_along() {
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

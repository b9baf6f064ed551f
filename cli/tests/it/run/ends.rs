//! The exit codes of `reentry run`, and what passes through it.

use std::io::Write;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use crate::program::{
    Running, behind, ended, ended_of, locks_at, reentry_at, script_at, with_errors,
};
use crate::support::server::RedisServer;
use crate::support::wait::DEADLINE;

#[tokio::test]
async fn the_code_of_the_command_is_that_of_the_run() {
    let server = RedisServer::start().await;
    for code in [0, 1, 7, 124, 255] {
        let script = format!("exit {code}");
        let ended = ended_of(&mut script_at(&server, &["--key", "a"], &script));
        assert_eq!((ended.code, &*ended.err), (Some(code), ""));
    }
    assert_eq!(server.leftovers().await, [""; 0]);
}

#[tokio::test]
async fn a_command_that_was_killed_gives_128_and_the_signal() {
    let server = RedisServer::start().await;
    let script = "echo $$; sleep 1000 & wait";
    let mut run = Running::start(&mut script_at(&server, &["--key", "a"], script));
    let command = run.line().await.parse().ok().and_then(Pid::from_raw);
    kill_process(command.unwrap(), Signal::KILL).unwrap();
    assert_eq!(run.code().await, Some(137));
    // The processes that it left behind were terminated, too, before the lock was released.
    assert_eq!(run.rest().await, [""; 0]);
    assert_eq!(server.leftovers().await, [""; 0]);
}

/// Its parent has ended, its environment is empty, and it was never seen before. Only the group identifies it.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_child_without_an_environment_ends_with_a_killed_command() {
    let server = RedisServer::start().await;
    let script =
        "echo $$; (exec env -i sh -c 'trap \"\" TERM; echo up; while :; do sleep 1; done') & wait";
    let options = ["--key", "a", "--grace", "50ms"];
    let command = script_at(&server, &options, script);
    // In its own session it has no terminal, as under cron.
    let mut run = Running::start(&mut behind(&["setsid", "--wait", "--"], &command));
    let command = run.line().await.parse().ok().and_then(Pid::from_raw);
    run.says("up").await;
    kill_process(command.unwrap(), Signal::KILL).unwrap();
    assert_eq!(run.code().await, Some(137));
    assert_eq!(run.rest().await, [""; 0]);
}

/// A script continues after a command that exited with 130, but not after a command that SIGINT terminated.
#[tokio::test]
async fn a_command_that_was_interrupted_interrupts_the_run() {
    let server = RedisServer::start().await;
    let ended = ended_of(&mut script_at(&server, &["-k", "a"], "kill -INT $$"));
    assert_eq!((ended.code, ended.signal), (None, Some(2)), "{}", ended.err);
}

#[tokio::test]
async fn an_error_as_json_has_the_code_of_the_run() {
    let server = RedisServer::start().await;
    let locks = locks_at(&server).await;
    let guard = locks.lock("held").await.unwrap();
    for (options, code) in [
        (&["-k", "held", "-n", "--", "true"][..], 124),
        (&["-k", "held", "-n", "-E", "0", "--", "true"], 0),
        (&["-k", "a", "--", "/nowhere/at-all"], 127),
        (&["-k", "a", "--", "/"], 126),
    ] {
        let words = [&["--json", "run"], options].concat();
        let ended = ended_of(&mut reentry_at(&server, &words));
        assert_eq!(ended.code, Some(code), "{}", ended.err);
        let said = format!("\"exit_code\":{code}}}");
        assert!(ended.err.trim_end().ends_with(&said), "{}", ended.err);
    }
    guard.release().await.unwrap();
}

#[test]
fn wrong_arguments_are_no_code_of_a_command() {
    for words in [
        &["run"][..],
        &["run", "--key", "a"],
        &["run", "--", "true"],
        &["run", "-k", "a", "-n", "-w", "1", "--", "true"],
        &["run", "-k", "a", "--ttl", "soon", "--", "true"],
        &["run", "-k", "a", "-s", "--min-hold", "1", "--", "true"],
        &["--url", "nonsense", "run", "-k", "a", "--", "true"],
        &["--url", "memory:", "run", "-k", "a", "--", "true"],
        &["completions", "dosshell"],
        &["fence", "dbase"],
        &["man", "/dev/null/man1"],
    ] {
        assert_eq!(ended(words).code, Some(125), "{words:?}");
    }
}

#[test]
fn wrong_arguments_are_json_where_that_was_asked_for() {
    for words in [
        &["--json", "run", "-k", "a"][..],
        &["run", "--json", "-k", "a", "--ttl", "soon", "--", "true"],
        &["ls", "--json", "--nonsense"],
    ] {
        let ended = ended(words);
        assert_eq!((ended.code, &*ended.out), (Some(125), ""), "{words:?}");
        let error: serde_json::Value = serde_json::from_str(&ended.err).unwrap();
        assert_eq!(error["exit_code"], 125, "{error}");
        let what = error["error"].as_str().unwrap();
        assert!(
            !what.starts_with("error") && !what.contains("Usage"),
            "{what}"
        );
    }
    let of_command = ["run", "-k", "a", "--ttl", "soon", "--", "true", "--json"];
    assert!(ended(&of_command).err.starts_with("error: "));
}

/// The result of the command is valid, and others may have to wait.
#[tokio::test]
async fn a_release_that_is_not_answered_is_reported() {
    let server = RedisServer::start().await;
    let mut command = script_at(
        &server,
        &["-k", "a", "--ttl", "1h"],
        "echo up; read line; exit 7",
    );
    command.env("REENTRY_RESPONSE_TIMEOUT", "500ms");
    let mut run = Running::start(&mut with_errors(&command));
    run.says("up").await;
    server.stop();
    drop(run.input.take());
    run.says("reentry: the server did not respond to the release of `a`: it may stay locked until its lease expires, for at most 1h")
        .await;
    assert_eq!(run.code().await, Some(7));
}

#[tokio::test]
async fn input_and_output_pass_through() {
    let server = RedisServer::start().await;
    let script = "cat; echo fault >&2";
    let mut command = script_at(&server, &["-k", "a"], script);
    command.stderr(std::process::Stdio::piped());
    let mut run = Running::start(&mut command);
    let mut input = run.input.take().unwrap();
    writeln!(input, "one\ntwo").unwrap();
    drop(input);
    assert_eq!(run.rest().await, ["one", "two"]);
    assert_eq!(run.code().await, Some(0));
    let ended = ended_of(&mut script_at(&server, &["-k", "a"], "echo fault >&2"));
    assert_eq!(ended.err, "fault\n");
}

/// `--timeout` includes the time to connect.
#[tokio::test]
async fn a_timeout_of_the_run_also_limits_its_connection() {
    let server = RedisServer::start().await;
    server.pause();
    let words = ["run", "--timeout", "0.3", "--key", "a", "--", "true"];
    let begun = Instant::now();
    let ended = ended_of(&mut reentry_at(&server, &words));
    assert_eq!(ended.code, Some(122), "{ended:?}");
    // Without the limit, it tries to connect for this time.
    assert!(begun.elapsed() < DEADLINE, "{ended:?}");
    server.resume();
}

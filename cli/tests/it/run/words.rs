//! How the key and the command are written: with `--key` or as the first word, with `--` or without, as a line.

use crate::program::{Ended, Running, ended_of, reentry_at, with_errors};
use crate::support::server::RedisServer;

fn run(server: &RedisServer, words: &[&str]) -> Ended {
    ended_of(&mut reentry_at(server, &[&["run"], words].concat()))
}

#[tokio::test]
async fn options_after_the_command_belong_to_the_command() {
    let server = RedisServer::start().await;
    // Those before `--` are of `reentry`, as are those before the key; those behind it are not, whatever they are.
    let words = [
        "-v", "--json", "-k", "a", "--", "echo", "--json", "-v", "--url", "x", "--help",
    ];
    let ended = run(&server, &words);
    assert_eq!(
        (ended.code, &*ended.out),
        (Some(0), "--json -v --url x --help\n")
    );
    assert!(ended.err.contains("acquired `a`"), "{}", ended.err);
    let refused = run(&server, &["-k", "a", "--", "/nowhere", "--json"]);
    assert!(
        refused.err.starts_with("error: cannot run"),
        "{}",
        refused.err
    );
    let ended = run(&server, &["a", "echo", "-q", "--key", "--", "-c"]);
    assert_eq!((ended.code, &*ended.out), (Some(0), "-q --key -- -c\n"));
    let ended = run(&server, &["a", "--", "--", "x"]);
    assert_eq!(ended.code, Some(127), "the command is `--`: {}", ended.err);
}

#[tokio::test]
async fn a_command_line_is_run_by_a_shell() {
    let server = RedisServer::start().await;
    let ended = run(&server, &["-c", "echo a | tr a b; exit 7", "key"]);
    assert_eq!((ended.code, &*ended.out), (Some(7), "b\n"));
}

/// Whatever happens, only the output of the command is printed.
#[tokio::test]
async fn a_quiet_run_explains_only_a_code_of_its_own() {
    let server = RedisServer::start().await;
    let mut waits = reentry_at(&server, &["run", "-q", "a", "-c"]);
    waits.arg("unused");
    assert!(ended_of(&mut waits).err.contains("`-c`"));

    let script = "echo up; read line; echo mine >&2; exit 3";
    let options = ["run", "-q", "a", "--", "sh", "-c", script];
    let mut command = reentry_at(&server, &options);
    command.env("REENTRY_RESPONSE_TIMEOUT", "3s");
    let mut run = Running::start(&mut with_errors(&command));
    run.says("up").await;
    server.stop();
    drop(run.input.take());
    // The release gets no response, and the exit code is that of the command.
    assert_eq!(run.code().await, Some(3));
    assert_eq!(run.rest().await, ["mine"]);
}

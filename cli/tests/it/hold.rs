//! `reentry hold`.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::page::{ROOT, shell};
use crate::program::{
    Running, at_terminal, end_of, ended, ended_of, locks_at, reentry_at, reentry_for,
    with_variables,
};
use crate::support::server::RedisServer;
use crate::support::wait::{DEADLINE, eventually};

fn hold(server: &RedisServer, words: &[&str]) -> Running {
    Running::start(&mut reentry_at(server, &[&["hold"], words].concat()))
}

#[tokio::test]
async fn a_lock_is_held_until_the_input_ends() {
    let server = RedisServer::start().await;
    let locks = locks_at(&server).await;
    let mut held = hold(&server, &["a"]);
    let line = held.line().await;
    let info = locks.admin().inspect("a").await.unwrap().unwrap();
    let token = info.token.unwrap();
    assert_eq!(line, format!("{token} {} a", info.holders[0].hold_id));
    let process = info.holders[0].process.as_ref().unwrap();
    assert_eq!(process.name, "reentry-hold");
    // Its input is read and ignored.
    let mut input = held.input.take().unwrap();
    input.write_all(&[b'x'; 100_000]).unwrap();
    assert!(locks.admin().inspect("a").await.unwrap().is_some());
    drop(input);
    assert_eq!(held.code().await, Some(0));
    assert_eq!(held.rest().await, [""; 0]);
    assert_eq!(server.leftovers().await, [""; 0]);
}

#[tokio::test]
async fn several_locks_are_printed_in_the_order_of_the_arguments() {
    let server = RedisServer::start().await;
    let locks = locks_at(&server).await;
    let mut held = hold(&server, &["--json", "z", "a", "c", "a", "-k", "b"]);
    let mut keys = Vec::new();
    for _ in 0..4 {
        let line: Value = serde_json::from_str(&held.line().await).unwrap();
        let key = line["key"].as_str().unwrap().to_owned();
        let info = locks.admin().inspect(&key).await.unwrap().unwrap();
        assert_eq!(line["token"], info.token.map(u64::from).unwrap());
        assert_eq!(line["hold_id"], info.holders[0].hold_id);
        keys.push(key);
    }
    assert_eq!(keys, ["z", "a", "c", "b"]);
    drop(held.input.take());
    assert_eq!(held.code().await, Some(0));
}

#[tokio::test]
async fn the_options_are_those_of_run() {
    let server = RedisServer::start().await;
    let locks = locks_at(&server).await;
    let mut reader = hold(&server, &["--shared", "a"]);
    reader.line().await;
    let info = locks.admin().inspect("a").await.unwrap().unwrap();
    assert!(info.is_shared);
    for (words, code) in [
        (&["-n", "a"][..], 124),
        (&["-w", "3s", "a"], 124),
        (&["-n", "-E", "9", "a"], 9),
    ] {
        let words = [&["hold"], words].concat();
        let refused = ended_of(&mut reentry_at(&server, &words));
        assert_eq!((refused.code, &*refused.out), (Some(code), ""));
        assert!(refused.err.contains("`a`"), "{}", refused.err);
    }
    let quiet = ended_of(&mut reentry_at(&server, &["hold", "-q", "-n", "a"]));
    assert_eq!((quiet.code, &*quiet.err), (Some(124), ""));
    let away = ended_of(&mut reentry_for("redis://127.0.0.1:1", &["hold", "a"]));
    assert_eq!(away.code, Some(122), "{}", away.err);
    assert_eq!(ended(&["hold"]).code, Some(125));
}

#[tokio::test]
async fn a_signal_releases_the_lock() {
    let server = RedisServer::start().await;
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut held = hold(&server, &["a"]);
        held.line().await;
        held.signal(signal);
        assert_eq!(held.code().await, Some(code));
        assert_eq!(server.leftovers().await, [""; 0]);
    }
    let mut held = hold(&server, &["a"]);
    held.line().await;
    held.signal(Signal::INT);
    // So that the enclosing script ends as well.
    let ended = held.end().await;
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&ended),
        Some(2)
    );
    assert_eq!(server.leftovers().await, [""; 0]);
}

#[tokio::test]
async fn a_loss_ends_a_hold_although_its_input_is_open() {
    let server = RedisServer::start().await;
    let locks = locks_at(&server).await;
    let mut held = hold(&server, &["a"]);
    held.line().await;
    assert!(locks.admin().force_release("a").await.unwrap());
    assert_eq!(held.code().await, Some(123));

    let mut held = hold(&server, &["--ttl", "2s", "a"]);
    held.line().await;
    server.stop();
    assert_eq!(held.code().await, Some(123));
}

#[tokio::test]
async fn a_hold_with_a_closed_input_ends_immediately() {
    let server = RedisServer::start().await;
    let mut command = reentry_at(&server, &["hold", "a"]);
    command.stdin(Stdio::null());
    let ended = end_of(command).await;
    assert_eq!((ended.code, ended.out.lines().count()), (Some(0), 1));
    assert_eq!(server.leftovers().await, [""; 0]);
    let closed = end_of(shell(&server, "exec reentry hold a <&-")).await;
    assert_eq!((closed.code, closed.out.lines().count()), (Some(0), 1));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_output_without_a_reader_is_no_error_and_a_full_one_is() {
    let server = RedisServer::start().await;
    let locks = locks_at(&server).await;
    for reader in [">&-", "| :"] {
        let script = format!("exec 3>&1; {{ reentry hold a; echo $? >&3; }} {reader}");
        let mut holder = Running::start(&mut shell(&server, &script));
        let is_held = async || locks.admin().inspect("a").await.unwrap().is_some();
        eventually(DEADLINE, "it is held", is_held).await;
        drop(holder.input.take());
        holder.says("0").await;
    }
    let full = end_of(shell(&server, "exec reentry hold b >/dev/full")).await;
    assert_eq!(full.code, Some(125), "{}", full.err);
    assert_eq!(server.leftovers().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_at_a_terminal_ends_with_its_input_or_by_a_signal() {
    let server = RedisServer::start().await;
    let mut terminal = at_terminal(reentry_at(&server, &["hold", "a"]));
    terminal
        .exp_regex(r"[0-9]+ [0-9a-f-]+:[0-9]+ a\r\n")
        .unwrap();
    terminal.send_control('d').unwrap();
    terminal.exp_eof().unwrap();

    // With job control, a job that reads from the terminal is stopped.
    let script = "set -m; reentry hold a & while ! reentry show a >/dev/null; do :; done; \
                  reentry show a >/dev/null; jobs; kill $!; wait $!; echo \"code $?\"";
    let mut outer = Command::new("bash");
    with_variables(outer.args(["-c", script]), &shell(&server, ""));
    let mut terminal = at_terminal(outer);
    terminal.exp_string("Running").unwrap();
    terminal.exp_string("code 143").unwrap();
    terminal.exp_eof().unwrap();
    let locks = locks_at(&server).await;
    assert!(locks.admin().inspect("a").await.unwrap().is_none());
}

/// The scripts of the page, for a bash with `coproc`.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_scripts_of_the_page_hold_a_lock_over_several_commands() {
    let page = fs::read_to_string(format!("{ROOT}/docs/cli.md")).unwrap();
    let blocks = page.split("```bash\n").skip(1);
    let scripts: Vec<_> = blocks.filter_map(|it| it.split("```").next()).collect();
    assert_eq!(scripts.len(), 2);
    for script in scripts {
        let server = RedisServer::start().await;
        let script = script.replace(
            "echo \"second",
            "reentry show backup | head -n 1; echo \"second",
        );
        let mut command = shell(&server, "exec bash -c \"$0\"");
        command.arg(&script);
        let ended = end_of(command).await;
        let said = "first step\nbackup is held, exclusive\nsecond step\nreleased: 0\n";
        assert_eq!((&*ended.out, &*ended.err), (said, ""), "{script}");
        assert_eq!(server.leftovers().await, [""; 0]);
        // A script that ends early also releases the lock.
        let early = script.replace("echo \"first step\"", "exit 7");
        let mut command = shell(&server, "exec bash -c \"$0\"");
        command.arg(&early);
        assert_eq!(end_of(command).await.code, Some(7));
        let is_free = async || server.leftovers().await.is_empty();
        eventually(DEADLINE, "it is released", is_free).await;
    }
}

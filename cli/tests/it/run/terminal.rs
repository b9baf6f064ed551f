//! A user at a terminal: keys reach the command once, and a job stops and continues.

use std::process::Command;

use rexpect::session::PtySession;
use rustix::process::{Pid, Signal, kill_process};

use crate::program::{at_terminal, script_at, with_variables};
use crate::support::server::RedisServer;
use crate::support::wait::{DEADLINE, eventually};

#[tokio::test]
async fn ctrl_c_reaches_the_command_once() {
    let server = RedisServer::start().await;
    let script = "n=0; trap 'n=$((n+1)); echo caught' INT; trap 'echo count=$n' USR1; \
                  echo up $PPID.; while :; do sleep 0.05; done";
    let mut terminal = at_terminal(script_at(&server, &["-k", "a"], script));
    terminal.exp_string("up ").unwrap();
    let run = terminal.exp_char('.').unwrap().parse().unwrap();
    let run = Pid::from_raw(run).unwrap();
    terminal.send_control('c').unwrap();
    terminal.exp_string("caught").unwrap();
    // Signals are passed on in their order: a second one would be there before this one.
    kill_process(run, Signal::USR1).unwrap();
    terminal.exp_string("count=1").unwrap();
    // A signal from a process is for the command.
    kill_process(run, Signal::INT).unwrap();
    terminal.exp_string("caught").unwrap();
    kill_process(run, Signal::USR1).unwrap();
    terminal.exp_string("count=2").unwrap();
}

/// A shell with job control, and the line to type.
fn shell(server: &RedisServer, options: &[&str], script: &str) -> (PtySession, String) {
    let run = script_at(server, options, script);
    let words = run.get_args().map(|word| word.to_str().unwrap());
    let words: Vec<_> = words
        .map(|word| format!("'{}'", word.replace('\'', r"'\''")))
        .collect();
    let line = format!("{} {}", run.get_program().display(), words.join(" "));
    let mut shell = Command::new("sh");
    shell.args(["-i", "-m"]).env("PS1", "@@ ").env_remove("ENV");
    with_variables(&mut shell, &run);
    let mut terminal = at_terminal(shell);
    terminal.exp_string("@@ ").unwrap();
    (terminal, line)
}

/// Ends the shell, which ignores SIGTERM at a terminal.
fn leave(mut shell: PtySession) {
    shell.send_line("exit").unwrap();
    shell.exp_eof().unwrap();
}

#[tokio::test]
async fn a_job_stops_at_ctrl_z_and_goes_on_in_the_foreground() {
    let server = RedisServer::start().await;
    let script = "echo u''p; read line; echo \"got <$line>\"";
    let (mut terminal, line) = shell(&server, &["-k", "a", "--ttl", "1h"], script);
    terminal.send_line(&line).unwrap();
    terminal.exp_string("up\r\n").unwrap();
    terminal.send_control('z').unwrap();
    // The shell controls its terminal again.
    terminal.exp_string("@@ ").unwrap();
    terminal.send_line("fg").unwrap();
    terminal.exp_string("reentry").unwrap();
    terminal.send_line("something").unwrap();
    terminal.exp_string("got <something>").unwrap();
    terminal.exp_string("@@ ").unwrap();
    assert_eq!(server.leftovers().await, [""; 0]);
    leave(terminal);
}

#[tokio::test]
async fn a_job_that_lost_its_lock_while_it_was_stopped_ends() {
    let server = RedisServer::start().await;
    let options = ["-k", "a", "--ttl", "1s"];
    let (mut terminal, line) = shell(&server, &options, "echo u''p; sleep 1000");
    terminal.send_line(&line).unwrap();
    terminal.exp_string("up\r\n").unwrap();
    terminal.send_control('z').unwrap();
    terminal.exp_string("@@ ").unwrap();
    let is_free = async || server.leftovers().await.is_empty();
    eventually(DEADLINE, "the lease of the stopped run ends", is_free).await;
    terminal.send_line("fg; echo co''de=$?").unwrap();
    terminal.exp_string("code=123").unwrap();
    leave(terminal);
}

#[tokio::test]
async fn ctrl_c_ends_the_script_around_a_run() {
    let server = RedisServer::start().await;
    // A program that the shell has not started yet would miss the key.
    let (mut terminal, line) = shell(&server, &["-k", "a"], "echo u''p; read line");
    let script = format!("set -f; {line}; echo ne''xt");
    let quoted = script.replace('\'', r"'\''");
    terminal
        .send_line(&format!("sh -c '{quoted}'; echo en''d"))
        .unwrap();
    terminal.exp_string("up\r\n").unwrap();
    terminal.send_control('c').unwrap();
    let said = terminal.exp_string("@@ ").unwrap();
    assert!(!said.contains("\nnext"), "{said}");
    leave(terminal);
}

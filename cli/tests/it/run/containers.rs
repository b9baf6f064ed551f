//! `reentry run` as the first process of a container, which the kernel treats differently.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{getpid, set_child_subreaper};

use crate::program::{Running, script_at, with_variables};
use crate::support::server::RedisServer;

/// The variable with the command line that `as_a_subreaper` executes.
const PROGRAM: &str = "REENTRY_TEST_PROGRAM";

/// Not a claim: if a test below has started it, it executes `reentry run`, as a process that adopts the orphans among
/// its descendants.
#[test]
fn as_a_subreaper() {
    if let Ok(program) = env::var(PROGRAM) {
        let words: Vec<String> = serde_json::from_str(&program).unwrap();
        set_child_subreaper(Some(getpid())).unwrap();
        panic!("{}", Command::new(&words[0]).args(&words[1..]).exec());
    }
}

#[tokio::test]
async fn orphans_are_waited_for() {
    let server = RedisServer::start().await;
    // The shell in parentheses ends first. A zombie is in /proc until it was waited for.
    let script = "(sh -c 'echo $$' &) | { read -r orphan; \
                  while [ -e /proc/$orphan ]; do sleep 0.02; done; echo gone; }";
    let run = script_at(&server, &["-k", "a"], script);
    let words: Vec<_> = [run.get_program()]
        .into_iter()
        .chain(run.get_args())
        .collect();
    let words: Vec<_> = words.iter().map(|word| word.to_str().unwrap()).collect();
    let mut reaper = Command::new(env::current_exe().unwrap());
    reaper.args(["--exact", "run::containers::as_a_subreaper", "--nocapture"]);
    reaper.env(PROGRAM, serde_json::to_string(&words).unwrap());
    let mut reaper = Running::start(with_variables(&mut reaper, &run));
    reaper.says("gone").await;
    assert_eq!(reaper.code().await, Some(0));
}

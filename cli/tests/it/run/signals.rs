//! Signals to `reentry run`.

use rustix::process::Signal;

use crate::program::{Running, locks_at, script_at, until_waiting, within_script};
use crate::support::server::RedisServer;

/// Prints each signal that it gets, and runs as long as the run.
const TELL: &str = "for s in TERM INT QUIT HUP USR1 USR2 ALRM; do trap \"echo $s\" $s; done; \
                    echo up; while kill -0 $PPID 2>&-; do sleep 0.05; done";

#[tokio::test]
async fn signals_reach_the_command() {
    let server = RedisServer::start().await;
    let mut run = Running::start(&mut script_at(&server, &["-k", "a"], TELL));
    run.says("up").await;
    for (signal, name) in [
        (Signal::HUP, "HUP"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::ALARM, "ALRM"),
        (Signal::INT, "INT"),
        (Signal::QUIT, "QUIT"),
        (Signal::TERM, "TERM"),
    ] {
        run.signal(signal);
        run.says(name).await;
    }
    run.kill();
    run.rest().await;
}

#[tokio::test]
async fn sigterm_ends_the_children_as_well() {
    let server = RedisServer::start().await;
    let script = "(sleep 1000; true) & (sh -c 'sleep 1000; true' &); echo up; wait";
    let mut run = Running::start(&mut script_at(&server, &["-k", "a"], script));
    run.says("up").await;
    run.signal(Signal::TERM);
    assert_eq!(run.code().await, Some(143));
    assert_eq!(run.rest().await, [""; 0]);
    assert_eq!(server.leftovers().await, [""; 0]);
}

/// The next holder acquires the lock when the last process has ended, not when the first one has.
#[tokio::test]
async fn processes_left_at_sigterm_are_ended_before_the_release() {
    let server = RedisServer::start().await;
    let script = "sh -c 'trap \"\" TERM; echo up; while :; do sleep 0.05; done' & wait";
    let options = ["-k", "a", "--grace", "50ms"];
    let mut run = Running::start(&mut script_at(&server, &options, script));
    run.says("up").await;
    run.signal(Signal::TERM);
    assert_eq!(run.code().await, Some(143));
    assert_eq!(run.rest().await, [""; 0]);
}

#[tokio::test]
async fn background_processes_of_a_finished_command_are_not_ended() {
    let server = RedisServer::start().await;
    let script = "sh -c 'echo up; read line; echo left' <&0 & sleep 0; exit 3";
    let mut run = Running::start(&mut script_at(&server, &["-k", "a"], script));
    assert_eq!(run.code().await, Some(3));
    drop(run.input.take());
    assert_eq!(run.rest().await, ["up", "left"]);
}

#[tokio::test]
async fn a_run_that_waits_ends_at_a_signal_and_leaves_the_queue() {
    let server = RedisServer::start().await;
    let locks = locks_at(&server).await;
    let guard = locks.lock("a").await.unwrap();
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut run = Running::start(&mut script_at(&server, &["-k", "a"], "echo no"));
        until_waiting(&locks, "a", 1).await;
        run.signal(signal);
        assert_eq!(run.code().await, Some(code));
        let info = locks.admin().inspect("a").await.unwrap().unwrap();
        assert_eq!(info.waiting_processes, 0);
        assert_eq!(run.rest().await, [""; 0]);
    }
    guard.release().await.unwrap();
}

/// For example under nohup(1), and for a background job of a script.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_signal_that_is_ignored_stays_ignored() {
    let server = RedisServer::start().await;
    let inner = script_at(
        &server,
        &["-k", "a"],
        "echo up; read line; kill -USR1 $$; echo still here",
    );
    let outer = within_script("trap '' USR1; exec \"$0\" \"$@\"", &inner);
    let mut run = Running::start(&mut { outer });
    run.says("up").await;
    run.signal(Signal::USR1);
    drop(run.input.take());
    run.says("still here").await;
    assert_eq!(run.code().await, Some(0));
}

//! `--permits`: a limited number of runs at the same time.

use crate::program::{Running, ended, ended_of, locks_at, reentry_at, script_at};
use crate::support::server::RedisServer;
use crate::support::wait::{DEADLINE, eventually};

const STAY: &str = "echo inside; read line";

#[tokio::test]
async fn the_number_of_permits_is_shown_and_another_number_is_rejected() {
    let server = RedisServer::start().await;
    let options = ["--permits", "2", "-k", "a"];
    let mut run = Running::start(&mut script_at(&server, &options, STAY));
    run.says("inside").await;
    let shown = ended_of(&mut reentry_at(&server, &["show", "a"])).out;
    assert!(shown.starts_with("a is held, 1 of 2 permits\n"), "{shown}");
    let listed = ended_of(&mut reentry_at(&server, &["ls"])).out;
    assert!(listed.contains(" 1/2 "), "{listed}");
    let note = "error: `a` has `--permits 2` for sh, pid ";
    for (options, is_rejected) in [
        (&["--permits", "3"][..], true),
        (&["--permits", "1", "-q"], true),
        (&["--permits", "2"], false),
    ] {
        let options = [options, &["-k", "a"]].concat();
        let other = ended_of(&mut script_at(&server, &options, "true"));
        let code = if is_rejected { 125 } else { 0 };
        assert_eq!(other.code, Some(code), "{}", other.err);
        assert_eq!(other.err.starts_with(note), is_rejected, "{}", other.err);
    }
}

/// Those who wait have named the number in the store, so that of the crate is known, too.
#[tokio::test]
async fn a_queue_says_how_many_permits_there_are() {
    let server = RedisServer::start().await;
    let locks = locks_at(&server).await;
    let permit = async || locks.semaphore("a", 2).await.unwrap();
    let _inside = (permit().await, permit().await);
    let options = ["--permits", "2", "-k", "a"];
    let _waits = Running::start(&mut script_at(&server, &options, STAY));
    let is_shown = async || {
        let shown = ended_of(&mut reentry_at(&server, &["show", "a"])).out;
        shown.starts_with("a is held, 2 of 2 permits\n") && shown.contains(" 1 of 2 ")
    };
    eventually(DEADLINE, "the queue is shown", is_shown).await;
}

#[tokio::test]
async fn a_run_inside_a_run_takes_no_second_permit() {
    let server = RedisServer::start().await;
    for (more, code) in [("", 125), ("--reenter", 0)] {
        let inner = format!("reentry run --permits 2 {more} a true");
        let script = format!("exec reentry run --permits 2 a -- {inner}");
        let ended = ended_of(&mut crate::page::shell(&server, &script));
        assert_eq!(ended.code, Some(code), "{}", ended.err);
    }
}

#[test]
fn permits_are_rejected_where_a_command_has_none() {
    for words in [
        &["run", "--permits", "0", "a", "true"][..],
        &["run", "--permits", "2", "--shared", "a", "true"],
        &["run", "--permits", "2", "--min-hold", "1s", "a", "true"],
        &["run", "--permits", "2", "-k", "a", "-k", "b", "true"],
    ] {
        let ended = ended(words);
        assert_eq!(ended.code, Some(125), "{words:?}: {}", ended.err);
    }
}

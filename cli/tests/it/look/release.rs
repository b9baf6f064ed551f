//! `reentry release`.

use reentry::__admin::Ids as _;
use rexpect::session::PtySession;

use super::kit::{hold, lines, process, run};
use crate::program::{at_terminal, reentry_at};
use crate::support::server::RedisServer;
use crate::support::wait::{DEADLINE, eventually};

/// The program at a terminal, up to its prompt.
fn asked(server: &RedisServer) -> PtySession {
    let mut terminal = at_terminal(reentry_at(server, &["release", "order:42"]));
    terminal.exp_string("[y/N] ").unwrap();
    terminal
}

fn code(mut terminal: PtySession) -> i32 {
    terminal.exp_eof().unwrap();
    match terminal.process().wait().unwrap() {
        rexpect::process::WaitStatus::Exited(_, code) => code,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn release_at_a_terminal_asks_first_and_reports_what_it_ended() {
    let server = RedisServer::start().await;
    let locks = process(&server).await;
    let guard = hold(&locks, "order:42").await;
    let id = guard.held().hold_id().to_string();
    for answer in ["n", "", "nonsense"] {
        let mut terminal = asked(&server);
        terminal.send_line(answer).unwrap();
        assert_eq!(code(terminal), 1, "{answer}");
        assert!(
            locks.admin().inspect("order:42").await.unwrap().is_some(),
            "{answer}"
        );
    }
    let mut terminal = at_terminal(reentry_at(&server, &["release", "order:42"]));
    // The holds are named before the prompt.
    terminal.exp_string(&id).unwrap();
    terminal.exp_string("[y/N] ").unwrap();
    terminal.send_line("y").unwrap();
    terminal
        .exp_string(&format!("order:42: ended {id}"))
        .unwrap();
    assert_eq!(code(terminal), 0);
    assert!(locks.admin().inspect("order:42").await.unwrap().is_none());
    let lost = async || guard.held().is_lost();
    eventually(DEADLINE, "the holder learns of it", lost).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn release_ends_only_the_holders_that_were_shown() {
    let server = RedisServer::start().await;
    let locks = process(&server).await;
    let guard = hold(&locks, "order:42").await;
    let mut terminal = asked(&server);
    guard.release().await.unwrap();
    let newer = hold(&locks, "order:42").await;
    terminal.send_line("yes").unwrap();
    terminal
        .exp_string("none of the holds that were shown is left")
        .unwrap();
    assert_eq!(code(terminal), 1);
    let info = locks.admin().inspect("order:42").await.unwrap().unwrap();
    assert_eq!(info.holders[0].hold_id, newer.held().hold_id().to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn release_of_a_key_that_is_no_lock_points_to_del() {
    let server = RedisServer::start().await;
    server.ask("HSET app:user:1001 name Ann").await;
    server.ask("SET app:text a").await;
    server.ask("RPUSH app:list a").await;
    for (key, holds) in [
        ("user:1001", "a hash that is no lock"),
        ("text", "a string, not a lock"),
        ("list", "a list, not a lock"),
    ] {
        let words = ["--prefix", "app:", "release", key, "--yes"];
        let refused = run(&server.url(), &words).await;
        let expected =
            format!("`app:{key}` holds {holds}, so it was not changed: to delete it, use DEL");
        assert!(refused.err.contains(&expected), "{refused:?}");
        assert_eq!(refused.out, "");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn release_without_a_terminal_needs_the_option_yes() {
    let server = RedisServer::start().await;
    let locks = process(&server).await;
    let guard = hold(&locks, "order:42").await;
    let url = server.url();
    // The answer is the same for a lock that is free.
    for key in ["order:42", "order:43"] {
        let unasked = run(&url, &["release", key]).await;
        assert_eq!(unasked.code, Some(125));
        assert!(unasked.err.contains("use `--yes`"), "{unasked:?}");
    }
    assert!(locks.admin().inspect("order:42").await.unwrap().is_some());

    let ended = run(&url, &["release", "order:42", "--yes", "--json"]).await;
    assert_eq!(ended.code, Some(0));
    let said = &lines(&ended)[0];
    assert_eq!(
        (&said["released"], &said["key"]),
        (&true.into(), &"order:42".into())
    );
    assert_eq!(said["hold_ids"][0], guard.held().hold_id().to_string());
    let free = run(&url, &["release", "order:42", "--yes"]).await;
    assert_eq!((free.code, &*free.out), (Some(1), "order:42 is free\n"));
}

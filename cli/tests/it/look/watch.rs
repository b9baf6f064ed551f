//! `reentry watch`, with a user who looks and types.

use super::kit::{hold, process, run, wait};
use super::screen::Screen;
use rexpect::process::Signal::{SIGHUP, SIGQUIT, SIGTERM};

use crate::program::reentry_at;
use crate::support::server::RedisServer;
use crate::support::wait::{DEADLINE, eventually};

/// The line with a key.
fn row(text: &str, key: &str) -> Option<usize> {
    text.lines()
        .position(|line| line.trim_start().starts_with(key))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_of_watch_follows_the_locks_and_the_keyboard() {
    let server = RedisServer::start().await;
    let locks = process(&server).await;
    let guard = hold(&locks, "order:1").await;
    let _second = hold(&locks, "order:2").await;
    let _stock = hold(&locks, "stock:7").await;
    let watching = reentry_at(&server, &["watch", "--interval", "100ms"]);
    let mut screen = Screen::start(watching, 24, 100);
    let has = |keys: &'static [&'static str]| {
        move |text: &str| keys.iter().all(|key| row(text, key).is_some())
    };
    screen
        .until("all locks", has(&["order:1", "order:2", "stock:7"]))
        .await;
    screen
        .until("the sweep's end", |text| text.contains("3 locks, sweep"))
        .await;
    assert!(screen.is_taken());

    // The lock that others wait for comes first.
    let _waiting = wait(&server, "stock:7", 0).await;
    screen
        .until("the waiter", |text| {
            row(text, "stock:7") < row(text, "order:1")
        })
        .await;
    // By key, which is four sort orders later.
    screen.press("ssss");
    screen
        .until("by key", |text| {
            text.contains("by key") && row(text, "order:1") < row(text, "stock:7")
        })
        .await;

    guard.release().await.unwrap();
    screen
        .until("one is gone", |text| row(text, "order:1").is_none())
        .await;

    screen.press("/order\r");
    screen
        .until("the filter", |text| {
            text.contains("*order*")
                && row(text, "order:2").is_some()
                && row(text, "stock:7").is_none()
        })
        .await;

    // The lock with its queue, and the way back.
    screen.press("\r");
    screen
        .until("one lock", |text| {
            text.contains("order:2 is held, exclusive") && text.contains("no process waits")
        })
        .await;
    screen.press("\u{1b}");
    screen
        .until("the table", |text| text.contains("*order*"))
        .await;
    screen.press("\u{1b}");
    screen
        .until("no filter", |text| row(text, "stock:7").is_some())
        .await;

    screen.resize(10, 60);
    screen
        .until("a smaller one", |text| {
            text.lines().count() <= 10 && text.contains("q quit") && row(text, "order:2").is_some()
        })
        .await;

    screen.press("q");
    assert_eq!(screen.code().await, 0);
    screen.until_given_back().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_locks_than_fit_are_scrolled_through() {
    let server = RedisServer::start().await;
    let locks = process(&server).await;
    let mut guards = Vec::new();
    for number in 0..60 {
        guards.push(hold(&locks, &format!("order:{number:02}")).await);
    }
    let watching = reentry_at(&server, &["watch", "--sort", "key"]);
    let mut screen = Screen::start(watching, 12, 100);
    screen
        .until("the first ones", |text| {
            text.contains("60 locks, sweep") && row(text, "order:00").is_some()
        })
        .await;
    assert_eq!(row(&screen.text(), "order:59"), None);
    // The key "End", as terminals send it.
    screen.press("\u{1b}[F");
    screen
        .until("the last ones", |text| row(text, "order:59").is_some())
        .await;
    assert_eq!(row(&screen.text(), "order:00"), None);
    // Ctrl-C is not a signal here, but it still ends the program.
    screen.press("\u{3}");
    assert_eq!(screen.code().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_shows_an_outage_and_continues_after_it() {
    let server = RedisServer::start().await;
    let _guard = hold(&process(&server).await, "order:1").await;
    let watching = reentry_at(&server, &["watch", "--interval", "100ms"]);
    let mut screen = Screen::start(watching, 24, 100);
    screen
        .until("the lock", |text| row(text, "order:1").is_some())
        .await;
    server.stop();
    screen
        .until("the error", |text| text.contains("failed at"))
        .await;
    server.restart_empty().await;
    let _guard = hold(&process(&server).await, "order:2").await;
    screen
        .until("the next lock", |text| row(text, "order:2").is_some())
        .await;
    screen.press("q");
    assert_eq!(screen.code().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_without_a_terminal_names_the_command_to_use() {
    let server = RedisServer::start().await;
    let refused = run(&server.url(), &["watch"]).await;
    assert_eq!(refused.code, Some(125));
    assert!(refused.err.contains("reentry ls"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_restores_the_terminal_at_a_signal() {
    let server = RedisServer::start().await;
    for (signal, code) in [(SIGTERM, 143), (SIGHUP, 129), (SIGQUIT, 131)] {
        let mut screen = Screen::start(reentry_at(&server, &["watch"]), 24, 80);
        let is_watching = async || screen.is_taken() && screen.is_raw();
        eventually(DEADLINE, "it watches", is_watching).await;
        screen.signal(signal);
        assert_eq!(screen.code().await, code);
        screen.until_given_back().await;
        assert!(!screen.is_raw());
    }
}

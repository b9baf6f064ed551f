//! `reentry ls`.

use reentry::__admin::Ids as _;
use serde_json::json;

use super::kit::{hold, lines, process, run, wait};
use super::screen::Screen;
use crate::program::{at_terminal, reentry_at, within_script};
use crate::support::server::RedisServer;

#[tokio::test(flavor = "multi_thread")]
async fn the_locks_that_are_held_are_listed() {
    let server = RedisServer::start().await;
    let locks = process(&server).await;
    let guard = hold(&locks, "order:42").await;
    let _stock = hold(&locks, "stock:7").await;
    let _nested = guard
        .scope(locks.lock("order:42").acquire())
        .await
        .unwrap()
        .unwrap();
    let _waiting = wait(&server, "order:42", 0).await;

    let all = run(&server.url(), &["ls"]).await;
    assert_eq!((all.code, &*all.err), (Some(0), ""));
    let mut listed: Vec<_> = all.out.lines().collect();
    assert_eq!(listed.remove(0).split_whitespace().next(), Some("KEY"));
    listed.sort_unstable();
    let process = format!(":{}@", std::process::id());
    let words: Vec<_> = listed[0].split_whitespace().collect();
    assert_eq!(words[..3], ["order:42", "exclusive", "1"]);
    assert!(words[3].contains(&process) && words[4] == "2", "{words:?}");
    assert_eq!(words[7], "1");
    assert!(listed[1].starts_with("stock:7"), "{listed:?}");

    // A lock that two of several patterns match is listed once.
    let both = run(&server.url(), &["ls", "--json", "st*", "order:*", "*:42"]).await;
    assert_eq!(lines(&both).len(), 2, "{both:?}");

    let orders = run(&server.url(), &["ls", "order:*", "--json"]).await;
    let [order] = &lines(&orders)[..] else {
        panic!("{orders:?}")
    };
    assert_eq!(order["key"], "order:42");
    assert_eq!(
        order["holders"][0]["hold_id"],
        guard.held().hold_id().to_string()
    );
    assert_eq!(order["holders"][0]["depth"], 2);
    assert_eq!(
        order["token"],
        json!(u64::from(guard.held().fencing_token()))
    );
    assert_eq!(order["waiting_processes"], 1);
    assert!(order["lease_left_ms"].as_u64().unwrap() <= 30_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_in_an_order_are_listed_at_the_end() {
    let server = RedisServer::start().await;
    let locks = process(&server).await;
    let mut guards = Vec::new();
    for key in ["a", "b", "c"] {
        guards.push(hold(&locks, key).await);
    }
    let _waiting = wait(&server, "b", 0).await;
    for (words, keys) in [
        (
            &["ls", "--json", "--sort", "waiting", "-n", "1"][..],
            &["b"][..],
        ),
        (&["ls", "--json", "--sort", "key"], &["a", "b", "c"]),
        (
            &["ls", "--json", "--sort", "held", "--limit", "2"],
            &["a", "b"],
        ),
    ] {
        let listed = run(&server.url(), words).await;
        let listed = lines(&listed);
        let listed: Vec<_> = listed
            .iter()
            .map(|lock| lock["key"].as_str().unwrap())
            .collect();
        assert_eq!(listed, keys, "{words:?}");
    }
    let two = run(&server.url(), &["ls", "--json", "-n", "2"]).await;
    assert_eq!(lines(&two).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_prefix_is_no_part_of_the_keys() {
    let server = RedisServer::start().await;
    let locks = super::kit::builder(&server)
        .prefix("app[1]:")
        .build()
        .await
        .unwrap();
    let _guard = hold(&locks, "order:42").await;
    let _other = hold(&process(&server).await, "app1:order:42").await;
    let listed = run(&server.url(), &["ls", "--prefix", "app[1]:", "--json"]).await;
    let [lock] = &lines(&listed)[..] else {
        panic!("{listed:?}")
    };
    assert_eq!(lock["key"], "order:42");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_not_utf8_is_mentioned_in_a_list() {
    let server = RedisServer::start().await;
    let _guard = hold(&process(&server).await, "order").await;
    let lock = "hset \"a\\xff\" 8b1c1a3e-0000-4000-8000-000000000000:1 1";
    server.ask(lock).await;
    for words in [&["ls", "--json"][..], &["ls", "--json", "--sort", "key"]] {
        let listed = run(&server.url(), words).await;
        assert_eq!((listed.code, lines(&listed).len()), (Some(0), 1));
        let said =
            "reentry: skipped 1 key that is not valid UTF-8; it may be a lock of another program\n";
        assert_eq!(listed.err, said);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_list_is_a_note_at_a_terminal_and_nothing_in_a_pipe() {
    let server = RedisServer::start().await;
    let listed = run(&server.url(), &["ls"]).await;
    assert_eq!((listed.code, &*listed.out, &*listed.err), (Some(0), "", ""));
    for (words, shown) in [
        (&["ls"][..], "no locks\r\n"),
        (&["ls", "--sort", "key"], "no locks\r\n"),
        (&["ls", "--json"], ""),
    ] {
        let mut terminal = at_terminal(reentry_at(&server, words));
        // A line of progress may come first, which is removed.
        let all = terminal.exp_eof().unwrap();
        let left = all.rsplit("\u{1b}[2K").next();
        assert_eq!(left, Some(shown), "{words:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_at_a_terminal_shows_holders_in_the_remaining_width() {
    let server = RedisServer::start().await;
    let name = "a service with quite a long name of its own";
    let locks = super::kit::builder(&server).name(name).build().await;
    let _guard = hold(&locks.unwrap(), "order:42").await;
    let place = format!(":{}@{} ", std::process::id(), host(&server).await);
    // How much of the name fits depends on the digits of the process.
    for (columns, is_cut) in [(80, true), (200, false)] {
        let screen = Screen::start(reentry_at(&server, &["ls"]), 24, columns);
        let is_shown = |text: &str| {
            let row = text.lines().find(|line| line.starts_with("order:42"));
            row.is_some_and(|row| {
                let is_whole = row.contains(&format!("{name}{place}"));
                row.contains(&place)
                    && is_whole != is_cut
                    && row.contains('…') == is_cut
                    && row.trim_end().ends_with(" 0")
            })
        };
        screen.until("the lock in one line", is_shown).await;
    }
}

/// The host of this process, as others see it.
async fn host(server: &RedisServer) -> String {
    let listed = run(&server.url(), &["ls", "--json"]).await;
    let host = &lines(&listed)[0]["holders"][0]["process"]["host"];
    host.as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_scan_shows_its_progress_at_a_terminal() {
    let server = RedisServer::start().await;
    // So many locks that a list of them does not fit into a pipe.
    let locks = process(&server).await;
    let mut guards = Vec::new();
    for number in 0..2_000 {
        guards.push(hold(&locks, &format!("order:{number:0>100}")).await);
    }
    // The rest is read only after the time without a progress line.
    let script = r#""$0" "$@" | { read -r head; sleep 0.2; cat >/dev/null; }"#;
    let mut terminal = at_terminal(within_script(script, &reentry_at(&server, &["ls"])));
    terminal.exp_regex(r"\d+ % of the keys, \d+ locks").unwrap();
    // The line is removed again.
    let rest = terminal.exp_eof().unwrap();
    assert!(rest.ends_with("\r\u{1b}[2K"), "{rest:?}");
}

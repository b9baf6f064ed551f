//! The columns of the tables are aligned, whatever the keys and the names contain.

use unicode_width::UnicodeWidthStr;

use super::kit::{builder, run};
use super::screen::Screen;
use crate::program::reentry_at;
use crate::support::server::RedisServer;
use crate::support::wait::{DEADLINE, eventually};

/// Wide characters, combining marks, an emoji with a modifier, one with a variation selector, and control characters.
const KEYS: [&str; 6] = [
    "order:42",
    "注文:42",
    "cafe\u{301}:한국어",
    "🔒👍🏽🇪🇺",
    "❤\u{fe0f}\u{200d}🔥",
    "a\u{1b}[2J\t\u{9b}",
];

const NAME: &str = "注文サービス🔒cafe\u{301}";

/// The cell at which this word begins.
fn at(line: &str, word: &str) -> Option<usize> {
    Some(line[..line.find(word)?].width())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_counts_cells_and_shows_no_control_character() {
    let server = RedisServer::start().await;
    let locks = builder(&server).name(NAME).build().await.unwrap();
    let mut guards = Vec::new();
    for key in KEYS {
        guards.push(locks.lock(key).await.unwrap());
    }
    let listed = run(&server.url(), &["ls", "--sort", "key"]).await.out;
    let lines: Vec<_> = listed.lines().collect();
    assert_eq!(lines.len(), 1 + KEYS.len(), "{listed}");
    for line in &lines[1..] {
        assert_eq!(at(line, "exclusive"), at(lines[0], "MODE"), "{listed}");
        assert_eq!(at(line, "注文サ"), at(lines[0], "HOLDER  "), "{listed}");
        assert_eq!(line.width(), lines[0].width(), "{listed}");
    }
    let controls = |text: &str| text.contains(|it: char| it.is_control() && it != '\n');
    assert!(!controls(&listed), "{listed:?}");

    let waiting = builder(&server).name(NAME).build().await.unwrap();
    let other = builder(&server).name(NAME).build().await.unwrap();
    for (locks, count) in [(waiting, 1), (other, 2)] {
        tokio::spawn(async move { drop(locks.lock(KEYS[1]).await) });
        let waits = async || waiting_for(&server, KEYS[1]).await == count;
        eventually(DEADLINE, "it waits", waits).await;
    }
    let shown = run(&server.url(), &["show", KEYS[1]]).await.out;
    let head = shown.lines().find(|it| it.contains("WANTS")).unwrap();
    let rows: Vec<_> = shown.lines().skip_while(|it| *it != head).skip(1).collect();
    assert_eq!(rows.len(), 2, "{shown}");
    for row in rows {
        assert_eq!(at(row, "exclusive"), at(head, "WANTS"), "{shown}");
    }
    assert!(!controls(&shown), "{shown:?}");

    let mut screen = Screen::start(reentry_at(&server, &["watch"]), 24, 120);
    let is_whole = |text: &str| {
        let rows = text.lines().filter(|it| it.contains("exclusive"));
        rows.count() == KEYS.len() && text.contains("q quit")
    };
    screen.until("all locks", is_whole).await;
    let text = screen.text();
    let head = text.lines().find(|it| it.contains("MODE")).unwrap();
    let rows: Vec<_> = text.lines().filter(|it| it.contains("exclusive")).collect();
    assert_eq!(rows.len(), KEYS.len(), "{text}");
    for row in rows {
        assert_eq!(at(row, "exclusive"), at(head, "MODE"), "{text}");
        assert_eq!(at(row, "注文サ"), at(head, "HOLDER "), "{text}");
        assert_eq!(row.trim_end().width(), head.trim_end().width(), "{text}");
    }
    screen.press("q");
    assert_eq!(screen.code().await, 0);
}

/// The number of processes that wait for a lock.
async fn waiting_for(server: &RedisServer, key: &str) -> u64 {
    let locks = builder(server).name(NAME).build().await.unwrap();
    let info = locks.admin().inspect(key).await.unwrap();
    info.map_or(0, |info| info.waiting_processes)
}

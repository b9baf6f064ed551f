//! The example `recursive`: its output as two tasks and as two processes. Ctrl-C leaves nothing behind.

use reentry::__admin::Ids as _;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::support::{Child, RedisServer, connect};

/// The prefixes of the lines of a contender whose order is certain.
const STORY: [&str; 14] = [
    "wants order:42",
    "has the lock after",
    "  reads the order, at depth 1",
    "re-enters: depth 2",
    "    charges the card, at depth 2",
    "  prints the label, at depth 1",
    "re-enters: depth 2",
    "    packs parcel 1, at depth 2",
    "re-enters: depth 3",
    "      packs parcel 2, at depth 3",
    "      closes parcel 2, at depth 3",
    "    closes parcel 1, at depth 2",
    "  ships the order, at depth 1",
    "has released the lock after",
];

/// The speaker of a line, and the text.
type Line = (String, String);

/// The program, which may be ended as from a terminal.
fn start(args: &[&str], redis: Option<&RedisServer>) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_recursive"));
    command.args(args).env_remove("REDIS_URL").process_group(0);
    if let Some(redis) = redis {
        command.env("REDIS_URL", redis.url());
    }
    Child::run("the example", &mut command)
}

/// The next line, which begins with the time.
async fn next(example: &mut Child) -> Option<Line> {
    let line = example.next_line().await?;
    let (_, said) = line.split_once("  ").expect("a time");
    let (name, text) = said.split_at_checked(6).expect("a name");
    Some((name.trim().to_owned(), text.to_owned()))
}

/// All lines until it ends successfully.
async fn all(mut example: Child) -> Vec<Line> {
    let mut lines = Vec::new();
    while let Some(line) = next(&mut example).await {
        lines.push(line);
    }
    assert!(example.finished().await, "{lines:#?}");
    lines
}

/// Waits until a contender waits for another one. Returns the text.
async fn until_waiting(example: &mut Child, name: &str) -> String {
    while let Some((who, text)) = next(example).await {
        if who == name && text.starts_with("has waited ") {
            return text;
        }
    }
    panic!("{name} does not wait");
}

/// Both contenders print their stories, and bert's continues when anna's is over. Returns their processes.
fn check(lines: &[Line]) -> [&str; 2] {
    let place = |name: &str, begin: &str| {
        let found = |(who, text): &Line| who == name && text.starts_with(begin);
        let place = lines.iter().position(found);
        place.unwrap_or_else(|| panic!("{name} does not say {begin:?}: {lines:#?}"))
    };
    for name in ["anna", "bert"] {
        let told = lines.iter().filter(|(who, _)| who == name);
        let part = |(_, text): &Line| STORY.into_iter().find(|part| text.starts_with(part));
        let told: Vec<_> = told.filter_map(part).collect();
        assert_eq!(told, STORY, "{name}: {lines:#?}");
        let renewed = &lines[place(name, "has its lease renewed: it lasts ")].1;
        assert!(renewed.ends_with("s from now"), "{renewed}");
    }
    let waits = &lines[place("bert", "has waited ")].1;
    assert!(
        waits.contains(" behind anna, who has had the lock for "),
        "{waits}"
    );
    let (over, next) = (place("anna", "  ships"), place("bert", "has the lock"));
    assert!(over < next, "{lines:#?}");
    ["anna", "bert"].map(|name| {
        let wants = &lines[place(name, "wants order:42")].1;
        wants.rsplit(' ').next().unwrap()
    })
}

#[tokio::test]
async fn two_tasks_show_who_waits_behind_whom() {
    let lines = all(start(&[], None)).await;
    let [anna, bert] = check(&lines);
    assert_eq!(anna, bert);
}

#[tokio::test]
async fn two_processes_show_who_waits_behind_whom() {
    let server = RedisServer::start().await;
    let lines = all(start(&[], Some(&server))).await;
    let [anna, bert] = check(&lines);
    assert_ne!(anna, bert);
    assert!(server.leftovers().await.is_empty());
}

#[tokio::test]
async fn ctrl_c_ends_both_processes_and_leaves_no_lock() {
    let server = RedisServer::start().await;
    let mut example = start(&[], Some(&server));
    until_waiting(&mut example, "bert").await;
    example.ctrl_c();
    let lines = all(example).await;
    let finishes = |(_, text): &Line| text.contains("ships the order");
    assert!(!lines.iter().any(finishes), "{lines:#?}");
    assert!(server.leftovers().await.is_empty());
}

/// The other process does not know its name, and it does not know the name of the other.
#[tokio::test]
async fn a_contender_of_its_own_waits_behind_a_call_graph() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    let guard = locks.lock("order:42").await.unwrap();
    let holder = guard.held().hold_id().to_string();
    let mut cleo = start(&["--contender", "cleo"], Some(&server));
    let waits = until_waiting(&mut cleo, "cleo").await;
    let behind = format!(" behind {}, who has", &holder[24..32]);
    assert!(waits.contains(&behind), "{waits}");
    guard.release().await.unwrap();
    let told = all(cleo).await;
    let told: Vec<_> = told.iter().map(|(_, text)| &**text).collect();
    assert!(
        told.iter().any(|text| text.contains("ships the order")),
        "{told:#?}"
    );
    assert!(server.leftovers().await.is_empty());
}

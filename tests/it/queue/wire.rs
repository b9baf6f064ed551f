//! A client in another language, written from `docs/wire.md` alone: it assembles the scripts, excludes the holders of this
//! crate, waits in their queue, and hands the lock on.

use std::fs;
use std::path::Path;

use futures_util::StreamExt;
use redis::aio::MultiplexedConnection;
use redis::{Client, Value, cmd};

use crate::ROOT;
use crate::support::rig::KEY;
use crate::support::{DEADLINE, RedisServer, Turns, unhurried, until_queued, within};

const CALLER: &str = "9f53260c-ebdd-4902-a978-d59eadceab75";
const INBOX: &str = "reentry:inbox:bb8f513d-87db-4407-9076-11d510c2a871";
const TTL: &str = "60000";

fn read(path: &str) -> String {
    let path = Path::new(ROOT).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The script as a client assembles it from its file, its parts, and the numbers of the page.
fn assemble(script: &str) -> String {
    let mut text = read(&format!("lua/{script}.lua"));
    while let Some((_, include)) = text.split_once("-- include ") {
        let part = include.lines().next().unwrap().to_owned();
        let code = read(&format!("lua/parts/{part}.lua"));
        text = text.replace(&format!("-- include {part}\n"), &code);
    }
    let page = read("docs/wire.md").replace('\n', " ");
    let (_, numbers) = page.split_once("these names by their numbers:").unwrap();
    let numbers = numbers.split('.').next().unwrap();
    for number in numbers.split(',') {
        let (name, number) = number.trim().split_once(' ').unwrap();
        text = text.replace(name.trim_matches('`'), number);
    }
    text
}

/// The client, with one connection.
struct OtherClient(MultiplexedConnection);

impl OtherClient {
    async fn call(&mut self, script: &str, args: &[&str]) -> Value {
        let keys = [
            KEY.to_owned(),
            format!("reentry:queue:{{{KEY}}}:{KEY}"),
            format!("reentry:entries:{{{KEY}}}:{KEY}"),
        ];
        let keys = if script == "renew" { &keys[..1] } else { &keys };
        let mut eval = cmd("EVAL");
        eval.arg(assemble(script))
            .arg(keys.len())
            .arg(keys)
            .arg(args);
        let replied = eval.query_async(&mut self.0).await;
        replied.unwrap_or_else(|error| panic!("{script}: {error}"))
    }
}

fn hold(number: u32) -> String {
    format!("{CALLER}:{number}")
}

#[tokio::test]
async fn a_client_that_was_written_from_the_page_shares_locks_with_this_crate() {
    let server = RedisServer::start().await;
    let mut client = OtherClient(server.connection().await);
    let locks = unhurried(&server).build().await.unwrap();

    // It excludes this crate, and hands the lock to a waiter of it.
    let taken = client.call("acquire", &[&hold(0), TTL]).await;
    assert!(matches!(taken, Value::Int(_)), "{taken:?}");
    assert!(locks.lock(KEY).try_acquire().await.unwrap().is_none());
    assert_eq!(client.call("renew", &[TTL, &hold(0)]).await, Value::Int(0));
    let mut turns = Turns::default();
    turns.come(&locks, "ours").await;
    until_queued(&server, 1).await;
    assert_eq!(client.call("release", &[&hold(0)]).await, Value::Int(1));
    assert_eq!(turns.names().await, ["ours"]);

    // It waits for this crate, and a message says that it has the lock.
    let guard = locks.lock(KEY).await.unwrap();
    let messages = Client::open(server.url()).unwrap();
    let mut messages = messages.get_async_pubsub().await.unwrap();
    messages.subscribe(INBOX).await.unwrap();
    let waits = [&hold(1), TTL, INBOX, "2000", TTL, ""];
    let waits = client.call("acquire", &waits).await;
    let is_busy = matches!(&waits, Value::Array(reply) if reply[0] == Value::Int(0));
    assert!(is_busy, "{waits:?}");
    guard.release().await.unwrap();
    let message = within(DEADLINE, "the message", messages.on_message().next()).await;
    let message: String = message.unwrap().get_payload().unwrap();
    assert!(message.starts_with(&hold(1)), "{message}");
    assert!(message.ends_with(KEY), "{message}");
    assert_eq!(client.call("renew", &[TTL, &hold(1)]).await, Value::Int(0));

    // A release may be repeated, and no acquire of its hold comes after it.
    let ends = "full unanswered";
    let released = client.call("release", &[&hold(1), ends, INBOX]).await;
    assert_eq!(released, Value::Int(1));
    let repeated = client.call("release", &[&hold(1), ends, INBOX]).await;
    assert_eq!(repeated, Value::Int(0));
    let late = client.call("acquire", &[&hold(1), TTL]).await;
    assert_eq!(late, Value::Array(vec![Value::Int(-1)]));
    assert!(locks.lock(KEY).try_acquire().await.unwrap().is_some());
}

#[test]
fn the_page_of_the_protocol_names_every_script() {
    let page = read("docs/wire.md");
    for entry in fs::read_dir(Path::new(ROOT).join("lua")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let is_script = path.is_file();
        assert!(!is_script || page.contains(&format!("`{name}`")), "{name}");
    }
}

//! Tests of the test support. If these parts did not work, other tests would pass that should fail. They are a proxy
//! that works, and timeouts that do not end by themselves.

use crate::support::Direction::{ToClient, ToServer};
use crate::support::database::program;
use crate::support::{Action, Cut, DEADLINE, Proxy, RedisServer, eventually, within};
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, AsyncConnectionConfig, Client, RedisResult};
use std::fs;
use std::io::Result;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const INCR: &[u8] = b"INCR key\r\n";

async fn behind_a_proxy() -> (RedisServer, Proxy) {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port());
    (server, proxy)
}

async fn dial(proxy: &Proxy) -> TcpStream {
    let address = ("127.0.0.1", proxy.port());
    TcpStream::connect(address).await.unwrap()
}

async fn send(stream: &mut TcpStream, request: &[u8]) {
    stream.write_all(request).await.unwrap();
}

/// The next text on the stream; empty at its end.
async fn hear(stream: &mut TcpStream) -> Result<String> {
    let mut buffer = [0; 1024];
    let read = stream.read(&mut buffer);
    let length = within(DEADLINE, "bytes, an end or an error", read).await?;
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

async fn value(server: &RedisServer) -> i64 {
    let value: Option<i64> = server.connection().await.get("key").await.unwrap();
    value.unwrap_or(0)
}

async fn eventually_is(server: &RedisServer, expected: i64) {
    let what = format!("the key is {expected}");
    eventually(DEADLINE, &what, async || value(server).await == expected).await;
}

async fn client(proxy: &Proxy) -> MultiplexedConnection {
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(DEADLINE));
    let client = Client::open(proxy.url()).unwrap();
    let connection = client.get_multiplexed_async_connection_with_config(&config);
    connection.await.unwrap()
}

#[tokio::test]
async fn a_client_library_cut_before_during_and_after_execution() {
    let (server, proxy) = behind_a_proxy().await;
    for (how, cut, executed) in [
        (ToServer, Action::CutInstead(Cut::Reset), 0),
        (ToServer, Action::CutClientAfter(Cut::Fin), 1),
        (ToServer, Action::CutAtAnswer(Cut::Reset), 2),
        (ToClient, Action::CutInstead(Cut::Fin), 3),
    ] {
        let mut client = client(&proxy).await;
        let needle = if how == ToServer {
            b"INCRBY".as_slice()
        } else {
            b":"
        };
        proxy.on_next(how, needle, cut);
        let answer: RedisResult<i64> = client.incr("key", 1).await;
        assert!(answer.unwrap_err().is_unrecoverable_error());
        eventually_is(&server, executed).await;
    }
    assert_eq!(proxy.hits(), 4);
    let counted: i64 = client(&proxy).await.incr("key", 1).await.unwrap();
    assert_eq!(counted, 4);
}

#[tokio::test]
async fn a_held_request_executes_late_though_its_client_is_gone() {
    let (server, proxy) = behind_a_proxy().await;
    let mut stream = dial(&proxy).await;
    proxy.hold(ToServer);
    send(&mut stream, INCR).await;
    proxy.wait_until_held(ToServer, b"INCR").await;
    drop(stream);
    proxy.wait_for_open(0).await;
    assert_eq!(value(&server).await, 0);
    proxy.release(ToServer);
    eventually_is(&server, 1).await;

    let mut stream = dial(&proxy).await;
    proxy.on_next(ToServer, b"INCR", Action::Hold);
    send(&mut stream, INCR).await;
    proxy.wait_until_held(ToServer, b"INCR").await;
    proxy.cut_clients(Cut::Reset).await;
    assert!(hear(&mut stream).await.is_err());
    let mut other = dial(&proxy).await;
    send(&mut other, b"SET key 10\r\n").await;
    assert_eq!(hear(&mut other).await.unwrap(), "+OK\r\n");
    proxy.release(ToServer);
    eventually_is(&server, 11).await;
}

#[tokio::test]
async fn a_black_hole_accepts_and_never_answers_until_it_is_healed() {
    let (server, proxy) = behind_a_proxy().await;
    let mut old = dial(&proxy).await;
    send(&mut old, INCR).await;
    hear(&mut old).await.unwrap();
    proxy.blackhole();
    let mut new = dial(&proxy).await;
    send(&mut old, INCR).await;
    send(&mut new, INCR).await;
    proxy.wait_for_open(2).await;
    let wait = Duration::from_millis(50);
    let both = async { tokio::join!(hear(&mut old), hear(&mut new)) };
    assert!(tokio::time::timeout(wait, both).await.is_err());
    proxy.cut_all(Cut::Reset).await;
    proxy.heal().await;
    let mut stream = dial(&proxy).await;
    send(&mut stream, INCR).await;
    assert_eq!(hear(&mut stream).await.unwrap(), ":2\r\n");
    assert_eq!(value(&server).await, 2);
}

#[tokio::test]
async fn a_lost_message_leaves_the_subscription_alive() {
    let (server, proxy) = behind_a_proxy().await;
    let mut stream = dial(&proxy).await;
    send(&mut stream, b"SUBSCRIBE news\r\n").await;
    assert!(hear(&mut stream).await.unwrap().contains("subscribe"));
    proxy.on_next(ToClient, b"first", Action::Lose);
    let mut publisher = server.connection().await;
    let _: i64 = publisher.publish("news", "first").await.unwrap();
    proxy.wait_for_hits(1).await;
    let _: i64 = publisher.publish("news", "second").await.unwrap();
    let message = hear(&mut stream).await.unwrap();
    assert!(message.contains("second") && !message.contains("first"));
}

#[tokio::test]
async fn a_request_executes_twice_or_again_later() {
    let (server, proxy) = behind_a_proxy().await;
    let mut stream = dial(&proxy).await;
    proxy.on_next(ToServer, b"INCR", Action::Twice);
    send(&mut stream, INCR).await;
    assert_eq!(hear(&mut stream).await.unwrap(), ":2\r\n");

    proxy.on_next(ToServer, b"INCR", Action::Record);
    send(&mut stream, INCR).await;
    assert_eq!(hear(&mut stream).await.unwrap(), ":3\r\n");
    assert_eq!(proxy.recorded(), [INCR]);
    assert_eq!(proxy.replay(&proxy.recorded()[0]).await, b":4\r\n");
    assert_eq!(value(&server).await, 4);
}

/// The line of `source` that connects with the default timeouts to a server that may exist.
fn hasty(source: &str) -> Option<&str> {
    // A literal URL is `memory:`, or that of a server that does not exist.
    const SPECIFIC: [&str; 4] = ["_timeout(", "\"memory:\"", "connect(\"", "builder(\""];
    let mut begins = source.match_indices("Locks::").map(|(at, _)| &source[at..]);
    let is_hasty = |code: &&str| {
        // Two statements are checked, because a builder is often first assigned to a variable.
        let statements: String = code.split(';').take(2).collect();
        let has = |part: &&str| statements.contains(*part);
        let connects = code.starts_with("Locks::connect(")
            || code.starts_with("Locks::builder(")
            || code.starts_with("Locks::builder_with_pool(");
        connects && !SPECIFIC.iter().any(has)
    };
    begins.find(is_hasty).and_then(|code| code.lines().next())
}

/// Every source below this folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut sources = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources.extend(self::sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push(path);
        }
    }
    sources
}

/// Two seconds for a connection and one for a response are short on a busy machine. If they are not its subject, a test
/// connects with `connect`, `patient` or `patient_at`.
#[test]
fn no_test_relies_on_the_default_timeouts() {
    const EXEMPT: [&str; 3] = [
        // The subject of these files is a connection that fails.
        "faults/connect_fails.rs",
        "setup/secrets.rs",
        // This file contains the examples below.
        "setup/support_works.rs",
    ];
    let tests = Path::new(crate::ROOT).join("tests");
    for path in sources(&tests) {
        if !EXEMPT.iter().any(|exempt| path.ends_with(exempt)) {
            let source = fs::read_to_string(&path).unwrap();
            assert_eq!(hasty(&source), None, "{}", path.display());
        }
    }
    assert!(hasty("let locks = Locks::connect(server.url());").is_some());
    assert!(hasty("Locks::builder(url).build()").is_some());
    assert!(hasty("let builder = Locks::builder_with_pool(pool); builder.build()").is_some());
    assert!(hasty("Locks::connect(\"memory:\").await; Locks::builder(\"memory:\")").is_none());
}

#[test]
#[should_panic(expected = "apt-get install postgresql mariadb-server sqlite3")]
fn a_missing_database_is_named_with_what_installs_it() {
    program("no-such-database");
}

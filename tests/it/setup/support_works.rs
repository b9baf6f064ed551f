//! The test support itself: servers, counting, TLS, child processes, the classic scripts.
//! The proxy has a file of its own, `support_proxy_works.rs`.

use crate::support::classic::{Unlocked, classic_lock, classic_unlock};
use crate::support::program::program;
use crate::support::{Child, DEADLINE, RedisServer, TlsRedisServer, child, eventually, within};
use redis::{AsyncCommands, Client, cmd};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

async fn is_down(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).await.is_err()
}

#[tokio::test]
async fn servers_are_independent_and_end_with_their_test() {
    let (one, other) = (RedisServer::start().await, RedisServer::start().await);
    let _: () = one.connection().await.set("key", 1).await.unwrap();
    let there: bool = other.connection().await.exists("key").await.unwrap();
    assert!(!there);
    let (port, dir) = (one.port(), one.dir().to_owned());
    drop(one);
    assert!(is_down(port).await && !dir.exists());
}

#[tokio::test]
async fn a_server_stays_on_its_port_over_every_restart() {
    let server = RedisServer::start().await;
    let port = server.port();
    let there = async || -> bool { server.connection().await.exists("key").await.unwrap() };

    let _: () = server.connection().await.set("key", 1).await.unwrap();
    server.restart_with_data().await;
    assert!(there().await);
    server.restart_empty().await;
    assert!(!there().await);

    server.stop();
    assert!(is_down(port).await);
    server.start_again().await;
    assert!(!is_down(port).await);
    assert_eq!(server.port(), port);
}

#[tokio::test]
async fn a_server_takes_further_options_and_a_password() {
    let options = ["--requirepass", "secret", "--maxmemory", "7mb"];
    let server = RedisServer::start_with(&options).await;
    assert_eq!(server.ask("PING").await, "PONG");
    let client = Client::open(server.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let limit: BTreeMap<String, u64> = cmd("CONFIG")
        .arg(&["GET", "maxmemory"])
        .query_async(&mut connection)
        .await
        .unwrap();
    assert_eq!(limit["maxmemory"], 7 << 20);
}

#[tokio::test]
#[should_panic(expected = "'maxclients \"nonsense\"'")]
async fn a_server_that_does_not_come_up_says_why() {
    RedisServer::start_with(&["--maxclients", "nonsense"]).await;
}

#[tokio::test]
async fn child_with_a_named_server() {
    let Some(role) = child::role("child_with_a_named_server") else {
        return;
    };
    let server = tokio::spawn(RedisServer::start()).await;
    match &server {
        Ok(server) => role.say(format!("answers {}", server.ask("PING").await)),
        Err(panic) => role.say(format!("panics {panic}")),
    }
    // Until it is killed, and not while it ends its server.
    role.order().await;
}

#[tokio::test]
async fn a_named_server_is_started_and_a_missing_one_is_told() {
    let said = async |server: &str, prefix| {
        let variables = [("REENTRY_SERVER", server)];
        let mut child = Child::spawn(module_path!(), "child_with_a_named_server", &variables);
        child.wait_for_line(prefix).await
    };
    let program = program().display().to_string();
    assert_eq!(said(&program, "answers").await, "PONG");
    let panic = said("/no/such/server", "panics").await;
    let told = "REENTRY_SERVER names /no/such/server, which is no file";
    assert!(panic.contains(told), "{panic}");
}

#[tokio::test]
async fn a_paused_server_keeps_what_arrives_until_it_is_resumed() {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    server.pause();
    server.pause();
    let answer = tokio::spawn(async move { connection.incr("key", 1).await });
    server.resume();
    let value: i64 = within(DEADLINE, "the answer", answer)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(value, 1);
}

#[tokio::test]
async fn calls_are_counted_exactly_and_without_the_support_itself() {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    server.reset_stats().await;
    let calls = server.commandstats().await;
    // Servers before 7.0 do not tell the subcommands apart.
    let names = ["config|resetstat", "config"];
    assert!(
        names.iter().any(|name| calls.contains_key(*name)),
        "{calls:?}"
    );
    let before = server.commandstats().await;
    for _ in 0..3 {
        let _: i64 = connection.hincr("hash", "field", 1).await.unwrap();
    }
    let _: () = cmd("PING").query_async(&mut connection).await.unwrap();
    drop(server.connection().await);
    let expected = [("hincrby".to_owned(), 3), ("ping".to_owned(), 1)];
    assert_eq!(server.calls_since(&before).await, expected.into());
}

#[tokio::test]
async fn a_tls_server_answers_clients_that_trust_its_authority() {
    let server = TlsRedisServer::start().await;
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_file(server.ca_file()).unwrap();
    roots.add(authority).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    for name in ["localhost", "127.0.0.1"] {
        let plain = TcpStream::connect(("127.0.0.1", server.port()));
        let name = ServerName::try_from(name).unwrap();
        let mut stream = connector.connect(name, plain.await.unwrap()).await.unwrap();
        stream.write_all(b"PING\r\n").await.unwrap();
        let mut answer = [0; 7];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"+PONG\r\n");
    }
    assert_eq!(server.server.ask("PING").await, "PONG");
}

#[tokio::test]
async fn the_classic_scripts_count_depth_and_exclude_others() {
    let server = RedisServer::start().await;
    let mut connection = server.connection().await;
    let connection = &mut connection;
    assert_eq!(classic_lock(connection, "lock", "a:1", 60_000).await, None);
    assert_eq!(classic_lock(connection, "lock", "a:1", 60_000).await, None);
    let left = classic_lock(connection, "lock", "b:1", 60_000).await;
    assert!(left.is_some_and(|ms| ms > 0 && ms <= 60_000), "{left:?}");
    for (holder, outcome) in [
        ("b:1", Unlocked::NotHeld),
        ("a:1", Unlocked::StillHeld),
        ("a:1", Unlocked::Freed),
        ("a:1", Unlocked::NotHeld),
    ] {
        let unlocked = classic_unlock(connection, "lock", holder, 60_000).await;
        assert_eq!(unlocked, outcome);
    }
    let there: bool = connection.exists("lock").await.unwrap();
    assert!(!there);
}

#[tokio::test]
async fn child_that_repeats() {
    let Some(role) = child::role("child_that_repeats") else {
        return;
    };
    role.say(role.var("GREETING"));
    loop {
        match role.order().await.as_str() {
            "end" => return,
            "fail" => std::process::exit(1),
            order => role.say(format!("heard {order}")),
        }
    }
}

#[tokio::test]
async fn a_child_says_hears_stops_and_ends() {
    let greeting = [("GREETING", "hello")];
    let mut child = Child::spawn(module_path!(), "child_that_repeats", &greeting);
    child.wait_for_line("hello").await;
    child.tell("this");
    assert_eq!(child.wait_for_line("heard").await, "this");
    child.sigstop();
    child.tell("that");
    child.sigcont();
    assert_eq!(child.wait_for_line("heard").await, "that");
    child.tell("end");
    assert!(child.finished().await);

    let mut child = Child::spawn(module_path!(), "child_that_repeats", &greeting);
    child.tell("fail");
    assert!(!child.finished().await);

    let mut child = Child::spawn(module_path!(), "child_that_repeats", &greeting);
    child.wait_for_line("hello").await;
    child.sigkill();
    assert!(!child.finished().await);
}

#[tokio::test]
#[should_panic(expected = "ended before it said")]
async fn a_role_that_does_not_exist_is_noticed() {
    Child::spawn(module_path!(), "no_such_role", &[])
        .wait_for_line("x")
        .await;
}

#[tokio::test]
async fn child_with_a_server() {
    let Some(role) = child::role("child_with_a_server") else {
        return;
    };
    let server = RedisServer::start().await;
    server.pause();
    role.say(format!("dir {}", server.dir().display()));
    role.say(format!("port {}", server.port()));
    role.order().await;
}

#[tokio::test]
async fn a_server_dies_with_a_killed_test_process_even_while_paused() {
    let mut child = Child::spawn(module_path!(), "child_with_a_server", &[]);
    let dir = PathBuf::from(child.wait_for_line("dir").await);
    let port = child.wait_for_line("port").await.parse().unwrap();
    assert!(!is_down(port).await && dir.exists());
    child.sigkill();
    let gone = async || is_down(port).await && !dir.exists();
    eventually(DEADLINE, "the server and its folder are gone", gone).await;
}

#[tokio::test]
#[should_panic(expected = "not within 30ms: pigs fly")]
async fn a_condition_that_never_holds_is_named() {
    let short = std::time::Duration::from_millis(30);
    eventually(short, "pigs fly", async || false).await;
}

/// The line of `source` that connects with the default timeouts to a server that may be there.
fn hasty(source: &str) -> Option<&str> {
    // A literal URL is `memory:`, or that of a server that is not there.
    const SPECIFIC: [&str; 4] = ["_timeout(", "\"memory:\"", "connect(\"", ".url(\""];
    let mut begins = source.match_indices("Locks::").map(|(at, _)| &source[at..]);
    let is_hasty = |code: &&str| {
        // Two statements, since a builder is often given a name first.
        let statements: String = code.split(';').take(2).collect();
        let has = |part: &&str| statements.contains(*part);
        let connects = code.starts_with("Locks::connect(")
            || code.starts_with("Locks::builder()") && [".url(", ".pool("].iter().any(has);
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

/// Two seconds for a connection and one for an answer are little on a busy machine: where they are not
/// the subject, a test connects by `connect`, `patient` or `patient_at`.
#[test]
fn no_test_relies_on_the_default_timeouts() {
    const EXEMPT: [&str; 4] = [
        // A connection that fails is the subject of these.
        "faults/connect_fails.rs",
        "setup/secrets.rs",
        // Its workload sets the timeouts.
        "runtime_ends/child.rs",
        // This file has the examples below.
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
    assert!(hasty("Locks::builder().url(url).build()").is_some());
    assert!(hasty("let builder = Locks::builder().pool(pool); builder.build()").is_some());
    assert!(
        hasty("Locks::connect(\"memory:\").await; Locks::builder().url(\"memory:\")").is_none()
    );
}

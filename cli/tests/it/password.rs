//! `--password-file`: the password of the servers is in a file.

use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::page::shell;
use crate::program::{Ended, Running, end_of, reentry_at, reentry_for};
use crate::support::sentinel::{self, NAME};
use crate::support::server::RedisServer;
use crate::support::wait::{DEADLINE, eventually};
use crate::support::{Cluster, SentinelSet, cluster};

/// A password with characters that have a meaning in an address.
const PASSWORD: &str = "hunter2/@:%?#+é";

/// The address of a server, without a login or with a user.
fn address(server: &RedisServer, user: &str) -> String {
    format!("redis://{user}127.0.0.1:{}", server.port())
}

/// A file with this content.
fn file(folder: &TempDir, content: &str) -> PathBuf {
    let path = folder.path().join("password");
    fs::write(&path, content).unwrap();
    path
}

/// A server with the user `app`.
async fn server(password: &str) -> RedisServer {
    let server = RedisServer::start().await;
    let user = format!("ACL SETUSER app on >{password} ~* &* +@all");
    server.ask(&user).await;
    server
}

async fn with(command: Command, path: &Path) -> Ended {
    let mut command = command;
    command.env("REENTRY_PASSWORD_FILE", path);
    end_of(command).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_logs_in_with_the_password_of_the_file() {
    let (server, folder) = (server(PASSWORD).await, TempDir::new().unwrap());
    let socket = format!("unix://{}?user=app", server.socket().display());
    for content in [
        PASSWORD,
        &format!("{PASSWORD}\n"),
        &format!("{PASSWORD}\r\n"),
    ] {
        let path = file(&folder, content);
        for url in [&address(&server, "app@"), &socket] {
            for words in [
                &["run", "a", "--", "true"][..],
                &["ls"],
                &["doctor"],
                &["bench", "--rounds=1", "--pairs=1", "--callers=2"],
            ] {
                let ended = with(reentry_for(url, words), &path).await;
                assert_eq!(ended.code, Some(0), "{words:?} at {url}: {ended:?}");
            }
        }
    }
    let option = ["ls", "--password-file", folder.path().to_str().unwrap()];
    let ended = end_of(reentry_at(&server, &option)).await;
    assert_eq!(ended.code, Some(125), "a folder has no password: {ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_servers_of_an_address_have_the_password_of_the_file() {
    let nodes = &["--requirepass", "right"][..];
    let folder = TempDir::new().unwrap();
    let path = file(&folder, "right\n");
    let cluster = cluster::Config {
        nodes,
        ..Default::default()
    };
    let cluster = Cluster::start_with(cluster).await;
    let sentinels = sentinel::Config {
        nodes,
        ..Default::default()
    };
    let sentinels = SentinelSet::start_with(sentinels).await;
    for url in [
        format!("redis+cluster://{}", cluster.seeds()),
        format!("redis+sentinel://{}/{NAME}", sentinels.addresses()),
    ] {
        for words in [&["run", "a", "--", "true"][..], &["ls"], &["doctor"]] {
            let ended = with(reentry_for(&url, words), &path).await;
            assert_eq!(ended.code, Some(0), "{words:?} at {url}: {ended:?}");
        }
        let without = end_of(reentry_for(&url, &["run", "a", "--", "true"])).await;
        assert_eq!(without.code, Some(125), "{without:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_file_is_read_for_each_connection_and_a_pipe_once() {
    let (server, folder) = (server("first").await, TempDir::new().unwrap());
    let (path, url) = (file(&folder, "first"), address(&server, "app@"));
    let words = ["run", "a", "--", "sh", "-c", "echo up; read line"];
    let mut command = reentry_for(&url, &words);
    command.env("REENTRY_PASSWORD_FILE", &path);
    let mut run = Running::start(&mut command);
    run.says("up").await;
    file(&folder, "second");
    server.ask("ACL SETUSER app resetpass >second").await;
    assert_ne!(server.ask("CLIENT KILL USER app").await, "0");
    drop(run.input.take());
    // The release uses a connection that logged in with the second password.
    assert_eq!(run.code().await, Some(1));
    assert_eq!(server.ask("EXISTS a").await, "0");

    let script = "printf 'second\\n' | reentry run --password-file /dev/stdin a -- true";
    let mut piped = shell(&server, script);
    piped.env("REDIS_URL", &url);
    let ended = end_of(piped).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_names_the_file_and_not_the_password() {
    let (server, folder) = (server("right").await, TempDir::new().unwrap());
    let url = address(&server, "app@");
    let missing = folder.path().join("missing");
    let ended = with(reentry_at(&server, &["ls"]), &missing).await;
    assert_eq!(ended.code, Some(125), "{ended:?}");
    assert!(ended.err.contains(missing.to_str().unwrap()), "{ended:?}");
    let empty = file(&folder, "\n");
    let ended = with(reentry_at(&server, &["ls"]), &empty).await;
    assert_eq!(ended.code, Some(125), "{ended:?}");
    assert!(ended.err.contains("it is empty"), "{ended:?}");
    let wrong = file(&folder, "hunter2");
    for words in [
        &["ls"][..],
        &["run", "a", "true"],
        &["doctor"],
        &["--json", "ls"],
    ] {
        let ended = with(reentry_for(&url, words), &wrong).await;
        assert_eq!(ended.code, Some(125), "{words:?}: {ended:?}");
        assert!(!ended.err.contains("hunter2"), "{ended:?}");
    }
    let url = address(&server, "app:hunter3@");
    let ended = with(reentry_for(&url, &["ls"]), &wrong).await;
    assert_eq!(ended.code, Some(125), "{ended:?}");
    assert!(ended.err.contains("remove one of them"), "{ended:?}");
    assert!(!ended.err.contains("hunter"), "{ended:?}");
    // A command that uses no server needs no password.
    assert_eq!(
        with(reentry_for(&url, &["man"]), &missing).await.code,
        Some(0)
    );
}

/// A pipe may have no writer, or one that waits for a passphrase.
#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_a_command_that_waits_for_a_password() {
    let (server, folder) = (RedisServer::start().await, TempDir::new().unwrap());
    let path = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    for words in [&["run", "a", "--", "true"][..], &["hold", "a"], &["ls"]] {
        let mut command = reentry_at(&server, words);
        let mut waiting = Running::start(command.env("REENTRY_PASSWORD_FILE", &path));
        // A pipe can be opened for writing in this way as soon as a process reads it. The writer stays, and writes nothing.
        let writer = OnceCell::new();
        let reads = async || {
            let flags = OFlags::WRONLY | OFlags::NONBLOCK;
            let opened = rustix::fs::open(&path, flags, Mode::empty());
            opened.is_ok_and(|opened| writer.set(opened).is_ok())
        };
        eventually(DEADLINE, "the password is read", reads).await;
        waiting.signal(Signal::TERM);
        assert_eq!(waiting.code().await, None, "{words:?}");
    }
}

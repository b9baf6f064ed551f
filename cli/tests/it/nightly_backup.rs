//! `examples/nightly_backup.sh`, a script that uses `reentry run`.

use std::fs;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::page::shell;
use crate::program::{Ended, ended_of, locks_at};
use crate::support::server::RedisServer;
use crate::support::wait::{DEADLINE, eventually};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/nightly_backup.sh");

/// The source and the target of the backup.
struct Folders {
    source: TempDir,
    target: TempDir,
}

impl Folders {
    fn new() -> Self {
        let [source, target] = [(); 2].map(|()| TempDir::new().unwrap());
        fs::write(source.path().join("orders"), "42\n").unwrap();
        Self { source, target }
    }

    fn key(&self) -> String {
        format!("backup:{}", self.source.path().display())
    }

    fn backup(&self, server: &RedisServer) -> Ended {
        ended_of(&mut self.command(server))
    }

    fn command(&self, server: &RedisServer) -> Command {
        let mut command = shell(server, r#"exec "$0" "$@""#);
        command.arg(SCRIPT);
        command.args([self.source.path(), self.target.path()]);
        command
    }

    /// The files in the target, sorted.
    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.target.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[tokio::test]
async fn one_machine_makes_the_backup_and_the_others_leave() {
    let server = RedisServer::start().await;
    let folders = Folders::new();
    let first = folders.backup(&server);
    assert_eq!((first.code, &*first.err), (Some(0), ""));
    assert_eq!(folders.files(), ["backup.tar.gz", "token"]);
    let token = fs::read(folders.target.path().join("token")).unwrap();
    // The lock is still held, although the first run has ended.
    let second = folders.backup(&server);
    assert_eq!((second.code, &*second.err), (Some(0), ""));
    assert_eq!(
        fs::read(folders.target.path().join("token")).unwrap(),
        token
    );
}

#[tokio::test]
async fn a_backup_under_another_lock_takes_its_own() {
    let server = RedisServer::start().await;
    let locks = locks_at(&server).await;
    let folders = Folders::new();
    let mut command = shell(&server, r#"exec reentry run -k night -- "$0" "$@""#);
    command.arg(SCRIPT);
    command.args([folders.source.path(), folders.target.path()]);
    let ended = ended_of(&mut command);
    assert_eq!((ended.code, &*ended.err), (Some(0), ""));
    assert_eq!(folders.files(), ["backup.tar.gz", "token"]);
    let info = locks.inspect(folders.key()).await.unwrap().unwrap();
    let token = fs::read_to_string(folders.target.path().join("token")).unwrap();
    assert_eq!(info.token.unwrap().to_string(), token.trim());
}

#[tokio::test]
async fn an_older_token_replaces_no_newer_backup() {
    let server = RedisServer::start().await;
    let folders = Folders::new();
    fs::write(folders.target.path().join("token"), "9000000000000000\n").unwrap();
    let ended = folders.backup(&server);
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("is older than"), "{}", ended.err);
    assert_eq!(folders.files(), ["token"]);
}

#[tokio::test]
async fn a_backup_that_lost_its_lock_leaves_nothing_unfinished() {
    let server = RedisServer::start().await;
    let locks = locks_at(&server).await;
    let folders = Folders::new();
    // `tar` waits for a reader of this pipe for ever.
    let pipe = folders.source.path().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let tar = folders.target.path().join("bin/tar");
    fs::create_dir(tar.parent().unwrap()).unwrap();
    fs::write(
        &tar,
        format!("#!/bin/sh\necho begun >\"$2\"\ncat '{}'\n", pipe.display()),
    )
    .unwrap();
    assert!(
        Command::new("chmod")
            .arg("+x")
            .arg(&tar)
            .status()
            .unwrap()
            .success()
    );
    let mut command = folders.command(&server);
    let path = command
        .get_envs()
        .find(|(name, _)| *name == "PATH")
        .unwrap()
        .1
        .unwrap();
    let path = format!(
        "{}:{}",
        tar.parent().unwrap().display(),
        path.to_str().unwrap()
    );
    let backup = command
        .env("PATH", path)
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let mut backup = crate::program::Running::start(backup);
    let has_begun = async || {
        folders
            .files()
            .iter()
            .any(|name| name.starts_with("unfinished-"))
    };
    eventually(DEADLINE, "the backup begins", has_begun).await;
    assert!(locks.force_release(folders.key()).await.unwrap());
    assert_eq!(backup.code().await, Some(123));
    assert_eq!(folders.files(), ["bin"]);
}

//! `examples/nightly_backup.sh`, a script that uses `reentry run`.

use std::fs;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::page::shell;
use crate::program::{Ended, Running, end_of, ended_of, locks_at, until_waiting};
use crate::support::server::RedisServer;
use crate::support::wait::{DEADLINE, eventually};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/nightly_backup.sh");

/// The night of all these backups.
const NIGHT: &str = "20261127";

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
        self.command_in(server, r#"exec "$0" "$@""#)
    }

    /// The script in a shell that runs this line.
    fn command_in(&self, server: &RedisServer, line: &str) -> Command {
        let mut command = shell(server, line);
        command.arg(SCRIPT);
        command.args([self.source.path(), self.target.path()]);
        command.arg(NIGHT);
        command
    }

    /// A backup that has begun, and whose `tar` never ends: it reads from a pipe to which nothing writes.
    async fn begun(&self, server: &RedisServer) -> Running {
        let programs = self.target.path().join("bin");
        fs::create_dir(&programs).unwrap();
        let (pipe, tar) = (programs.join("pipe"), programs.join("tar"));
        let script = format!("#!/bin/sh\necho begun >\"$2\"\ncat '{}'\n", pipe.display());
        fs::write(&tar, script).unwrap();
        for (program, file) in [("mkfifo", &pipe), ("chmod", &tar)] {
            let mut command = Command::new(program);
            command.args((program == "chmod").then_some("+x")).arg(file);
            assert!(command.status().unwrap().success());
        }
        let line = format!(r#"PATH={}:$PATH exec "$0" "$@""#, programs.display());
        let mut command = self.command_in(server, &line);
        let running = Running::start(command.stderr(Stdio::null()));
        let has_begun = async || {
            let files = self.files();
            files.iter().any(|name| name.starts_with("unfinished-"))
        };
        eventually(DEADLINE, "the backup begins", has_begun).await;
        running
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
    assert_eq!(folders.files(), ["backup.tar.gz", "night", "token"]);
    let token = || fs::read(folders.target.path().join("token")).unwrap();
    let first = token();
    let second = folders.backup(&server);
    assert_eq!((second.code, &*second.err), (Some(0), ""));
    assert_eq!(token(), first, "the backup of this night is done");
}

#[tokio::test]
async fn another_machine_continues_when_the_first_one_dies() {
    let server = RedisServer::start().await;
    let locks = locks_at(&server).await;
    let folders = Folders::new();
    let mut dies = folders.begun(&server).await;
    let next = tokio::spawn(end_of(folders.command(&server)));
    let key = folders.key();
    until_waiting(&locks, &key, 1).await;
    dies.kill();
    // Its lease expires now, and not in 30 s.
    assert_eq!(server.ask(&format!("PEXPIRE {key} 1")).await, "1");
    let next = next.await.unwrap();
    assert_eq!((next.code, &*next.err), (Some(0), ""));
    let is_left = async || folders.files() == ["backup.tar.gz", "bin", "night", "token"];
    eventually(DEADLINE, "the dead one leaves nothing unfinished", is_left).await;
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

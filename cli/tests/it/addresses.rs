//! Every kind of address: a lock is acquired, shown, released and measured there, and a command survives a failover.

use std::process::Command;

use serde_json::Value;

use crate::program::{Ended, Running, end_of, reentry_for};
use crate::support::tls::TlsRedisServer;

/// A command that exits with the code that it reads.
const HOLDING: [&str; 7] = [
    "run",
    "--key",
    "order:42",
    "--",
    "sh",
    "-c",
    "echo up; read -r code; exit $code",
];

/// The program with these words, for servers of some kind.
async fn ended(program: impl Fn(&[&str]) -> Command, words: &[&str]) -> Ended {
    end_of(program(words)).await
}

async fn every_command_works(program: impl Fn(&[&str]) -> Command) {
    let mut holding = Running::start(&mut program(&HOLDING));
    holding.says("up").await;
    for look in [["--json", "ls", "order:*"], ["--json", "show", "order:42"]] {
        let ended = ended(&program, &look).await;
        let lock: Value = serde_json::from_str(&ended.out).unwrap_or_else(|_| panic!("{ended:?}"));
        assert_eq!(lock["key"], "order:42", "{look:?}: {lock:#}");
    }
    let refused = ["run", "--nonblock", "--key", "order:42", "--", "true"];
    assert_eq!(ended(&program, &refused).await.code, Some(124));
    let released = ended(&program, &["release", "order:42", "--yes"]).await;
    assert_eq!(released.code, Some(0), "{released:?}");
    assert_eq!(holding.code().await, Some(123));

    let short = ["--json", "bench", "--rounds=1", "--pairs=2", "--callers=2"];
    let measured = ended(&program, &short).await;
    let report: Value =
        serde_json::from_str(&measured.out).unwrap_or_else(|_| panic!("{measured:?}"));
    assert_eq!(report["measures"].as_array().unwrap().len(), 6);
    assert_eq!(ended(&program, &["--json", "ls"]).await.out, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_server_with_a_known_authority_is_trusted() {
    let server = TlsRedisServer::start().await;
    for (authority, code) in [(Some(server.ca_file()), 0), (None, 122)] {
        let mut command = reentry_for(&server.url(), &["ls"]);
        command.envs(authority.map(|file| ("SSL_CERT_FILE", file)));
        let ended = end_of(command).await;
        assert_eq!(ended.code, Some(code), "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_sends_the_certificate_that_a_server_requires() {
    let server = TlsRedisServer::start_for_known_clients().await;
    let [certificate, key] = server.client_files();
    let program = |words: &[&str]| {
        let mut command = reentry_for(&server.url(), words);
        command.env("REENTRY_CACERT", server.ca_file());
        command.env("REENTRY_CERT", &certificate);
        command.env("REENTRY_CERT_KEY", &key);
        command
    };
    every_command_works(program).await;
    let known = end_of(program(&["doctor"])).await;
    assert_eq!(known.code, Some(0), "{known:?}");
    let missing = ["ls", "--cacert", "/no/such/file"];
    let missing = end_of(reentry_for(&server.url(), &missing)).await;
    assert!(missing.err.contains("/no/such/file"), "{missing:?}");
}

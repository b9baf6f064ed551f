//! `rediss://` works without further setup with the feature `tls`: the crypto provider is installed, and the
//! authorities are those of the system (or of `SSL_CERT_FILE`).

use std::error::Error;
use std::fs;
use std::time::Duration;

use reentry::{Certificates, LockError, Locks};

use crate::support::{Child, DEADLINE, TlsRedisServer, child, patient_at, within};

/// Prints the depth that it has reached, or why it did not.
#[tokio::test]
async fn role_that_locks() {
    let Some(role) = child::role("role_that_locks") else {
        return;
    };
    let depth = async {
        let locks = patient_at(role.var("URL")).build().await?;
        let inner = locks.with_lock("order:42", async {
            locks.admin().inspect("order:42").await
        });
        let info = locks.with_lock("order:42", inner).await???;
        Ok::<_, LockError>(info.unwrap().holders[0].depth)
    };
    role.say(match within(DEADLINE, "an answer", depth).await {
        Ok(depth) => format!("result: depth {depth}"),
        Err(error) => {
            let mut chain = error.to_string();
            let mut cause = error.source();
            while let Some(error) = cause {
                chain = format!("{chain}: {error}");
                cause = error.source();
            }
            format!("result: {chain}")
        }
    });
}

async fn result(url: &str, authority: &str) -> String {
    let variables = [("URL", url), ("SSL_CERT_FILE", authority)];
    let mut role = Child::spawn(module_path!(), "role_that_locks", &variables);
    role.wait_for_line("result:").await
}

#[tokio::test]
async fn a_lock_is_taken_over_tls_where_the_authority_is_trusted() {
    let server = TlsRedisServer::start().await;
    let authority = server.ca_file().display().to_string();
    assert_eq!(result(&server.url(), &authority).await, "depth 2");
    let calls = server.server.commandstats().await;
    assert!(
        calls.contains_key("evalsha"),
        "it was this server: {calls:?}"
    );
}

/// The certificates of a program that trusts this server, and that the server accepts.
fn certificates(server: &TlsRedisServer) -> Certificates {
    let [certificate, key] = server.client_files().map(|file| fs::read(file).unwrap());
    let authority = fs::read(server.ca_file()).unwrap();
    Certificates::new()
        .authority(authority)
        .client(certificate, key)
}

#[tokio::test]
async fn certificates_of_the_programs_own_are_shown_and_trusted() {
    let server = TlsRedisServer::start_for_known_clients().await;
    let locks = patient_at(server.url());
    let locks = locks.certificates(certificates(&server)).build();
    let locks = locks.await.unwrap();
    let guard = locks.lock("order:42").await.unwrap();
    server.server.until_listening(1).await;
    let waiter = locks.clone();
    let waiting = tokio::spawn(async move { waiter.lock("order:42").await.map(drop) });
    guard.release().await.unwrap();
    within(DEADLINE, "the waiter enters", waiting)
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn a_program_without_its_certificate_is_not_let_in() {
    let server = TlsRedisServer::start_for_known_clients().await;
    let authority = fs::read(server.ca_file()).unwrap();
    let stranger = patient_at(server.url()).certificates(Certificates::new().authority(authority));
    let built = within(DEADLINE, "an answer", stranger.build()).await;
    assert!(built.unwrap_err().is_unavailable());
}

#[test]
fn certificates_that_cannot_be_used_are_an_error_at_once() {
    let nonsense = || Certificates::new().client("no certificate", "no key");
    for url in ["rediss://localhost:1", "redis://localhost:1", "memory:"] {
        let built = patient_at(url).certificates(nonsense()).build_lazy();
        assert!(built.unwrap_err().is_misuse());
    }
}

#[tokio::test]
async fn an_unknown_certificate_is_not_trusted() {
    let (server, other) = (TlsRedisServer::start().await, TlsRedisServer::start().await);
    let authority = other.ca_file().display().to_string();
    let refusal = result(&server.url(), &authority).await;
    assert!(refusal.contains("certificate"), "{refusal}");
    assert!(!server.server.commandstats().await.contains_key("evalsha"));
}

#[tokio::test]
async fn a_server_without_tls_is_not_spoken_to_in_plain() {
    let server = crate::support::RedisServer::start().await;
    let url = server.url().replace("redis:", "rediss:");
    // For such a server a handshake is a line without an end: it waits for more.
    let soon = Duration::from_millis(300);
    let connecting = Locks::builder(url).connect_timeout(soon).build();
    let error = within(DEADLINE, "an answer", connecting).await;
    assert!(error.unwrap_err().is_unavailable());
}

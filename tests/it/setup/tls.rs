//! `rediss://` works without further setup with the feature `tls`: the crypto provider is installed. The tests of the
//! command line (`addresses`) show that the authorities are those of the system, or of `SSL_CERT_FILE`.

use std::fs;
use std::time::Duration;

use reentry::{Certificates, Locks};

use crate::support::{DEADLINE, TlsRedisServer, patient_at, within};

#[tokio::test]
async fn certificates_of_the_programs_own_are_shown_and_trusted() {
    let server = TlsRedisServer::start_for_known_clients().await;
    let [certificate, key] = server.client_files().map(|file| fs::read(file).unwrap());
    let certificates = Certificates::new().authority(fs::read(server.ca_file()).unwrap());
    let locks = patient_at(server.url()).certificates(certificates.client(certificate, key));
    let locks = locks.build().await.unwrap();
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
async fn a_server_without_tls_is_not_spoken_to_in_plain() {
    let server = crate::support::RedisServer::start().await;
    let url = server.url().replace("redis:", "rediss:");
    // For such a server a handshake is a line without an end: it waits for more.
    let soon = Duration::from_millis(300);
    let connecting = Locks::builder(url).connect_timeout(soon).build();
    let error = within(DEADLINE, "an answer", connecting).await;
    assert!(error.unwrap_err().is_unavailable());
}

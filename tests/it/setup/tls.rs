//! `rediss://` works out of the box with the feature `tls`: the crypto provider is there, and the
//! authorities are those of the system (or of `SSL_CERT_FILE`).

use std::error::Error;
use std::time::Duration;

use reentry::{LockError, Locks};

use crate::support::{Child, DEADLINE, TlsRedisServer, child, patient_at, within};

/// Says how deep it got, or why it did not.
#[tokio::test]
async fn role_that_locks() {
    let Some(role) = child::role("role_that_locks") else {
        return;
    };
    let depth = async {
        let locks = patient_at(role.var("URL")).build().await?;
        let inner = locks.with_lock("order:42", async { locks.inspect("order:42").await });
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
    // To such a server a handshake is a line without an end: it waits for more.
    let soon = Duration::from_millis(300);
    let connecting = Locks::builder().url(url).connect_timeout(soon).build();
    let error = within(DEADLINE, "an answer", connecting).await;
    assert!(matches!(error, Err(LockError::Store { .. })), "{error:?}");
}

//! Credentials that change while locks are held.

use redis::{ErrorKind, RedisError, RedisResult};
use reentry::LockError;
use reentry::credentials::{BasicAuth, StreamingCredentialsProvider};
use std::pin::Pin;

use crate::support::rotation::Rotation;
use crate::support::told::cause_of;
use crate::support::{RedisServer, patient, patient_at};

#[tokio::test]
async fn no_hold_is_lost_while_the_password_is_rotated() {
    let server = RedisServer::start().await;
    let mut rotation = Rotation::begin(vec![&server]).await;
    rotation.loses_no_hold(patient(&server), 4).await;
    // A connection for messages has no provider: it is opened with the newest password.
    let locks = patient(&server).credentials(rotation.provider()).build();
    let locks = locks.await.unwrap();
    locks.with_lock("order:42", async {}).await.unwrap();
    server.until_listening(1).await;
}

/// A provider that never gives credentials.
struct Broken;

type Given = Pin<Box<dyn futures_util::Stream<Item = RedisResult<BasicAuth>> + Send>>;

impl StreamingCredentialsProvider for Broken {
    fn subscribe(&self) -> Given {
        let error: RedisError = (ErrorKind::AuthenticationFailed, "no token today").into();
        Box::pin(futures_util::stream::iter([Err(error)]))
    }
}

#[tokio::test]
async fn a_provider_without_credentials_is_an_error_that_says_so() {
    let server = RedisServer::start().await;
    let built = patient(&server).credentials(Broken).build().await;
    let error = built.unwrap_err();
    let cause = cause_of(&error);
    assert!(
        error.is_unavailable() && cause.contains("no token today"),
        "{cause}"
    );
}

#[test]
fn memory_has_no_login() {
    let built = patient_at("memory:").credentials(Broken).build_lazy();
    assert!(matches!(built, Err(LockError::Misuse { .. })), "{built:?}");
}

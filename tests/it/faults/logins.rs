//! A password that is changed while a lock is held: new connections are rejected until the program has the right one.

use std::time::Duration;

use crate::support::{DEADLINE, RedisServer, eventually, patient_at, within};
use reentry::{LockError, Locks};

const KEY: &str = "order:42";

/// A user of the locks, whose password is changed.
struct Ground {
    server: RedisServer,
    locks: Locks,
}

impl Ground {
    async fn new() -> Ground {
        let server = RedisServer::start().await;
        server.ask("ACL SETUSER locker on >right ~* &* +@all").await;
        let url = format!("redis://locker:right@127.0.0.1:{}", server.port());
        let builder = patient_at(url).response_timeout(Duration::from_millis(200));
        let locks = builder.build().await.unwrap();
        Ground { server, locks }
    }

    /// The connections end, and others are rejected.
    async fn change_password(&self) {
        self.server.ask("ACL SETUSER locker resetpass >other").await;
        self.server.ask("CLIENT KILL USER locker").await;
    }

    async fn change_back(&self) {
        self.server.ask("ACL SETUSER locker resetpass >right").await;
    }

    async fn until_free(&self) {
        let is_free = async || self.server.ask(&format!("EXISTS {KEY}")).await == "0";
        eventually(DEADLINE, "the lock is free", is_free).await;
    }
}

#[tokio::test]
async fn a_release_is_made_when_the_login_works_again() {
    let ground = Ground::new().await;
    let guard = ground.locks.lock(KEY).await.unwrap();
    ground.change_password().await;
    let release = within(DEADLINE, "the release", guard.release()).await;
    release.unwrap();
    let refused = ground.locks.lock(KEY).no_wait().await.unwrap_err();
    assert!(matches!(refused, LockError::Misuse { .. }), "{refused:?}");
    ground.change_back().await;
    ground.until_free().await;
    assert!(ground.locks.close(Duration::MAX).await.is_clean());
}

#[tokio::test]
async fn a_nested_call_goes_on_while_the_login_is_refused() {
    let ground = Ground::new().await;
    let body = async {
        ground.change_password().await;
        ground.locks.with_lock(KEY, async { 6 * 7 }).await
    };
    let output = within(DEADLINE, "the body", ground.locks.with_lock(KEY, body)).await;
    assert_eq!(output.unwrap().unwrap(), 42);
    ground.change_back().await;
    ground.until_free().await;
}

/// A caller without a lock learns immediately that something must be corrected.
#[tokio::test]
async fn a_caller_that_has_nothing_is_refused_at_once() {
    let ground = Ground::new().await;
    ground.change_password().await;
    let refused = ground.locks.lock(KEY).wait(Duration::MAX);
    let refused = within(DEADLINE, "the refusal", refused.acquire()).await;
    let error = refused.unwrap_err();
    assert!(error.is_misuse() && !error.is_unavailable(), "{error:?}");
    assert_eq!(
        error.to_string(),
        "Redis rejects the login: check the password and the user"
    );
    let LockError::Misuse {
        source: Some(source),
        ..
    } = error
    else {
        panic!("not of the store");
    };
    assert!(!source.is_outcome_unknown());
}

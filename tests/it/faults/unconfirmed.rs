//! The error about replicas that cannot be asked.

use std::error::Error;
use std::time::Duration;

use reentry::{LockError, Locks, LostReason};

use crate::support::{DEADLINE, RedisServer, eventually, patient, within};

/// A time that is longer than the test may take: a request that is rejected permanently is not repeated until then.
const LONG: Duration = Duration::from_secs(600);

/// A server whose user may not run a command, and locks there that replicas must confirm.
async fn without(command: &str) -> (RedisServer, Locks) {
    let server = RedisServer::start().await;
    server.ask(&format!("ACL SETUSER default -{command}")).await;
    let builder = patient(&server).confirm(1, LONG);
    (server, builder.build().await.unwrap())
}

#[tokio::test]
async fn a_user_who_may_not_confirm_is_told_why_at_once() {
    for command in ["wait", "info", "set"] {
        let (server, locks) = without(command).await;
        let acquired = locks.lock("order:42").acquire();
        let refused = within(DEADLINE, "it is refused", acquired).await;
        server.until_clean().await;
        let error = refused.unwrap_err();
        assert!(matches!(error, LockError::Misuse { .. }), "{error:?}");
        assert!(error.is_misuse() && !error.is_unavailable());
        let failed = error.source().unwrap();
        assert!(
            failed
                .to_string()
                .starts_with("confirm failed at 127.0.0.1")
        );
        let cause = failed.source().unwrap().to_string();
        assert!(
            cause.contains("no permissions") && cause.contains(command),
            "{cause}"
        );
    }
}

#[tokio::test]
async fn a_leader_that_can_never_be_confirmed_gives_up() {
    let (_server, locks) = without("wait").await;
    let led = locks.lock("reports").lead(async |_| ());
    let refused = within(DEADLINE, "it is refused", led).await;
    assert!(refused.unwrap_err().is_misuse());
}

/// It ends at once, and not after the time for the replicas.
#[tokio::test]
async fn a_lock_taken_away_while_replicas_are_awaited_is_lost() {
    let server = RedisServer::start().await;
    let other = patient(&server).build().await.unwrap();
    let builder = patient(&server).confirm(1, LONG);
    let locks = builder.build().await.unwrap();
    for (keys, by) in [
        (&["a"][..], &other),
        (&["a"], &locks),
        (&["a", "b"], &other),
    ] {
        let acquiring = tokio::spawn(locks.lock_all(keys).acquire());
        let is_held = async || by.admin().inspect("a").await.unwrap().is_some();
        eventually(DEADLINE, "it is acquired", is_held).await;
        assert!(by.admin().force_release("a").await.unwrap());
        let ended = within(DEADLINE, "its end", acquiring).await.unwrap();
        let error = ended.expect_err("it was taken away");
        assert!(
            matches!(&error, LockError::Lost { key, reason: LostReason::Deleted, .. } if key == "a"),
            "{error:?}"
        );
        server.until_clean().await;
    }
}

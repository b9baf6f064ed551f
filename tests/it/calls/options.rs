//! Invalid keys and contradicting options are rejected before anything is sent.

use std::time::Duration;

use crate::support::{RedisServer, connect, on_both_stores};
use reentry::{LockError, LockRequest, Locks, LocksBuilder, held};

const SECOND: Duration = Duration::from_secs(1);

on_both_stores!(
    unusual_keys_are_locks_like_any_other,
    a_bad_option_of_a_reentry_is_refused_and_leaves_the_hold_alone,
);

const BAD_KEYS: [&str; 6] = ["", "reentry:x", "reentry:", "a}b", "{}a", "}"];

async fn a_bad_key_is_refused_by_every_call(locks: Locks) {
    for bad in BAD_KEYS {
        for refused in [
            locks
                .with_lock(bad, async { unreachable!("entered") })
                .await,
            locks
                .try_with_lock(bad, async { unreachable!("entered") })
                .await,
            locks.lock(bad).await.map(drop),
            locks.lock(bad).try_acquire().await.map(drop),
            locks.admin().inspect(bad).await.map(drop),
            locks.admin().force_release(bad).await.map(drop),
        ] {
            let error: LockError = refused.unwrap_err();
            assert!(error.is_misuse(), "{bad}: {error:?}");
            assert_eq!(error.key(), Some(bad));
            assert!(!error.is_busy() && !error.is_lost());
        }
        assert!(held(bad).is_none());
    }
}

async fn unusual_keys_are_locks_like_any_other(locks: Locks) {
    let long = "k".repeat(10_000);
    let keys = [
        " ",
        "a b",
        "{tag}:a",
        "a{b",
        "Reentry:x",
        "é\u{1f512}",
        "\r\n",
        "\0",
        "%s%n",
        &long,
    ];
    for key in keys {
        let nested = async {
            let nested = locks
                .lock(key)
                .no_wait()
                .run(async { held(key).unwrap().depth() });
            assert_eq!(nested.await.unwrap(), 2);
            assert!(locks.admin().inspect(key).await.unwrap().is_some());
        };
        locks.with_lock(key, nested).await.unwrap();
        assert!(locks.admin().inspect(key).await.unwrap().is_none());
    }
}

async fn a_bad_option_of_a_reentry_is_refused_and_leaves_the_hold_alone(locks: Locks) {
    let body = async {
        let refused = locks.lock("key").ttl(Duration::ZERO).run(async {}).await;
        assert!(matches!(refused, Err(LockError::Misuse { .. })));
        assert_eq!(crate::support::depths(&locks, "key").await, [1]);
        assert_eq!(held("key").unwrap().depth(), 1);
    };
    locks.with_lock("key", body).await.unwrap();
}

/// Requests with contradicting options.
fn bad_requests(locks: &Locks) -> [LockRequest; 9] {
    let request = || locks.lock("key");
    [
        request().ttl(Duration::ZERO),
        request().ttl(Duration::from_millis(19)),
        request().ttl(Duration::MAX),
        request().max_hold(Duration::from_millis(19)),
        request().max_hold(Duration::ZERO),
        request().min_hold(2 * SECOND).max_hold(SECOND),
        request().min_hold(SECOND).read(),
        request().retry(0, SECOND),
        request().retry(3, Duration::ZERO),
    ]
}

#[tokio::test]
async fn nothing_is_sent_for_bad_keys_and_options() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    let before = server.commandstats().await;
    a_bad_key_is_refused_by_every_call(locks.clone()).await;
    for request in bad_requests(&locks) {
        let error = request.clone().await.unwrap_err();
        assert!(matches!(error, LockError::Misuse { .. }), "{error:?}");
        assert!(error.key().is_none() && !error.is_busy());
        let run: Result<(), _> = request.run(async { unreachable!("entered") }).await;
        assert!(matches!(run, Err(LockError::Misuse { .. })));
    }
    assert!(server.calls_since(&before).await.is_empty());
}

/// The server does not exist, so a request to it would return another error.
#[tokio::test]
async fn a_builder_refuses_what_cannot_be_before_it_connects() {
    let nowhere = || Locks::builder("redis://127.0.0.1:1");
    let builders: [LocksBuilder; 10] = [
        Locks::builder(""),
        Locks::builder("memory:").login("app", "secret"),
        nowhere().ttl(Duration::ZERO),
        nowhere().ttl(Duration::from_millis(19)),
        nowhere().ttl(Duration::MAX),
        nowhere().connect_timeout(Duration::ZERO),
        nowhere().response_timeout(Duration::ZERO),
        Locks::builder("not a url"),
        nowhere().prefix("reentry:app:"),
        nowhere().prefix("app:{}"),
    ];
    for builder in builders {
        let lazy = builder.clone().build_lazy();
        for built in [lazy, builder.clone().build().await] {
            let error = built.unwrap_err();
            assert!(error.is_misuse(), "{builder:?}: {error:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_builder_s_ttl_and_wait_hold_unless_a_request_has_its_own() {
    let builder = Locks::builder("memory:").ttl(9 * SECOND).wait(5 * SECOND);
    let locks = builder.build().await.unwrap();
    let ttl = async || {
        let info = locks.admin().inspect("key").await.unwrap().unwrap();
        info.remaining.unwrap()
    };
    let by_default = async { assert_eq!(ttl().await, 9 * SECOND) };
    locks.with_lock("key", by_default).await.unwrap();
    let by_itself = async { assert_eq!(ttl().await, 3 * SECOND) };
    locks
        .lock("key")
        .ttl(3 * SECOND)
        .run(by_itself)
        .await
        .unwrap();

    let _guard = locks.lock("key").await.unwrap();
    let waited = async |request: LockRequest| match request.await {
        Err(LockError::Busy { waited, .. }) => waited.as_secs(),
        other => panic!("{other:?}"),
    };
    assert_eq!(waited(locks.lock("key")).await, 5);
    assert_eq!(waited(locks.lock("key").wait(2 * SECOND)).await, 2);
}

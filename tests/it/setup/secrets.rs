//! Connecting: an error names the place, comes in time, and never shows a password.

use std::fmt::Debug;
use std::time::Duration;

use crate::support::told::all_of;
use crate::support::{RedisServer, patient};
use reentry::{LockError, Locks};
use tokio::net::TcpListener;
use tokio::time::Instant;

const SECRET: &str = "hunter2";

fn debug(value: &impl Debug) -> String {
    format!("{value:?} {value:#?}")
}

/// The connection is open, and no response arrives on it. Only the clock of tokio matters.
#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_is_given_up_in_time() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap().to_string();
    for timeout in [None, Some(Duration::from_millis(300))] {
        let builder = Locks::builder(format!("redis://:{SECRET}@{address}"));
        let builder = match timeout {
            Some(timeout) => builder.connect_timeout(timeout),
            None => builder,
        };
        let start = Instant::now();
        let error = builder.build().await.unwrap_err();
        let most = timeout.unwrap_or(Duration::from_secs(2)) + Duration::from_millis(10);
        assert!(start.elapsed() <= most, "{:?}", start.elapsed());
        assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
        let all = all_of(&error);
        assert!(all.contains(&address) && !all.contains(SECRET), "{all}");
    }
}

#[tokio::test]
async fn no_password_shows_in_anything_that_can_be_printed() {
    let server = RedisServer::start_with(&["--requirepass", SECRET]).await;
    assert!(server.url().contains(SECRET));
    let builder = patient(&server);
    let mut shown = vec![debug(&builder)];
    let locks = builder.build().await.unwrap();
    let request = locks.lock("key").retry(1, Duration::from_millis(1));
    let body = locks.with_lock("key", async {});
    shown.extend([debug(&locks), debug(&request), debug(&body)]);
    shown.push(debug(
        &locks.try_with_lock("key", async { Ok::<_, LockError>(()) }),
    ));
    let guard = request.clone().await.unwrap();
    shown.extend([debug(&guard), debug(guard.held())]);
    let scope = guard.scope(async {});
    shown.push(debug(&scope));
    scope.await.unwrap();
    shown.push(debug(&locks.admin().inspect("key").await.unwrap()));
    shown.push(all_of(&request.clone().await.unwrap_err()));
    guard.release().await.unwrap();

    server.stop();
    for _ in 0..3 {
        shown.push(all_of(&request.clone().await.unwrap_err()));
        shown.push(all_of(&locks.admin().inspect("key").await.unwrap_err()));
        shown.push(debug(&locks));
    }
    for text in shown {
        assert!(!text.contains(SECRET), "{text}");
    }
}

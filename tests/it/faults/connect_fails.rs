//! A server that is unreachable or rejects the connection: the error comes within the connect timeout, names host and
//! port, and never contains the password.

use std::error::Error;

use crate::support::told::all_of;
use crate::support::{DEADLINE, RedisServer, within};
use reentry::{LockError, Locks, LocksBuilder};

/// The error of a connection to the port on this machine.
async fn refused(port: u16, options: impl FnOnce(LocksBuilder) -> LocksBuilder) -> LockError {
    let url = format!("redis://user:hush@127.0.0.1:{port}");
    let builder = options(Locks::builder(url));
    assert!(!format!("{builder:?}").contains("hush"), "{builder:?}");
    let connecting = within(DEADLINE, "an answer", builder.build());
    let error = connecting.await.expect_err("no server to connect to");
    assert_eq!(error.key(), None, "{error:?}");
    assert_ne!(error.is_unavailable(), error.is_misuse(), "{error:?}");
    let told = all_of(&error);
    let endpoint = format!("127.0.0.1:{port}");
    assert!(
        error.source().unwrap().to_string().contains(&endpoint),
        "{told}"
    );
    assert!(!told.contains("hush"), "{told}");
    error
}

#[tokio::test]
async fn a_server_that_is_down_is_an_error_at_once() {
    let server = RedisServer::start().await;
    server.stop();
    let patient = |builder: LocksBuilder| builder.connect_timeout(3 * DEADLINE);
    refused(server.port(), patient).await;
}

#[tokio::test]
async fn a_server_that_refuses_the_password_is_an_error_at_once() {
    let server = RedisServer::start_with(&["--requirepass", "other"]).await;
    let patient = |builder: LocksBuilder| builder.connect_timeout(3 * DEADLINE);
    let error = refused(server.port(), patient).await;
    assert!(all_of(&error).contains("authentication"), "{error:?}");
    // It is reachable, and has responded.
    assert!(error.is_misuse(), "{error:?}");
    let message = "Redis rejects the login: check the password and the user";
    assert_eq!(error.to_string(), message);
}

#[tokio::test]
async fn a_server_that_is_no_redis_is_an_error() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let answering = async {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let answer = b"HTTP/1.1 400 Bad Request\r\n\r\n";
            tokio::io::AsyncWriteExt::write_all(&mut stream, answer)
                .await
                .unwrap();
        }
    };
    tokio::select! {
        () = answering => unreachable!("it listens for ever"),
        _ = refused(port, |builder| builder) => {}
    }
}

#[tokio::test]
async fn a_url_that_is_refused_tells_what_is_accepted() {
    for (url, mistake) in [
        ("", "it is empty"),
        ("order:42", "it does not begin with `redis://`"),
        ("127.0.0.1", "it does not begin with `redis://`"),
        (
            "http://user:hush@localhost",
            "it is not the URL of a Redis server",
        ),
        ("redis://user:hush@:x/", ""),
    ] {
        let error = Locks::connect(url).await.unwrap_err();
        assert!(matches!(error, LockError::Misuse { .. }), "{error:?}");
        let told = all_of(&error);
        assert!(
            told.contains(mistake) && !told.contains("hush"),
            "{url}: {told}"
        );
        for accepted in ["redis://host:port", "rediss://", "unix://", "memory:"] {
            assert!(
                mistake.is_empty() || told.contains(accepted),
                "{url}: {told}"
            );
        }
    }
}

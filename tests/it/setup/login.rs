//! A user and a password that are not in the URL.

use std::time::Duration;

use reentry::{LockError, LocksBuilder};

use crate::support::{DEADLINE, RedisServer, patient_at, within};

const SECRET: &str = "hunter2/@:%?#+";

/// A server with the user `app`, and locks there with this login in the URL.
async fn server() -> RedisServer {
    let server = RedisServer::start().await;
    server
        .ask(&format!("ACL SETUSER app on >{SECRET} ~* &* +@all"))
        .await;
    server
}

fn at(server: &RedisServer, login: &str) -> LocksBuilder {
    patient_at(format!("redis://{login}127.0.0.1:{}/3", server.port()))
}

#[tokio::test]
async fn login_replaces_the_login_of_the_url() {
    let server = server().await;
    for login in ["", "app@", "app:wrong@", "nobody:wrong@", ":wrong@"] {
        let builder = at(&server, login).login("app", SECRET);
        assert!(!format!("{builder:?}").contains(SECRET));
        let locks = builder.build().await.unwrap();
        locks.with_lock("order:42", async {}).await.unwrap();
        server.until_listening(1).await;
        let clients = server.ask("CLIENT LIST TYPE pubsub").await;
        assert!(clients.contains("user=app"), "{clients}");
        assert!(!clients.contains("user=default"), "{clients}");
        drop(locks);
        server.until_listening(0).await;
    }
    let refused = at(&server, "").login("app", "guess").build().await;
    let error = refused.unwrap_err();
    assert!(matches!(error, LockError::Misuse { .. }), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("guess"));
}

/// All connections log in, and choose the database: those for commands, and those for messages.
#[tokio::test]
async fn waiters_with_a_login_get_messages() {
    let server = server().await;
    let url = format!("redis://127.0.0.1:{}/3", server.port());
    let builder = patient_at(url).login("app", SECRET).wait(Duration::MAX);
    let build = async || builder.clone().build().await.unwrap();
    let (holder, waiter) = (build().await, build().await);
    let guard = holder.lock("order:42").await.unwrap();
    let keyspace = server.ask("INFO keyspace").await;
    assert!(
        keyspace.contains("db3:") && !keyspace.contains("db0:"),
        "{keyspace}"
    );
    let waiting = tokio::spawn(async move { waiter.lock("order:42").await.map(drop) });
    server.until_listening(2).await;
    guard.release().await.unwrap();
    let entered = within(DEADLINE, "the waiter enters", waiting).await;
    entered.unwrap().unwrap();
}

//! A user and a password that are not in the URL.

use reentry::{LockError, LocksBuilder};

use crate::support::{RedisServer, patient_at};

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

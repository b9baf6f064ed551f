//! Several `Locks` on one server in memory, which behave like the replicas of a service.

use std::error::Error;
use std::time::Duration;

use reentry::LockError;
use reentry::testing::Server;

const SECOND: Duration = Duration::from_secs(1);
const KEY: &str = "order:42";

#[tokio::test(start_paused = true)]
async fn replicas_exclude_each_other_and_do_not_re_enter() {
    let server = Server::new();
    let (a, b) = (server.locks(), server.clone().locks());
    let body = a.with_lock(KEY, async { b.lock(KEY).no_wait().await });
    assert!(body.await.unwrap().unwrap_err().is_busy());
}

#[tokio::test(start_paused = true)]
async fn servers_are_separate_and_replicas_have_their_own_options() {
    let (server, other) = (Server::new(), Server::default());
    let _a = server.locks().lock(KEY).await.unwrap();
    let _other = other.locks().lock(KEY).no_wait().await.unwrap();
    let b = server.builder().prefix("b:").ttl(7 * SECOND);
    let _b = b.build_lazy().unwrap().lock(KEY).no_wait().await.unwrap();
    let shown = server
        .locks()
        .admin()
        .inspect("b:order:42")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(shown.remaining, Some(7 * SECOND));
    let shown = format!("{server:?}");
    assert_eq!(shown, "Server { condition: Running, .. }");
    let refused = server.builder().login("app", "secret").build_lazy();
    let error = refused.unwrap_err();
    assert!(matches!(error, LockError::Misuse { .. }), "{error:?}");
    assert!(error.to_string().contains("login"), "{error}");
}

/// The whole chain names the step that failed, and no host, because there is none.
#[tokio::test(start_paused = true)]
async fn an_error_names_the_step_and_its_cause() {
    let server = Server::new();
    let locks = server.locks();
    server.stop();
    let error = locks.admin().inspect(KEY).await.unwrap_err();
    let source = error.source().unwrap();
    assert_eq!(source.to_string(), "connect failed at the server in memory");
    assert_eq!(source.source().unwrap().to_string(), "connection refused");
}

//! A `Locks` that connects when it is first used.

use std::time::Duration;

use crate::support::{DEADLINE, RedisServer, Rig, eventually, patient, patient_at, within};
use reentry::{LockError, Locks};
use tokio::runtime::Builder;

#[tokio::test]
async fn a_service_starts_before_its_server() {
    let server = RedisServer::start().await;
    server.stop();
    let locks = patient(&server).wait(Duration::MAX).build_lazy().unwrap();
    let waiting = locks.with_lock("key", async { 6 * 7 });
    let (output, ()) = tokio::join!(
        within(DEADLINE, "the lock is taken", waiting),
        server.start_again()
    );
    assert_eq!(output.unwrap(), 42);
}

#[tokio::test]
async fn nothing_is_sent_until_it_is_used() {
    let rig = Rig::start().await;
    let before = rig.proxy.connections();
    let locks = patient_at(rig.proxy.url()).build_lazy().unwrap();
    tokio::task::yield_now().await;
    assert_eq!(rig.proxy.connections(), before);
    locks.with_lock("key", async {}).await.unwrap();
    let connected = async || rig.proxy.connections() > before;
    eventually(DEADLINE, "it is connected", connected).await;
}

#[test]
fn it_is_built_outside_of_a_runtime() {
    let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
    let ground = runtime();
    let server = ground.block_on(RedisServer::start());
    let locks = patient(&server).build_lazy().unwrap();
    for _ in 0..2 {
        let visit = locks.with_lock("key", async {});
        runtime().block_on(visit).unwrap();
    }
}

#[tokio::test]
async fn a_caller_that_does_not_wait_learns_that_the_store_is_away() {
    let server = RedisServer::start().await;
    server.stop();
    let locks = patient(&server).build_lazy().unwrap();
    let error = locks.lock("key").no_wait().await.unwrap_err();
    assert!(error.is_unavailable() && !error.is_busy(), "{error:?}");
    let brief = locks.lock("key").wait(Duration::from_millis(100));
    let error = brief.await.unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
    assert!(error.is_unavailable() && !error.is_busy(), "{error:?}");
}

#[test]
fn mistakes_are_errors_at_once() {
    for builder in [
        Locks::builder(""),
        Locks::builder("localhost:6379"),
        Locks::builder("memory:").prefix("reentry:"),
        Locks::builder("memory:").ttl(Duration::ZERO),
    ] {
        let built = builder.build_lazy();
        assert!(matches!(built, Err(LockError::Misuse { .. })), "{built:?}");
    }
}

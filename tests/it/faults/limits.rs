//! A request that has no answer within the response timeout fails then, whatever becomes of the requests
//! before and after it.

use std::sync::Arc;

use crate::support::rig::{KEY, RESPONSE_TIMEOUT};
use crate::support::sweep::poll_times;
use crate::support::{DEADLINE, Direction, Rig, eventually, within};
use reentry::{LockError, LockInfo};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

type Seen = Result<Option<LockInfo>, LockError>;

/// Asks one question, in a task of its own.
fn ask(rig: &Arc<Rig>) -> JoinHandle<Seen> {
    let rig = Arc::clone(rig);
    tokio::spawn(async move { rig.locks.inspect(KEY).await })
}

/// Asks, and returns when the question is on its way.
async fn ask_and_send(rig: &Arc<Rig>) -> JoinHandle<Seen> {
    let before = rig.proxy.bytes(Direction::ToServer);
    let asked = ask(rig);
    let sent = async || rig.proxy.bytes(Direction::ToServer) > before;
    eventually(DEADLINE, "the question is sent", sent).await;
    asked
}

async fn is_late(asked: impl Future<Output = Seen>) {
    let error = within(DEADLINE, "the limit", asked).await.unwrap_err();
    let cause = format!("no answer within {RESPONSE_TIMEOUT:?}");
    assert!(format!("{error:?}").contains(&cause), "{error:?}");
}

async fn is_answered(rig: &Rig) {
    let asked = rig.locks.inspect(KEY);
    let seen = within(DEADLINE, "an answer", asked).await;
    assert!(seen.unwrap().is_none());
}

#[tokio::test]
async fn a_silent_connection_costs_one_response_timeout_and_is_replaced() {
    let rig = Arc::new(Rig::start().await);
    is_answered(&rig).await;
    let before = rig.proxy.connections();
    rig.proxy.hold_present(Direction::ToClient);
    is_late(rig.locks.inspect(KEY)).await;
    is_answered(&rig).await;
    assert_eq!(rig.proxy.connections(), before + 1);
}

#[tokio::test]
async fn an_answer_that_comes_late_is_that_of_no_other_request() {
    let rig = Arc::new(Rig::start().await);
    let guard = rig.locks.lock(KEY).await.unwrap();
    rig.proxy.hold(Direction::ToClient);
    is_late(rig.locks.inspect(KEY)).await;
    rig.proxy.release(Direction::ToClient);
    let elsewhere = rig.locks.inspect("elsewhere");
    let free = within(DEADLINE, "an answer", elsewhere).await;
    assert!(free.unwrap().is_none());
    guard.release().await.unwrap();
}

/// On one connection answers come in order. So the younger ones go over the next connection.
#[tokio::test]
async fn a_request_waits_no_longer_because_younger_ones_are_answered() {
    let rig = Arc::new(Rig::start().await);
    is_answered(&rig).await;
    rig.proxy.hold_present(Direction::ToClient);
    let oldest = ask_and_send(&rig).await;
    let second = ask_and_send(&rig).await;
    is_late(async { oldest.await.unwrap() }).await;
    while !second.is_finished() {
        is_answered(&rig).await;
    }
    is_late(async { second.await.unwrap() }).await;
}

#[tokio::test]
async fn a_request_that_is_dropped_moves_no_limit() {
    let rig = Arc::new(Rig::start().await);
    for _ in 0..3 {
        is_answered(&rig).await;
        let dropped = poll_times(1, rig.locks.inspect(KEY)).await;
        assert!(dropped.is_none());
        is_answered(&rig).await;
        rig.proxy.hold_present(Direction::ToClient);
        let dropped = poll_times(1, rig.locks.inspect(KEY)).await;
        assert!(dropped.is_none());
        is_late(rig.locks.inspect(KEY)).await;
    }
}

fn still() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// The answers are read where the connection was made.
#[test]
fn a_connection_of_a_runtime_that_stands_still_costs_one_response_timeout() {
    let (home, next) = (still(), Runtime::new().unwrap());
    let rig = home.block_on(Rig::start());
    next.block_on(async {
        is_late(rig.locks.inspect(KEY)).await;
        is_answered(&rig).await;
    });
    drop(home);
    next.block_on(is_answered(&rig));
}

#[test]
fn a_request_fails_elsewhere_when_the_runtime_of_its_connection_ends() {
    let (home, next) = (still(), Runtime::new().unwrap());
    let rig = home.block_on(Rig::start());
    rig.proxy.hold(Direction::ToClient);
    let mut asked = Box::pin(rig.locks.inspect(KEY));
    assert!(home.block_on(poll_times(1, &mut asked)).is_none());
    drop(home);
    rig.proxy.release(Direction::ToClient);
    next.block_on(async {
        let failed = within(DEADLINE, "the end of the connection", asked);
        assert!(failed.await.is_err());
        is_answered(&rig).await;
    });
}

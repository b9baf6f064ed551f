//! A request without a response fails at the response timeout, whatever happens to the requests before and after it.

use crate::support::rig::{KEY, RESPONSE_TIMEOUT};
use crate::support::runtime::runtime;
use crate::support::sweep::poll_times;
use crate::support::{DEADLINE, Direction, Rig, eventually, within};
use futures_util::future::join_all;
use reentry::LockError;
use reentry::admin::LockInfo;
use tokio::runtime::Runtime;
use tokio::select;

type Seen = Result<Option<LockInfo>, LockError>;

async fn is_late(asked: impl Future<Output = Seen>) {
    let error = within(DEADLINE, "the limit", asked).await.unwrap_err();
    let cause = format!("no response within {RESPONSE_TIMEOUT:?}");
    assert!(format!("{error:?}").contains(&cause), "{error:?}");
}

async fn is_answered(rig: &Rig) {
    let admin = rig.locks.admin();
    let asked = admin.inspect(KEY);
    let seen = within(DEADLINE, "an answer", asked).await;
    assert!(seen.unwrap().is_none());
}

#[tokio::test]
async fn a_silent_connection_costs_one_response_timeout_and_is_replaced() {
    let rig = Rig::start().await;
    is_answered(&rig).await;
    let before = rig.proxy.connections();
    rig.proxy.hold_present(Direction::ToClient);
    is_late(rig.locks.admin().inspect(KEY)).await;
    is_answered(&rig).await;
    assert_eq!(rig.proxy.connections(), before + 1);
}

#[tokio::test]
async fn an_answer_that_comes_late_is_that_of_no_other_request() {
    let rig = Rig::start().await;
    let guard = rig.locks.lock(KEY).await.unwrap();
    rig.proxy.hold(Direction::ToClient);
    is_late(rig.locks.admin().inspect(KEY)).await;
    rig.proxy.release(Direction::ToClient);
    let admin = rig.locks.admin();
    let elsewhere = admin.inspect("elsewhere");
    let free = within(DEADLINE, "an answer", elsewhere).await;
    assert!(free.unwrap().is_none());
    guard.release().await.unwrap();
}

/// Requests that travel together are sent by a task, and each runtime has its own.
#[test]
fn a_runtime_that_stands_still_delays_no_batch_of_another_one() {
    let (home, next) = (runtime(), Runtime::new().unwrap());
    let rig = home.block_on(Rig::start());
    let crowd = async || {
        let keys = (0..8).map(|number| format!("free:{number}"));
        let sections = keys.map(async |key| rig.locks.with_lock(key, async {}).await);
        join_all(sections).await.iter().all(Result::is_ok)
    };
    assert!(home.block_on(crowd()));
    next.block_on(eventually(DEADLINE, "all of them enter", crowd));
}

#[test]
fn a_request_fails_elsewhere_when_the_runtime_of_its_connection_ends() {
    let (home, next) = (runtime(), Runtime::new().unwrap());
    let rig = home.block_on(Rig::start());
    rig.proxy.hold(Direction::ToClient);
    let admin = rig.locks.admin();
    let mut asked = Box::pin(admin.inspect(KEY));
    assert!(home.block_on(poll_times(1, &mut asked)).is_none());
    drop(home);
    rig.proxy.release(Direction::ToClient);
    next.block_on(async {
        let failed = within(DEADLINE, "the end of the connection", asked);
        assert!(failed.await.is_err());
        is_answered(&rig).await;
    });
}

/// The limit of a request covers only the time in which the server can answer, however many callers come at once. Two
/// of them are alone when they come. The others travel in batches of 32.
#[tokio::test]
async fn of_a_crowd_only_so_many_requests_are_in_flight() {
    let rig = Rig::build(|builder| builder.response_timeout(DEADLINE)).await;
    rig.load_scripts().await;
    rig.locks.with_lock(KEY, async {}).await.unwrap();
    let before = rig.executed().await;
    rig.proxy.hold(Direction::ToClient);
    let locks = &rig.locks;
    let callers = (0..2_000).map(|number| locks.with_lock(format!("free:{number}"), async {}));
    let mut callers = join_all(callers);
    let sent = async {
        rig.until_executed(before, 2 + 32).await;
        rig.executed().await - before
    };
    select! {
        biased;
        _ = &mut callers => panic!("no response arrives"),
        sent = sent => assert_eq!(sent, 2 + 32),
    }
    rig.proxy.release(Direction::ToClient);
    let entered = callers.await;
    assert!(entered.iter().all(Result::is_ok));
}

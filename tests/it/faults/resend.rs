//! P8 and P13 on the wire. A request that is lost, executed without a response, executed twice or executed late leaves
//! no lock without a holder, and changes no depth and no lease twice. The effect of a duplicate in the store is tested
//! in its contract.

use std::time::Duration;

use crate::support::proxy::Direction::ToServer;
use crate::support::rig::{EVALSHA, FAULTS, KEY};
use crate::support::{Action, Cut, DEADLINE, Rig, eventually, within};
use reentry::{LockError, LockRequest};

/// Further keys that are acquired with it.
const SEVERAL: [&str; 3] = [KEY, "ahead", "behind"];

/// Runs the case with each fault. Nothing may be left after it.
async fn with_each_fault(case: impl AsyncFn(&Rig, Action)) {
    let rig = Rig::start().await;
    for (round, fault) in (1..).zip(FAULTS) {
        case(&rig, fault).await;
        let is_clean = async || rig.server.leftovers().await.is_empty();
        eventually(DEADLINE, &format!("{fault:?}: nothing is left"), is_clean).await;
        assert_eq!(rig.proxy.hits(), round, "{fault:?} has struck no request");
    }
}

/// Makes the next request go wrong.
fn strike(rig: &Rig, fault: Action) {
    rig.proxy.on_next(ToServer, EVALSHA, fault);
}

#[tokio::test]
async fn an_acquire_that_goes_wrong_on_its_way_takes_the_lock_once() {
    with_each_fault(async |rig, fault| {
        strike(rig, fault);
        let body = async { rig.hash().await };
        let hash = rig.locks.with_lock(KEY, body).await.unwrap();
        assert_eq!(hash.into_values().collect::<Vec<_>>(), [1], "{fault:?}");
    })
    .await;
}

#[tokio::test]
async fn an_acquire_of_several_that_goes_wrong_on_its_way_takes_them_once() {
    with_each_fault(async |rig, fault| {
        strike(rig, fault);
        let body = async { SEVERAL.map(|key| reentry::held(key).unwrap().depth()) };
        let depths = rig.locks.lock_all(SEVERAL).run(body).await;
        assert_eq!(depths.unwrap(), [1; 3], "{fault:?}");
    })
    .await;
}

/// If a request is executed twice, the client gets the second response. It cannot distinguish that from the first.
fn stands(output: Result<&str, LockError>, fault: Action) {
    match output {
        Ok(output) => assert_eq!(output, "output", "{fault:?}"),
        Err(error) => assert!(
            fault == Action::Twice && error.is_lost(),
            "{fault:?}: {error}"
        ),
    }
}

#[tokio::test]
async fn a_release_that_goes_wrong_on_its_way_frees_the_lock_and_the_output_stands() {
    with_each_fault(async |rig, fault| {
        let body = async {
            strike(rig, fault);
            "output"
        };
        stands(rig.locks.with_lock(KEY, body).await, fault);
    })
    .await;
}

#[tokio::test]
async fn a_share_that_goes_wrong_on_its_way_enters_once() {
    with_each_fault(async |rig, fault| {
        strike(rig, fault);
        let read = || rig.locks.lock(KEY).read().run(async { rig.hash().await });
        let (one, other) = tokio::join!(read(), read());
        for inside in [one.unwrap(), other.unwrap()] {
            assert!(inside.len() <= 2, "{fault:?}: {inside:?}");
            assert!(inside.into_values().all(|depth| depth == 1), "{fault:?}");
        }
        rig.until_free().await;
        // Nothing blocks a writer.
        let guard = rig.locks.lock(KEY).try_acquire().await.unwrap();
        guard.expect("a free lock").release().await.unwrap();
    })
    .await;
}

/// This covers a writer and a reader. Their caller repeats the request, or is gone.
#[tokio::test]
async fn an_acquire_that_arrives_after_the_end_of_its_hold_lets_nobody_in() {
    let write = |request| request;
    for request in [write, LockRequest::read] {
        for is_gone in [false, true] {
            let rig = Rig::start().await;
            strike(&rig, Action::Hold);
            let caller = tokio::spawn(request(rig.locks.lock(KEY)).run(async {}));
            rig.proxy.wait_until_held(ToServer, EVALSHA).await;
            if is_gone {
                // The release that undoes it is sent on another connection, and overtakes it.
                caller.abort();
            } else {
                rig.proxy.cut_clients(Cut::Reset).await;
                let left = within(DEADLINE, "it asks again, and leaves", caller).await;
                left.unwrap().unwrap();
            }
            let overtaken = async || rig.server.tombstones().await == 1;
            eventually(DEADLINE, "it is undone in advance", overtaken).await;
            rig.until_free().await;
            let next = rig.locks.lock(KEY).await.unwrap();
            let (hash, executed) = (rig.hash().await, rig.executed().await);
            rig.proxy.release(ToServer);
            rig.until_executed(executed, 1).await;
            assert_eq!(rig.hash().await, hash);
            let beside = rig.locks.lock(KEY).read().try_acquire().await.unwrap();
            assert!(beside.is_none());
            next.release().await.unwrap();
            rig.until_free().await;
        }
    }
}

#[tokio::test]
async fn a_renewal_that_goes_wrong_on_its_way_is_made_up_for() {
    // It is renewed after a second, with two seconds left.
    let ttl = Duration::from_secs(3);
    let rigs = FAULTS.map(|fault| async move {
        let rig = Rig::with_ttl(ttl).await;
        let body = async {
            strike(&rig, fault);
            rig.proxy.wait_for_hits(1).await;
            let held = reentry::held(KEY).unwrap();
            // At the next renewal at most two thirds are left. A confirmed renewal gives more.
            let renewed = async || held.remaining() > ttl * 4 / 5;
            eventually(DEADLINE, "the lease is renewed", renewed).await;
            assert_eq!(rig.depth().await, 1, "{fault:?}");
        };
        rig.locks.with_lock(KEY, body).await.unwrap();
        rig.until_free().await;
    });
    futures_util::future::join_all(rigs).await;
}

/// The greeting of the server takes longer than the watchdog waits for one renewal. An attempt that gives up must leave
/// its unfinished connection to the next.
#[tokio::test]
async fn a_reconnection_slower_than_one_attempt_still_saves_the_lease() {
    let second = Duration::from_secs(1);
    let rig = Rig::build(|builder| builder.ttl(3 * second).response_timeout(second)).await;
    let body = async {
        let late = Duration::from_millis(800);
        rig.proxy
            .on_every(ToServer, b"SETINFO", Action::Delay(late));
        rig.cut().await;
        rig.proxy.wait_for_hits(1).await;
        let executed = rig.executed().await;
        rig.until_executed(executed, 1).await;
    };
    rig.locks.with_lock(KEY, body).await.unwrap();
    rig.until_free().await;
}

/// The response timeout is longer than the lease.
#[tokio::test]
async fn a_release_without_an_answer_until_the_lease_ends_succeeds() {
    let ttl = Duration::from_secs(2);
    let rig = Rig::build(|builder| builder.ttl(ttl).response_timeout(DEADLINE)).await;
    let guard = rig.locks.lock(KEY).await.unwrap();
    rig.proxy.refuse().await;
    rig.cut().await;
    let released = within(DEADLINE, "the release is given up", guard.release()).await;
    // A machine that was stalled for this long has already lost the lock.
    let error = released.err();
    assert!(error.as_ref().is_none_or(LockError::is_lost), "{error:?}");
    rig.until_free().await;
}

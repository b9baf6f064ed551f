//! P8 for acquire and release: a request that is lost, executed without an answer, executed twice
//! or executed late leaves no lock without a holder, and changes no depth twice.

use crate::support::proxy::Direction::{ToClient, ToServer};
use crate::support::rig::{EVALSHA, FAULTS, KEY};
use crate::support::{Action, Cut, DEADLINE, Rig, eventually, within};
use tokio::sync::oneshot;

/// How the answer to an acquire begins that won the lock: with the token, a time in microseconds.
const TOKEN: &[u8] = b":17";

#[tokio::test]
async fn an_acquire_that_goes_wrong_on_its_way_takes_the_lock_once() {
    let rig = Rig::start().await;
    for (round, fault) in (1..).zip(FAULTS) {
        rig.proxy.on_next(ToServer, EVALSHA, fault);
        let body = async { rig.hash().await };
        let hash = rig.locks.with_lock(KEY, body).await.unwrap();
        assert_eq!(hash.into_values().collect::<Vec<_>>(), [1], "{fault:?}");
        rig.until_free().await;
        assert_eq!(rig.proxy.hits(), round);
    }
}

#[tokio::test]
async fn a_try_acquire_that_goes_wrong_on_its_way_leaves_nothing() {
    let rig = Rig::start().await;
    for fault in FAULTS {
        rig.proxy.on_next(ToServer, EVALSHA, fault);
        match rig.locks.lock(KEY).try_acquire().await {
            Ok(guard) => guard.expect("a free lock").release().await.unwrap(),
            // It asks once, so it cannot know.
            Err(error) => assert!(error.to_string().contains(KEY), "{error}"),
        }
        rig.until_free().await;
    }
}

#[tokio::test]
async fn a_release_that_goes_wrong_on_its_way_frees_the_lock_and_the_output_stands() {
    let rig = Rig::start().await;
    for fault in FAULTS {
        if fault == Action::Twice {
            // Below: no client sees the second answer to one request.
            continue;
        }
        let body = async {
            rig.proxy.on_next(ToServer, EVALSHA, fault);
            "output"
        };
        assert_eq!(rig.locks.with_lock(KEY, body).await.unwrap(), "output");
        rig.until_free().await;
    }
}

#[tokio::test]
async fn a_release_executed_twice_frees_the_lock_once() {
    let rig = Rig::start().await;
    let body = async { rig.proxy.on_next(ToServer, EVALSHA, Action::Record) };
    rig.locks.with_lock(KEY, body).await.unwrap();
    rig.until_free().await;
    let next = rig.locks.lock(KEY).await.unwrap();
    for release in rig.proxy.recorded() {
        assert_eq!(rig.proxy.replay(&release).await, b"*1\r\n:0\r\n");
    }
    assert_eq!(rig.depth().await, 1, "the next holder keeps its lock");
    next.release().await.unwrap();
    rig.until_free().await;
}

#[tokio::test]
async fn an_acquire_executed_late_during_its_own_hold_changes_nothing() {
    let rig = Rig::start().await;
    rig.proxy.on_next(ToServer, EVALSHA, Action::Hold);
    let (entered, inside) = oneshot::channel();
    let (leave, left) = oneshot::channel::<()>();
    let locks = rig.locks.clone();
    let holder = tokio::spawn(rig.locks.with_lock(KEY, async move {
        let nested = locks.with_lock(KEY, async {
            let token = reentry::held(KEY).unwrap().fencing_token();
            entered.send(token.0).unwrap();
            left.await.unwrap();
        });
        nested.await.unwrap();
    }));
    rig.proxy.wait_until_held(ToServer, EVALSHA).await;
    rig.proxy.cut_clients(Cut::Reset).await;
    let token = within(DEADLINE, "it asks again and enters", inside)
        .await
        .unwrap();
    let (hash, executed) = (rig.hash().await, rig.executed().await);
    assert_eq!(hash.values().copied().collect::<Vec<_>>(), [2]);

    rig.proxy.release(ToServer);
    rig.until_executed(executed, 1).await;
    assert_eq!(rig.hash().await, hash);
    let info = rig.locks.inspect(KEY).await.unwrap().unwrap();
    assert_eq!(info.token.map(|token| token.0), Some(token));
    leave.send(()).unwrap();
    holder.await.unwrap().unwrap();
    rig.until_free().await;
}

#[tokio::test]
async fn an_acquire_executed_after_the_end_of_its_hold_does_not_bring_the_lock_back() {
    let rig = Rig::start().await;
    rig.proxy.on_next(ToServer, EVALSHA, Action::Hold);
    let holder = tokio::spawn(rig.locks.with_lock(KEY, async {}));
    rig.proxy.wait_until_held(ToServer, EVALSHA).await;
    rig.proxy.cut_clients(Cut::Fin).await;
    within(DEADLINE, "it asks again, and leaves", holder)
        .await
        .unwrap()
        .unwrap();
    rig.until_free().await;
    let executed = rig.executed().await;
    rig.proxy.release(ToServer);
    rig.until_executed(executed, 1).await;
    assert_eq!(rig.depth().await, 0, "the late request was refused");
    assert_eq!(rig.server.tombstones().await, 1);
    rig.locks.with_lock(KEY, async {}).await.unwrap();
}

#[tokio::test]
async fn a_duplicate_of_an_unanswered_acquire_after_its_hold_is_refused() {
    let rig = Rig::start().await;
    rig.proxy.on_next(ToServer, EVALSHA, Action::Record);
    rig.proxy
        .on_next(ToClient, TOKEN, Action::CutInstead(Cut::Reset));
    rig.locks.with_lock(KEY, async {}).await.unwrap();
    assert_eq!(rig.proxy.hits(), 2, "recorded, and its answer lost");
    rig.until_free().await;
    let answer = rig.proxy.replay(&rig.proxy.recorded()[0]).await;
    assert_eq!(answer, b"*1\r\n:-1\r\n");
    assert_eq!(rig.depth().await, 0);
}

#[tokio::test]
async fn an_acquire_whose_caller_is_gone_is_undone_even_if_it_arrives_last() {
    let rig = Rig::start().await;
    rig.proxy.on_next(ToServer, EVALSHA, Action::Hold);
    let waiter = tokio::spawn(rig.locks.with_lock(KEY, async {}));
    rig.proxy.wait_until_held(ToServer, EVALSHA).await;
    waiter.abort();
    // No answer comes, so the undoing release goes out on another connection, and overtakes it.
    let overtaken = async || rig.server.tombstones().await == 1;
    eventually(DEADLINE, "the acquire is undone in advance", overtaken).await;
    let executed = rig.executed().await;
    rig.proxy.release(ToServer);
    rig.until_executed(executed, 1).await;
    assert_eq!(rig.depth().await, 0);
    assert!(rig.locks.lock(KEY).try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn an_acquire_that_is_answered_after_its_caller_is_gone_is_undone() {
    let rig = Rig::start().await;
    rig.proxy.on_next(ToClient, TOKEN, Action::Hold);
    let waiter = tokio::spawn(rig.locks.with_lock(KEY, async {}));
    rig.proxy.wait_until_held(ToClient, TOKEN).await;
    assert_eq!(rig.depth().await, 1, "executed, and not answered");
    waiter.abort();
    assert!(waiter.await.unwrap_err().is_cancelled());
    rig.proxy.release(ToClient);
    rig.until_free().await;
}

#[tokio::test]
async fn a_release_executed_late_does_not_touch_the_next_holder() {
    let rig = Rig::start().await;
    let body = async { rig.proxy.on_next(ToServer, EVALSHA, Action::Hold) };
    let released = rig.locks.with_lock(KEY, body);
    let cut = async {
        rig.proxy.wait_until_held(ToServer, EVALSHA).await;
        rig.proxy.cut_clients(Cut::Reset).await;
    };
    let (output, ()) = tokio::join!(released, cut);
    output.unwrap();
    rig.until_free().await;
    let next = rig.locks.lock(KEY).await.unwrap();
    let (hash, executed) = (rig.hash().await, rig.executed().await);
    rig.proxy.release(ToServer);
    rig.until_executed(executed, 1).await;
    assert_eq!(rig.hash().await, hash);
    next.release().await.unwrap();
    rig.until_free().await;
}

//! P8 for readers: a request to share, to leave or to downgrade that is lost, executed without an answer, executed
//! twice or executed late leaves no reader behind, and lets none in beside a writer.

use crate::support::proxy::Direction::ToServer;
use crate::support::rig::{EVALSHA, FAULTS, KEY};
use crate::support::{Action, Cut, DEADLINE, Rig, eventually, within};
use reentry::Mode;

/// No reader can enter.
async fn is_exclusive(rig: &Rig) {
    let info = rig.locks.inspect(KEY).await.unwrap().unwrap();
    assert_eq!((info.mode, info.holders.len()), (Mode::Exclusive, 1));
}

#[tokio::test]
async fn a_share_that_goes_wrong_on_its_way_enters_once() {
    let rig = Rig::start().await;
    for fault in FAULTS {
        rig.proxy.on_next(ToServer, EVALSHA, fault);
        let read = || rig.locks.with_read_lock(KEY, async { rig.hash().await });
        let (one, other) = tokio::join!(read(), read());
        for inside in [one.unwrap(), other.unwrap()] {
            assert!(inside.len() <= 2, "{fault:?}: {inside:?}");
            assert!(inside.into_values().all(|depth| depth == 1), "{fault:?}");
        }
        rig.until_free().await;
        // Nothing keeps a writer out.
        let guard = rig.locks.lock(KEY).try_acquire().await.unwrap();
        guard.expect("a free lock").release().await.unwrap();
    }
}

#[tokio::test]
async fn a_share_executed_after_the_end_of_its_hold_lets_nobody_in() {
    let rig = Rig::start().await;
    rig.proxy.on_next(ToServer, EVALSHA, Action::Hold);
    let reader = tokio::spawn(rig.locks.with_read_lock(KEY, async {}));
    rig.proxy.wait_until_held(ToServer, EVALSHA).await;
    rig.proxy.cut_clients(Cut::Reset).await;
    let read = within(DEADLINE, "it asks again, and leaves", reader).await;
    read.unwrap().unwrap();
    rig.until_free().await;
    let writer = rig.locks.lock(KEY).await.unwrap();
    let executed = rig.executed().await;
    rig.proxy.release(ToServer);
    rig.until_executed(executed, 1).await;
    is_exclusive(&rig).await;
    writer.release().await.unwrap();
    rig.until_free().await;
    assert_eq!(rig.server.tombstones().await, 1);
}

#[tokio::test]
async fn a_reader_whose_caller_is_gone_is_undone_even_if_its_request_arrives_last() {
    let rig = Rig::start().await;
    rig.proxy.on_next(ToServer, EVALSHA, Action::Hold);
    let reader = tokio::spawn(rig.locks.with_read_lock(KEY, async {}));
    rig.proxy.wait_until_held(ToServer, EVALSHA).await;
    reader.abort();
    let overtaken = async || rig.server.tombstones().await == 1;
    eventually(DEADLINE, "the share is undone in advance", overtaken).await;
    let executed = rig.executed().await;
    rig.proxy.release(ToServer);
    rig.until_executed(executed, 1).await;
    assert_eq!(rig.depth().await, 0);
    assert!(rig.locks.lock(KEY).try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn an_end_that_goes_wrong_on_its_way_ends_that_reader_alone() {
    let rig = Rig::start().await;
    for fault in FAULTS {
        let stays = rig.locks.lock(KEY).shared().await.unwrap();
        let body = async {
            rig.proxy.on_next(ToServer, EVALSHA, fault);
            "output"
        };
        let read = rig.locks.with_read_lock(KEY, body).await;
        if fault != Action::Twice {
            // Of two copies the client may see the answer to the second one.
            assert_eq!(read.unwrap(), "output", "{fault:?}");
        }
        rig.until_depth(1).await;
        assert!(rig.locks.lock(KEY).try_acquire().await.unwrap().is_none());
        stays.release().await.unwrap();
        rig.until_free().await;
    }
}

#[tokio::test]
async fn an_end_executed_twice_touches_no_later_holder() {
    let rig = Rig::start().await;
    let body = async { rig.proxy.on_next(ToServer, EVALSHA, Action::Record) };
    rig.locks.with_read_lock(KEY, body).await.unwrap();
    rig.until_free().await;
    let end = &rig.proxy.recorded()[0];
    for shares in [false, true] {
        let request = rig.locks.lock(KEY);
        let request = if shares { request.shared() } else { request };
        let next = request.await.unwrap();
        assert_eq!(rig.proxy.replay(end).await, b":0\r\n");
        assert_eq!(rig.depth().await, 1);
        next.release().await.unwrap();
        rig.until_free().await;
    }
}

#[tokio::test]
async fn a_downgrade_that_goes_wrong_on_its_way_shares_the_lock_once() {
    let rig = Rig::start().await;
    for fault in FAULTS {
        let writer = rig.locks.lock(KEY).await.unwrap();
        let token = writer.held().fencing_token();
        rig.proxy.on_next(ToServer, EVALSHA, fault);
        writer.held().downgrade().await.unwrap();
        let reader = rig.locks.lock(KEY).shared().no_wait().await.unwrap();
        assert_eq!(reader.held().fencing_token(), token, "{fault:?}");
        writer.release().await.unwrap();
        assert!(rig.locks.lock(KEY).try_acquire().await.unwrap().is_none());
        reader.release().await.unwrap();
        rig.until_free().await;
    }
}

#[tokio::test]
async fn a_downgrade_executed_late_lets_nobody_in_beside_a_writer() {
    let rig = Rig::start().await;
    let writer = rig.locks.lock(KEY).await.unwrap();
    rig.proxy.on_next(ToServer, EVALSHA, Action::Record);
    writer.held().downgrade().await.unwrap();
    writer.release().await.unwrap();
    rig.until_free().await;
    let next = rig.locks.lock(KEY).await.unwrap();
    assert_eq!(rig.proxy.replay(&rig.proxy.recorded()[0]).await, b":0\r\n");
    is_exclusive(&rig).await;
    assert!(
        rig.locks
            .lock(KEY)
            .shared()
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    next.release().await.unwrap();
}

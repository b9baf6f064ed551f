//! Several locks over callers that are not polled any more, and over runtimes that end.

use std::time::Duration;

use crate::support::{
    DEADLINE, RedisServer, connect, depths, eventually, on_both_stores, patient_at, within,
};
use futures_util::FutureExt;
use reentry::{Locks, held};
use tokio::runtime::{Builder, Runtime};

on_both_stores!(an_acquisition_of_several_left_alone_keeps_no_other_caller_waiting,);

/// The others get in after two heartbeats. What it was given, and did not come for, has gone by then: it asks again, in
/// order.
async fn an_acquisition_of_several_left_alone_keeps_no_other_caller_waiting(locks: Locks) {
    for key in ["a", "b", "c"] {
        let keys = ["a", "b", "c"];
        let depths_inside = async { keys.map(|key| held(key).unwrap().depth()) };
        let mut left_alone = Box::pin(locks.lock_all(keys).run(depths_inside));
        // In memory the first poll may be enough.
        let early = (&mut left_alone).now_or_never();
        let other = locks.with_lock(key, async { held(key).unwrap().is_lost() });
        let entered = within(DEADLINE, "the other enters", other).await;
        assert!(!entered.unwrap(), "{key}");
        let inside = match early {
            Some(inside) => inside,
            None => within(DEADLINE, "they enter in the end", left_alone).await,
        };
        assert_eq!(inside.unwrap(), [1; 3], "{key}");
        for key in keys {
            assert!(depths(&locks, key).await.is_empty(), "{key}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn several_held_and_left_alone_are_renewed() {
    let locks = Locks::in_memory();
    let ttl = Duration::from_secs(2);
    let guard = locks.lock_all(["a", "b"]).ttl(ttl).await.unwrap();
    let mut left_alone = Box::pin(guard.scope(std::future::pending::<()>()));
    assert!((&mut left_alone).now_or_never().is_none());
    tokio::time::sleep(ttl + ttl / 2).await;
    assert!(
        (&mut left_alone).now_or_never().is_none(),
        "it was not lost"
    );
    drop(left_alone);
    guard.release().await.unwrap();
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// The request was sent, and its runtime ends before the answer is read.
#[test]
fn others_get_in_when_the_runtime_that_asked_for_several_is_gone() {
    let ground = runtime();
    let server = ground.block_on(RedisServer::start());
    for url in [server.url(), "memory:".to_owned()] {
        let first = runtime();
        let locks = ground
            .block_on(patient_at(&*url).wait(DEADLINE).build())
            .unwrap();
        let mut begun = Box::pin(locks.lock_all(["a", "b"]).run(async {}));
        let early = first.block_on(async { (&mut begun).now_or_never() });
        drop(first);
        let other = locks.with_lock("b", async {});
        let entered = ground.block_on(within(DEADLINE, "the other enters", other));
        entered.unwrap();
        if early.is_none() {
            // It goes on where it is polled next.
            let entered = ground.block_on(within(DEADLINE, "they enter", begun));
            entered.unwrap();
        }
        for key in ["a", "b"] {
            assert!(
                ground.block_on(locks.inspect(key)).unwrap().is_none(),
                "{key}"
            );
        }
    }
}

/// Also where it is dropped then: nothing of it may be left.
#[test]
fn nothing_is_left_of_several_whose_runtime_is_gone() {
    let ground = runtime();
    let server = ground.block_on(RedisServer::start());
    let first = runtime();
    let locks = ground.block_on(connect(&server));
    let mut begun = Box::pin(locks.lock_all(["a", "b"]).run(std::future::pending::<()>()));
    assert!(
        first
            .block_on(async { (&mut begun).now_or_never() })
            .is_none()
    );
    drop(first);
    ground.block_on(async {
        drop(begun);
        let nothing = async || server.leftovers().await.is_empty();
        eventually(DEADLINE, "nothing is left", nothing).await;
    });
}

//! Several locks with callers that are no longer polled, and with runtimes that end.

use crate::support::{
    DEADLINE, RedisServer, depths, eventually, on_both_stores, patient_at, within,
};
use futures_util::FutureExt;
use reentry::{Locks, held};
use tokio::runtime::Builder;

const KEYS: [&str; 3] = ["a", "b", "c"];

on_both_stores!(an_acquisition_of_several_left_alone_keeps_no_other_caller_waiting,);

async fn are_free(locks: &Locks) {
    for key in KEYS {
        let is_free = async || depths(locks, key).await.is_empty();
        eventually(DEADLINE, &format!("{key} is free"), is_free).await;
    }
}

/// The others enter after two heartbeats. The grants that it did not claim have been passed over by then. It sends
/// requests again, in order.
async fn an_acquisition_of_several_left_alone_keeps_no_other_caller_waiting(locks: Locks) {
    for key in KEYS {
        let depths_inside = async { KEYS.map(|key| held(key).unwrap().depth()) };
        let mut left_alone = Box::pin(locks.lock_all(KEYS).run(depths_inside));
        // In memory one poll may suffice.
        let early = (&mut left_alone).now_or_never();
        let other = locks.with_lock(key, async { held(key).unwrap().is_lost() });
        let entered = within(DEADLINE, "the other enters", other).await;
        assert!(!entered.unwrap(), "{key}");
        let inside = match early {
            Some(inside) => inside,
            None => within(DEADLINE, "they enter in the end", left_alone).await,
        };
        assert_eq!(inside.unwrap(), [1; 3], "{key}");
        are_free(&locks).await;
    }
}

/// The request was sent, and its runtime ends before the response is read. The acquisition continues where it is next
/// polled, or is dropped.
#[test]
fn others_get_in_when_the_runtime_that_asked_for_several_is_gone() {
    let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
    let ground = runtime();
    let server = ground.block_on(RedisServer::start());
    for url in [server.url(), "memory:".to_owned()] {
        for is_dropped in [false, true] {
            let first = runtime();
            let builder = patient_at(&*url).wait(DEADLINE);
            let locks = ground.block_on(builder.build()).unwrap();
            let mut begun = Box::pin(locks.lock_all(KEYS).run(async {}));
            let early = first.block_on(async { (&mut begun).now_or_never() });
            drop(first);
            ground.block_on(async {
                if is_dropped {
                    drop(begun);
                } else if early.is_none() {
                    let other = locks.with_lock("b", async {});
                    within(DEADLINE, "the other enters", other).await.unwrap();
                    within(DEADLINE, "they enter", begun).await.unwrap();
                }
                are_free(&locks).await;
            });
        }
    }
}

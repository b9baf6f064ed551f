//! One `Locks` over several runtimes. A connection ends with the runtime that opened it, and a runtime that is no
//! longer driven must not block another one.

use std::time::Duration;

use crate::support::runtime::runtime;
use crate::support::sweep::poll_times;
use crate::support::{
    Cut, DEADLINE, Proxy, RedisServer, eventually, patient_at, until_free, within,
};
use reentry::{Locks, LostReason};
use tokio::runtime::{Builder, Runtime};

const KEY: &str = "order:42";

/// A runtime whose tasks continue between two calls of `block_on`.
fn busy_runtime() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
}

async fn locks_on(url: &str) -> Locks {
    let locks = patient_at(url).wait(DEADLINE).build().await;
    locks.unwrap()
}

fn on_each_store(case: impl Fn(&str)) {
    let ground = runtime();
    let server = ground.block_on(RedisServer::start());
    case(&server.url());
    case("memory:");
}

#[test]
fn a_waiter_gets_in_although_the_runtime_that_waited_before_it_is_gone() {
    on_each_store(|url| {
        let (first, next) = (runtime(), busy_runtime());
        let locks = next.block_on(locks_on(url));
        let holder = next.block_on(locks.lock(KEY).acquire()).unwrap();
        first.block_on(async {
            drop(tokio::spawn(locks.with_lock(KEY, async {})));
            let waits = async || locks.admin().inspect(KEY).await.unwrap().unwrap().waiters == 1;
            eventually(DEADLINE, "it waits", waits).await;
        });
        let second = next.spawn(locks.with_lock(KEY, async {}));
        drop(first);
        next.block_on(async {
            holder.release().await.unwrap();
            let entered = within(DEADLINE, "the next one enters", second).await;
            entered.unwrap().unwrap();
        });
    });
}

/// This is like a program that calls `block_on` for each job: between jobs none of its code runs.
#[test]
fn a_waiter_gets_in_although_the_runtime_that_gave_up_before_it_stands_still() {
    on_each_store(|url| {
        let (still, next) = (runtime(), busy_runtime());
        let locks = next.block_on(locks_on(url));
        let holder = next.block_on(locks.lock(KEY).acquire()).unwrap();
        // When the first waiter is dropped it is in the queue, and its driver is in the runtime that is stalled from
        // now on.
        let gave_up = still.block_on(poll_times(1, locks.with_lock(KEY, async {})));
        assert!(gave_up.is_none());
        next.block_on(async {
            holder.release().await.unwrap();
            let waiting = locks.with_lock(KEY, async {});
            within(DEADLINE / 2, "it enters", waiting).await.unwrap();
        });
        drop(still);
    });
}

#[test]
fn a_connection_begun_in_a_runtime_that_stands_still_delays_no_caller() {
    let (still, next) = (runtime(), busy_runtime());
    let server = next.block_on(RedisServer::start());
    let proxy = Proxy::start(server.port());
    let locks = next.block_on(async {
        let builder = patient_at(proxy.url()).wait(DEADLINE);
        let builder = builder.connect_timeout(Duration::from_millis(300));
        let mut locks = None;
        // The first connection on a busy machine may take longer.
        let connects = async || {
            locks = builder.clone().build().await.ok();
            locks.is_some()
        };
        eventually(DEADLINE, "it connects", connects).await;
        locks.unwrap()
    });
    for _ in 0..3 {
        next.block_on(proxy.cut_all(Cut::Reset));
        // One of them may still learn that the old connection is gone. The caller that notices that begins to open
        // another one, and does not continue.
        for _ in 0..2 {
            drop(still.block_on(poll_times(1, locks.admin().inspect(KEY))));
        }
        next.block_on(async {
            let waiting = locks.with_lock(KEY, async {});
            within(DEADLINE / 2, "it enters", waiting).await.unwrap();
        });
    }
    drop(still);
}

#[test]
fn a_guard_from_a_runtime_that_is_gone_is_released_or_ends_with_its_lease() {
    on_each_store(|url| {
        let (first, next) = (runtime(), busy_runtime());
        let locks = next.block_on(locks_on(url));
        let [released, dropped, lost] = ["released", "dropped", "lost"].map(|key| {
            let request = locks.lock(key).ttl(Duration::from_secs(2));
            first.block_on(request.acquire()).unwrap()
        });
        drop(first);
        next.block_on(async {
            released.release().await.unwrap();
            assert!(locks.admin().inspect("released").await.unwrap().is_none());

            // Its own runtime has ended, so this one releases it.
            drop(dropped);
            until_free(&locks, "dropped").await;
            // No runtime is left to renew it.
            within(DEADLINE, "the lease ends", lost.held().lost()).await;
            assert!(lost.held().is_lost() && lost.held().remaining().is_zero());
            let error = lost.release().await.unwrap_err();
            assert!(error.to_string().contains(&LostReason::Expired.to_string()));
        });
    });
}

//! The spans `lock.wait` and `lock.hold`: when they begin and end, and what is inside them.

use std::time::Duration;

use reentry::{FutureExt as _, LockError, Locks, OnLost};
use tokio::time::sleep;
use tracing::{Instrument, info, info_span};

use crate::page;
use crate::support::{DEADLINE, eventually};
use crate::trace::Trace;

const KEY: &str = "order:42";

#[tokio::test(start_paused = true)]
async fn the_page_shows_the_trace_of_a_request() -> Result<(), LockError> {
    let (trace, _guard) = Trace::of_this_test();
    let locks = Locks::in_memory();
    let ship = locks.with_lock(KEY, async {
        sleep(Duration::from_secs(11)).await;
        let invoice = locks.with_lock(KEY, async { info!("invoice written") });
        invoice.instrument(info_span!("invoice")).await
    });
    ship.instrument(info_span!("POST /orders/42/ship"))
        .await??;
    let shown = ["key", "mode", "outcome", "depth", "remaining"];
    let tree = trace.tree(&shown);
    assert!(page::text().contains(&tree), "the page lacks\n{tree}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_span_of_a_wait_has_its_outcome() {
    let (trace, _guard) = Trace::of_this_test();
    let locks = Locks::in_memory();
    let guard = locks.lock(KEY).await.unwrap();
    let second = Duration::from_secs(1);
    assert!(locks.lock(KEY).no_wait().await.is_err());
    assert!(locks.lock(KEY).wait(second).await.is_err());
    let cancelled = tokio::time::timeout(second, locks.lock(KEY).acquire()).await;
    assert!(cancelled.is_err());
    guard.release().await.unwrap();
    let waits = trace.named("lock.wait");
    let field = |name: &str| -> Vec<Option<String>> {
        let fields = waits.iter().map(|wait| wait.fields.get(name).cloned());
        fields.collect()
    };
    let some = |value: &str| Some(value.to_owned());
    let outcomes = ["acquired", "busy", "timeout", "cancelled"].map(some);
    assert_eq!(field("outcome"), outcomes);
    assert_eq!(field("error.type"), [None, None, some("timeout"), None]);
    assert_eq!(field("otel.status_code"), [None, None, some("ERROR"), None]);
    assert!(waits.iter().all(|wait| wait.is_over));
}

#[tokio::test(start_paused = true)]
async fn events_of_a_hold_are_inside_its_span() -> Result<(), LockError> {
    let (trace, _guard) = Trace::of_this_test();
    let locks = Locks::in_memory();
    let work = async { sleep(Duration::from_secs(11)).await };
    locks.with_lock(KEY, work).await?;
    assert_eq!(trace.around("acquired"), ["lock.wait"]);
    for event in ["renewed", "released"] {
        assert_eq!(trace.around(event), ["lock.hold"], "{event}");
    }
    let hold = &trace.named("lock.hold")[0];
    let released = &trace.named("released")[0];
    assert_eq!(hold.fields["hold"], released.fields["hold"]);
    assert!(hold.fields.contains_key("token"));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_an_error_of_its_hold() {
    let (trace, _guard) = Trace::of_this_test();
    let locks = Locks::in_memory();
    let request = locks.lock(KEY).on_lost(OnLost::KeepRunning);
    let body = async { locks.admin().force_release(KEY).await };
    assert!(request.run(body).await.unwrap().unwrap());
    assert_eq!(trace.around("lost"), ["lock.hold"]);
    let hold = &trace.named("lock.hold")[0];
    assert_eq!(hold.fields["error.type"], "lost");
    assert_eq!(hold.fields["otel.status_code"], "ERROR");
}

#[tokio::test(start_paused = true)]
async fn a_guard_encloses_its_scope_where_it_was_taken() -> Result<(), LockError> {
    let (trace, _guard) = Trace::of_this_test();
    let locks = Locks::in_memory();
    let guard = locks.lock(KEY).await?;
    guard.scope(async { info!("here") }).await?;
    let elsewhere = async { guard.scope(async { info!("elsewhere") }).await };
    elsewhere.instrument(info_span!("step")).await?;
    assert_eq!(trace.around("here"), ["lock.hold"]);
    assert_eq!(trace.around("elsewhere"), ["step"]);
    assert!(!trace.named("lock.hold")[0].is_over);
    drop(guard);
    let is_over = async || trace.named("lock.hold")[0].is_over;
    eventually(DEADLINE, "the hold is over", is_over).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_hold_lasts_until_its_last_member_has_left() -> Result<(), LockError> {
    let (trace, _guard) = Trace::of_this_test();
    let locks = Locks::in_memory();
    let body = async {
        let member = sleep(Duration::from_secs(5)).in_current_call();
        (tokio::spawn(member), reentry::held(KEY))
    };
    let (member, held) = locks.with_lock(KEY, body).await?;
    assert!(!trace.named("lock.hold")[0].is_over);
    member.await.expect("no panic")?;
    // A view of the hold keeps nothing alive.
    assert_eq!(held.map(|held| held.depth()), Some(0));
    let is_over = async || trace.named("lock.hold")[0].is_over;
    eventually(DEADLINE, "the hold is over", is_over).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn several_locks_are_one_wait_and_one_hold() -> Result<(), LockError> {
    let (trace, _guard) = Trace::of_this_test();
    let locks = Locks::in_memory();
    let request = locks.lock_all(["account:1", "account:2"]);
    request.run(async { info!("inside") }).await?;
    let [wait, hold] = ["lock.wait", "lock.hold"].map(|name| trace.named(name));
    assert_eq!((wait.len(), hold.len()), (1, 1));
    for key in ["account:1", "account:2"] {
        assert!(hold[0].fields["key"].contains(key), "{hold:?}");
    }
    assert_eq!(trace.around("inside"), ["lock.hold"]);
    assert_eq!(trace.around("released"), ["lock.hold"]);
    assert!(hold[0].is_over);
    Ok(())
}

//! P2: the chain is what encloses the poll. Futures are created, or polled for a while, in one call graph and continue
//! in another one.

#![allow(
    clippy::async_yields_async,
    reason = "futures leave the body that they were begun in"
)]

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;

use crate::support::{DEADLINE, in_memory, within};
use reentry::__admin::current_owner;
use reentry::{LockError, Locks, held};
use tokio::select;
use tokio::sync::{Notify, oneshot};

in_memory!(
    a_scope_made_inside_a_branch_does_not_re_enter_in_its_sibling,
    a_section_begun_inside_a_body_and_spawned_does_not_re_enter,
    a_section_begun_outside_is_below_the_body_that_awaits_it,
    a_body_dropped_in_another_task_is_dropped_inside_its_scope,
);

/// Returns whether the code that runs now may enter the lock.
async fn gets_in(locks: &Locks, key: &str) -> bool {
    match locks.lock(key).no_wait().run(async {}).await {
        Ok(()) => true,
        Err(LockError::Busy { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Polls a section until its body reports that it runs, and then no longer.
async fn begin<F: Future>(section: &mut Pin<Box<F>>, inside: &Notify) {
    let begun = async {
        select! {
            biased;
            () = inside.notified() => {}
            _ = section => panic!("it waits for a sign to go on"),
        }
    };
    within(DEADLINE, "the section to begin", begun).await;
}

async fn a_scope_made_inside_a_branch_does_not_re_enter_in_its_sibling(locks: Locks) {
    let guard = locks.lock("inner").await.unwrap();
    let (send, receive) = oneshot::channel();
    let (leave, may_leave) = oneshot::channel();
    let holder = locks.with_lock("outer", async {
        let probe = guard.scope(async { gets_in(&locks, "outer").await });
        assert!(send.send(probe).is_ok());
        may_leave.await.unwrap();
    });
    let sibling = async {
        let entered = receive.await.unwrap().await.unwrap();
        leave.send(()).unwrap();
        entered
    };
    let (held, entered) = tokio::join!(holder, sibling);
    held.unwrap();
    assert!(!entered);
}

/// It is abandoned inside the body, for example by a timeout, and spawned.
async fn a_section_begun_inside_a_body_and_spawned_does_not_re_enter(locks: Locks) {
    let (go_on, may_go_on) = oneshot::channel();
    let inside = Arc::new(Notify::new());
    let body = async {
        let (inner, is_inside) = (locks.clone(), Arc::clone(&inside));
        let mut section = Box::pin(locks.with_lock("inner", async move {
            is_inside.notify_one();
            may_go_on.await.unwrap();
            gets_in(&inner, "outer").await
        }));
        begin(&mut section, &inside).await;
        let spawned = tokio::spawn(section);
        go_on.send(()).unwrap();
        spawned.await.unwrap().unwrap()
    };
    assert!(!locks.with_lock("outer", body).await.unwrap());
}

async fn a_section_begun_outside_is_below_the_body_that_awaits_it(locks: Locks) {
    let (go_on, may_go_on) = oneshot::channel();
    let inside = Notify::new();
    let mut section = Box::pin(locks.with_lock("inner", async {
        inside.notify_one();
        may_go_on.await.unwrap();
        gets_in(&locks, "outer").await
    }));
    begin(&mut section, &inside).await;
    go_on.send(()).unwrap();
    assert!(locks.with_lock("outer", section).await.unwrap().unwrap());
}

/// Reports its view when it is dropped.
struct OnDrop(Option<oneshot::Sender<(bool, bool)>>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        let seen = (held("key").is_some(), current_owner().is_some());
        let sender = self.0.take().unwrap();
        let _ = sender.send(seen);
    }
}

async fn a_body_dropped_in_another_task_is_dropped_inside_its_scope(locks: Locks) {
    let (sender, seen) = oneshot::channel();
    let inside = Arc::new(Notify::new());
    let is_inside = Arc::clone(&inside);
    let mut section = Box::pin(locks.with_lock("key", async move {
        is_inside.notify_one();
        let _on_drop = OnDrop(Some(sender));
        pending::<()>().await;
    }));
    begin(&mut section, &inside).await;
    tokio::spawn(async { drop(section) }).await.unwrap();
    assert_eq!(seen.await.unwrap(), (true, true));
}

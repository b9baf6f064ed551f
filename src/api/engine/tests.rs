//! A `Locks` in a fork of its process.

use std::error::Error;

use futures_util::FutureExt;
use tokio::runtime::{Builder, Runtime};

use crate::api::locks::Locks;
use crate::base::error::LockError;
use crate::base::id::{InboxId, Owner};
use crate::base::key::LockKey;
use crate::base::options::Mode;
use crate::base::process::{FORKED, ProcessId, in_a_fork};
use crate::hold::scope;
use crate::store::{Release, ReleaseKind, ReleaseRequest};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A `Locks` whose server cannot be reached.
fn away() -> Locks {
    let locks = Locks::builder("redis://127.0.0.1:1");
    locks.build_lazy().unwrap()
}

fn acquire(locks: &Locks) -> LockError {
    let acquired = locks.lock("order:42").no_wait();
    runtime().block_on(async { acquired.await.unwrap_err() })
}

#[test]
fn a_used_locks_is_rejected_in_a_fork() {
    let uses: [fn(&Locks) -> LockError; 2] = [acquire, |locks| {
        runtime()
            .block_on(locks.admin().inspect("order:42"))
            .unwrap_err()
    }];
    for used in uses {
        let locks = away();
        assert!(matches!(used(&locks), LockError::Unavailable { .. }));
        let acquired = in_a_fork(|| acquire(&locks));
        assert!(
            matches!(&acquired, LockError::Misuse { what, .. } if what == FORKED),
            "{acquired}"
        );
        let inspected = in_a_fork(|| runtime().block_on(locks.admin().inspect("order:42")));
        let Err(misuse @ LockError::Misuse { .. }) = inspected else {
            panic!("{inspected:?}");
        };
        let reason = misuse.source().and_then(Error::source);
        assert_eq!(reason.map(ToString::to_string).as_deref(), Some(FORKED));
        // The process itself goes on.
        assert!(matches!(acquire(&locks), LockError::Unavailable { .. }));
    }
}

#[test]
fn an_unused_locks_belongs_to_the_fork_that_uses_it() {
    let locks = away();
    let acquired = in_a_fork(|| acquire(&locks));
    assert!(acquired.is_unavailable(), "{acquired}");
    assert!(matches!(acquire(&locks), LockError::Misuse { .. }));
}

/// The task that sends releases together belongs to a thread that a fork does not have.
#[test]
fn a_release_among_others_is_rejected_in_a_fork_without_a_task() {
    let locks = away();
    acquire(&locks);
    let release = Release {
        key: LockKey::new("", "order:42").unwrap(),
        request: ReleaseRequest {
            hold: Owner::new().next_hold(),
            mode: Mode::Exclusive,
            inbox: InboxId::new(),
            end: ReleaseKind::Short,
            with_others: true,
        },
        written: None,
    };
    let store = &locks.engine.core.store;
    let released = in_a_fork(|| store.ask(release).now_or_never());
    assert!(released.is_some_and(|released| released.is_err_and(|error| error.is_denied())));
}

#[test]
fn a_fork_inside_a_body_begins_a_call_graph_of_its_own() {
    let locks = Locks::in_memory();
    let owner = || scope::call_graph().owner().id();
    let (nested, forked) = runtime()
        .block_on(locks.with_lock("order:42", async { (owner(), in_a_fork(owner)) }))
        .unwrap();
    assert_eq!(nested.process(), ProcessId::this());
    assert_ne!(forked.process(), nested.process());
}

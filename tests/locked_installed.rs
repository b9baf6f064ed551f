//! `#[locked]` on the installed `Locks`. It is the only test in its process, because `install` affects the process.
#![cfg(feature = "macros")]
#![allow(missing_docs)]

use reentry::{LockError, Locks, locked};

#[locked("order:{id}", locks = Locks::in_memory())]
async fn elsewhere(id: u32, here: &Locks) -> Result<bool, LockError> {
    Ok(here.admin().inspect("order:1").await?.is_some())
}

#[locked("order:{id}")]
async fn ship(id: u32, on: &Locks) -> Result<bool, LockError> {
    Ok(on.admin().inspect("order:1").await?.is_some())
}

#[tokio::test]
async fn the_installed_locks_serve_calls_outside_every_scope() {
    let (installed, scoped) = (Locks::in_memory(), Locks::in_memory());
    let none = ship(1, &installed).await;
    assert!(matches!(none, Err(LockError::Misuse { .. })), "{none:?}");
    installed.install().unwrap();
    assert!(matches!(scoped.install(), Err(LockError::Misuse { .. })));
    assert!(ship(1, &installed).await.unwrap());
    assert!(scoped.scope(ship(1, &scoped)).await.unwrap());
    assert!(!elsewhere(1, &installed).await.unwrap());
    // A spawned task leaves the scope.
    let task = scoped.scope(async { tokio::spawn(async move { ship(1, &installed).await }).await });
    assert!(task.await.unwrap().unwrap());
}

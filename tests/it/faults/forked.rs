//! A process that forks. No id is made twice, whatever the fork has copied, and a copy of a used `Locks` is rejected.

use std::error::Error;
use std::process::exit;

use crate::support::child::Role;
use crate::support::runtime::runtime;
use crate::support::{Child, RedisServer, child, patient_at};
use fork::{Fork, fork, waitpid};
use reentry::__admin::current_owner;
use reentry::Locks;

const KEY: &str = "order:42";

/// Runs `work` in a fork of this process, and waits for its end. The fork drops nothing.
fn in_a_fork(work: impl AsyncFnOnce()) {
    match fork().unwrap() {
        Fork::Parent(forked) => drop(waitpid(forked).unwrap()),
        Fork::Child => {
            runtime().block_on(work());
            exit(0);
        }
    }
}

/// Says the owner of a call graph, and then whether the lock was free. It keeps the lock.
async fn take(role: &Role, locks: &Locks) {
    let owner = Locks::in_memory().with_lock(KEY, async { current_owner() });
    role.say(format!("owner {}", owner.await.unwrap().unwrap()));
    let taken = locks.lock(KEY).try_acquire().await.unwrap();
    role.say(if taken.is_some() { "taken" } else { "busy" });
    std::mem::forget(taken);
}

#[test]
fn role_that_forks() {
    let Some(role) = child::role("role_that_forks") else {
        return;
    };
    let locks = patient_at(role.var("REDIS_URL")).build_lazy().unwrap();
    let own = Locks::in_memory().with_lock(KEY, async { current_owner() });
    // A generator of random numbers in this process has a state from now on.
    let owner = runtime().block_on(own).unwrap();
    role.say(format!("owner {}", owner.unwrap()));
    for _ in 0..2 {
        in_a_fork(async || take(&role, &locks).await);
    }
    runtime().block_on(take(&role, &locks));
}

#[tokio::test]
async fn forks_of_an_unused_locks_exclude_each_other() {
    let server = RedisServer::start().await;
    let mut parent = Child::spawn(
        module_path!(),
        "role_that_forks",
        &[("REDIS_URL", &server.url())],
    );
    let mut owners = vec![parent.wait_for_line("owner").await];
    for found in ["taken", "busy", "busy"] {
        owners.push(parent.wait_for_line("owner").await);
        parent.wait_for_line(found).await;
    }
    let process = |owner: &String| owner[..13].to_owned();
    let mut processes: Vec<_> = owners.iter().map(process).collect();
    // The first and the last owner are of the parent.
    assert_eq!(processes.pop(), Some(processes[0].clone()), "{owners:?}");
    for ids in [&mut owners, &mut processes] {
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "{ids:?}");
    }
}

#[test]
fn role_that_forks_while_it_holds() {
    let Some(role) = child::role("role_that_forks_while_it_holds") else {
        return;
    };
    let ground = runtime();
    let held = async {
        let locks = patient_at(role.var("REDIS_URL")).build().await?;
        let guard = locks.lock(KEY).acquire().await?;
        Ok::<_, reentry::LockError>((locks, Some(guard)))
    };
    let (locks, mut guard) = ground.block_on(held).unwrap();
    in_a_fork(async || {
        role.say(format!(
            "acquire {}",
            locks.lock("order:7").await.unwrap_err()
        ));
        let inspected = locks.admin().inspect(KEY).await.unwrap_err();
        let source = inspected.source().and_then(Error::source).unwrap();
        role.say(format!("inspect {source}"));
        let released = guard.take().unwrap().release().await;
        role.say(format!("release {}", released.unwrap_err()));
    });
    let released = ground.block_on(guard.unwrap().release());
    role.say(format!("parent {released:?}"));
}

#[tokio::test]
async fn a_fork_of_a_holder_neither_acquires_nor_releases() {
    let server = RedisServer::start().await;
    let mut parent = Child::spawn(
        module_path!(),
        "role_that_forks_while_it_holds",
        &[("REDIS_URL", &server.url())],
    );
    let forked = "this `Locks` was used before the process was forked";
    let acquired = parent.wait_for_line("acquire").await;
    assert!(acquired.starts_with(forked), "{acquired}");
    let inspected = parent.wait_for_line("inspect").await;
    assert!(inspected.starts_with(forked), "{inspected}");
    let released = parent.wait_for_line("release").await;
    assert!(
        released.starts_with("Redis rejects the request"),
        "{released}"
    );
    assert_eq!(parent.wait_for_line("parent").await, "Ok(())");
}

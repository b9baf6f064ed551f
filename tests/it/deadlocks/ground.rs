//! Callers that want a lock inside another one. Callers of several processes are replicas on one server in memory. The
//! search itself is tested in the unit tests of `hold::deadlock`, and the replies of Redis in the contract of the
//! stores.

use std::time::Duration;

use reentry::testing::Server;
use reentry::{LockError, LockGuard, LockRequest, Locks};
use tokio::sync::Barrier;

pub(super) const SECOND: Duration = Duration::from_secs(1);

/// Longer than a test.
pub(super) const LONG: Duration = Duration::from_secs(600);

/// Acquires the outer lock, and the inner one as soon as all of them hold their outer locks.
pub(super) async fn nest(
    outer: LockRequest,
    inner: LockRequest,
    all: &Barrier,
) -> Result<(), LockError> {
    outer.try_run(enter_when_all_hold(inner, all)).await
}

/// The same with an outer lock that is held already, and is released afterwards.
pub(super) async fn nest_in(
    outer: LockGuard,
    inner: LockRequest,
    all: &Barrier,
) -> Result<(), LockError> {
    let result = outer.scope(enter_when_all_hold(inner, all)).await?;
    outer.release().await?;
    result
}

async fn enter_when_all_hold(inner: LockRequest, all: &Barrier) -> Result<(), LockError> {
    all.wait().await;
    inner.wait(LONG).run(async {}).await
}

/// Callers in one process, and callers in two.
pub(super) fn one_and_two_processes() -> [[Locks; 2]; 2] {
    let server = Server::new();
    let alone = server.locks();
    [[alone.clone(), alone], [server.locks(), server.locks()]]
}

/// Returns the only error, which is that of the victim.
pub(super) fn victim(results: impl IntoIterator<Item = Result<(), LockError>>) -> LockError {
    let mut errors: Vec<_> = results.into_iter().filter_map(Result::err).collect();
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors.remove(0)
}

/// The keys of a cycle: the key that each wait holds, and the key that it waits for.
pub(super) fn keys(error: &LockError) -> Vec<(String, String)> {
    let LockError::Deadlock { cycle, .. } = error else {
        panic!("{error:?}");
    };
    let keys = cycle.iter();
    keys.map(|blocked| (blocked.holds.clone(), blocked.waits_for.clone()))
        .collect()
}

/// Returns whether each holds the key that the one before it waits for, and the first one waits for the key of the
/// error.
pub(super) fn is_ring(error: &LockError, members: usize) -> bool {
    let keys = keys(error);
    let next = keys.iter().cycle().skip(1);
    let closes = keys.iter().zip(next).all(|(one, next)| one.1 == next.0);
    closes && keys.len() == members && error.key() == Some(&*keys[0].1)
}

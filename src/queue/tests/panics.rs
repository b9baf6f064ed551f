//! A step of a local queue that panics. The callers of its key get an error, and no caller is left waiting.

use tokio::runtime::Handle;

use super::*;
use crate::base::options::{LockOptions, QueueOptions};
use crate::queue::machine::Input;
use crate::queue::{Grant, LocalQueues};
use crate::store::Store;

/// The local queue of one key over a store that misbehaves.
struct OneKey {
    queues: Arc<LocalQueues>,
    key: LockKey,
}

impl OneKey {
    fn over(process: &Process) -> Result<Self, LockError> {
        let store = Arc::new(Store::Behind(Arc::clone(&process.store) as Arc<dyn Wire>));
        let queues = LocalQueues::new(store, QueueOptions::default());
        let key = LockKey::new("", KEY)?;
        Ok(Self { queues, key })
    }

    fn acquire(&self) -> JoinHandle<Result<Option<Grant>, LockError>> {
        let (queues, key) = (Arc::clone(&self.queues), self.key.clone());
        tokio::spawn(async move {
            let (since, runtime) = (Instant::now(), Handle::current());
            let terms = LockOptions::default().resolve()?;
            let hold = Owner::new().next_hold();
            queues.acquire(&key, hold, &terms, since, &runtime).await
        })
    }

    async fn until_waiting(&self, count: usize) {
        let wait = async || self.queues.len(&self.key) == count;
        eventually(DEADLINE, "waiters", wait).await;
    }

    async fn has_lock(
        &self,
        caller: JoinHandle<Result<Option<Grant>, LockError>>,
    ) -> Result<Grant, LockError> {
        let caller = timeout(DEADLINE, caller).await.expect("an answer");
        Ok(caller.expect("no panic")?.expect("a lock"))
    }

    async fn is_free(&self) -> Result<(), LockError> {
        let granted = self.has_lock(self.acquire()).await?;
        let released = self
            .queues
            .release(&self.key, granted.release(), None)
            .await;
        assert!(released.is_ok() && self.queues.states.lock().map.is_empty());
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn waiters_fail_at_a_panic_and_the_holder_does_not() -> Result<(), LockError> {
    let one = OneKey::over(&Process::with_heartbeat(SECOND))?;
    let granted = one.has_lock(one.acquire()).await?;
    let waiting = [one.acquire(), one.acquire()];
    one.until_waiting(2).await;
    one.queues.step(&one.key, Input::Panic);
    for waiting in waiting {
        let failed = one.has_lock(waiting).await;
        assert!(
            matches!(failed, Err(LockError::Unavailable { .. })),
            "{failed:?}"
        );
    }
    let next = one.acquire();
    one.until_waiting(1).await;
    let released = one.queues.release(&one.key, granted.release(), None).await;
    assert!(released.is_ok());
    let granted = one.has_lock(next).await?;
    let released = one.queues.release(&one.key, granted.release(), None).await;
    assert!(released.is_ok());
    one.is_free().await
}

/// The lock that the request brings is given back.
#[tokio::test(start_paused = true)]
async fn a_request_in_flight_at_a_panic_leaves_no_lock() -> Result<(), LockError> {
    let process = Process::with_heartbeat(SECOND);
    process.store.is_slow.store(true, Relaxed);
    let one = OneKey::over(&process)?;
    let asking = one.acquire();
    one.until_waiting(1).await;
    one.queues.step(&one.key, Input::Panic);
    let failed = one.has_lock(asking).await;
    assert!(
        matches!(failed, Err(LockError::Unavailable { .. })),
        "{failed:?}"
    );
    one.is_free().await
}

//! Requests and waiters whose task ends before they do: with its runtime, by a panic, or by being dropped.

use std::pin::{Pin, pin};
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::yield_now;

use super::*;
use crate::store::{ForceRelease, Inspect, Snapshot};
use crate::support::waiters;

/// A runtime that runs by itself.
fn running() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    let builder = builder.worker_threads(1).enable_all();
    builder.build().expect("a runtime")
}

fn poll_once<F: Future>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

#[test]
fn releases_of_an_ended_runtime_delay_no_other_repetition() -> Result<(), LockError> {
    let (first, next) = (still(), still());
    let process = next.block_on(async { Process::with_heartbeat(SECOND / 20) });
    let silence = |is_silent| process.store.is_silent.store(is_silent, Relaxed);
    let repeated = async |releases| {
        let repeated = async || process.store.released.load(Relaxed) >= releases;
        eventually(DEADLINE, "repetitions", repeated).await;
    };
    first.block_on(async {
        let mut guards = Vec::new();
        for number in 0..12 {
            let request = process.locks.lock(format!("order:{number}"));
            guards.push(request.clone().acquire().await?);
            drop(tokio::spawn(request.run(async {})));
        }
        yield_now().await;
        silence(true);
        drop(guards);
        repeated(12 + 8).await;
        Ok::<_, LockError>(())
    })?;
    drop(first);
    next.block_on(async {
        silence(false);
        let guard = process.locks.lock(KEY).acquire().await?;
        silence(true);
        let waiting = tokio::spawn(process.locks.lock(KEY).run(async {}));
        let before = process.store.released.load(Relaxed);
        drop(guard);
        repeated(before + 1).await;
        silence(false);
        waiting.await.expect("a waiter that ends")
    })
}

/// A waker that owns a future, as the task of a small executor does.
struct Owner(
    #[expect(dead_code, reason = "it is only owned")]
    std::sync::Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
);

impl Wake for Owner {
    fn wake(self: Arc<Self>) {}
}

/// The last owner drops the future, which leaves its own local queue.
#[test]
fn a_waker_may_own_another_waiter() {
    let (done, ended) = mpsc::channel();
    let waits = move || {
        still().block_on(async {
            let locks = Locks::in_memory();
            let guard = locks.lock(KEY).acquire().await?;
            let mut other = Box::pin(locks.with_lock(KEY, async {}));
            assert!(poll_once(other.as_mut(), Waker::noop()).is_pending());
            let other = Box::pin(async { drop(other.await) });
            let waker = Waker::from(Arc::new(Owner(std::sync::Mutex::new(Some(other)))));
            let mut waiting = pin!(locks.with_lock(KEY, async {}));
            assert!(poll_once(waiting.as_mut(), &waker).is_pending());
            drop(waker);
            assert!(poll_once(waiting.as_mut(), Waker::noop()).is_pending());
            guard.release().await
        })
    };
    let waiting = thread::spawn(move || done.send(waits()));
    let ended = ended.recv_timeout(DEADLINE);
    assert!(matches!(ended, Ok(Ok(()))), "{ended:?}");
    drop(waiting);
}

/// The release is sent by another task. The next request follows it, and does not enter the queue before it.
#[tokio::test(start_paused = true)]
async fn a_dropped_lock_is_requested_again_each_time() -> Result<(), LockError> {
    let process = Process::with_heartbeat(SECOND);
    for _ in 0..100 {
        drop(process.locks.lock(KEY).acquire().await?);
    }
    assert_eq!(process.store.asked.load(Relaxed), 100);
    Ok(())
}

/// It waits for the first request of the release before it.
#[tokio::test(start_paused = true)]
async fn a_try_after_a_release_in_flight_gets_the_lock() -> Result<(), LockError> {
    let process = Process::with_heartbeat(SECOND);
    process.store.is_release_slow.store(true, Relaxed);
    drop(process.locks.lock(KEY).acquire().await?);
    assert!(process.locks.lock(KEY).try_acquire().await?.is_some());
    Ok(())
}

/// Its timers need a runtime.
#[test]
fn a_release_that_panics_without_a_runtime_blocks_no_waiter() -> Result<(), LockError> {
    let runtime = running();
    let process = runtime.block_on(async { Process::with_heartbeat(SECOND / 20) });
    let guard = runtime.block_on(process.locks.lock(KEY).ttl(SECOND / 2).acquire())?;
    let waiting = runtime.spawn(process.locks.lock(KEY).run(async {}));
    let waits = async || waiters(&process.locks, KEY).await == Some(1);
    runtime.block_on(eventually(DEADLINE, "a waiter", waits));
    process.store.is_silent.store(true, Relaxed);
    let releasing = thread::spawn(move || {
        drop(poll_once(pin!(guard.release()), Waker::noop()));
    });
    assert!(releasing.join().is_err(), "it needs no runtime");
    process.store.is_silent.store(false, Relaxed);
    runtime.block_on(waiting).expect("a waiter that ends")
}

/// It cannot start a driver there. The release of the holder brings it the lock.
#[test]
fn a_waiter_on_a_runtime_that_has_ended_does_not_spin() -> Result<(), LockError> {
    let (live, ended) = (running(), running());
    // A runtime that has ended has no timers.
    let locks = Locks::builder("memory:").outage(Duration::MAX);
    let locks = locks.build_lazy()?;
    let guard = live.block_on(locks.lock(KEY).acquire())?;
    let handle: Handle = ended.handle().clone();
    let polls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&polls);
    ended.shutdown_background();
    let request = locks.lock(KEY).wait(Duration::MAX);
    let waiting = thread::spawn(move || {
        let mut waiting = pin!(request.run(async {}));
        handle.block_on(std::future::poll_fn(|cx| {
            counted.fetch_add(1, Relaxed);
            waiting.as_mut().poll(cx)
        }))
    });
    let waits = async || waiters(&locks, KEY).await == Some(1);
    live.block_on(eventually(DEADLINE, "a waiter", waits));
    live.block_on(guard.release())?;
    waiting.join().expect("a waiter that ends")?;
    let polls = polls.load(Relaxed);
    assert!(polls < 10, "{polls}");
    Ok(())
}

/// No other input of its local queue wakes it, because the lock is in another process.
#[test]
fn a_waiter_goes_on_when_the_runtime_of_its_driver_has_ended() -> Result<(), LockError> {
    let (first, next) = (running(), running());
    let process = next.block_on(async { Process::with_heartbeat(SECOND / 20) });
    let elsewhere = Locks::builder("memory:").build_on_wire(Arc::clone(&process.store), SECOND);
    let guard = next.block_on(elsewhere.lock(KEY).acquire())?;
    let wait = || process.locks.lock(KEY).wait(Duration::MAX).acquire();
    let until_waiting = async |count| {
        let waits = async || waiters(&process.locks, KEY).await == Some(count);
        eventually(DEADLINE, "waiters", waits).await;
    };
    drop(first.spawn(wait()));
    next.block_on(until_waiting(1));
    let waiting = next.spawn(wait());
    next.block_on(until_waiting(2));
    drop(first);
    next.block_on(async {
        guard.release().await?;
        let entered = timeout(DEADLINE, waiting).await;
        entered
            .expect("the lock")
            .expect("its task")?
            .release()
            .await
    })
}

/// Not its driver, which would be started again and again.
#[test]
fn a_waiter_on_a_runtime_without_timers_panics() -> Result<(), LockError> {
    let live = running();
    let locks = Locks::in_memory();
    let guard = live.block_on(locks.lock(KEY).acquire())?;
    let request = locks.lock(KEY).wait(Duration::MAX);
    let waiting = thread::spawn(move || {
        let without_timers = Builder::new_current_thread().build().expect("a runtime");
        without_timers.block_on(request.run(async {}))
    });
    assert!(waiting.join().is_err());
    live.block_on(guard.release())
}

/// An operator has released it by force, and the holder does not know that yet.
#[tokio::test(start_paused = true)]
async fn a_replaced_hold_is_not_handed_off() -> Result<(), LockError> {
    let mut process = Process::with_heartbeat(SECOND);
    let builder = Locks::builder("memory:").ttl(TTL).__heartbeat(SECOND);
    process.locks = builder.build_on_wire(Arc::clone(&process.store), SECOND);
    let first = process.locks.lock(KEY).acquire().await?;
    let [next, last] = [(); 2].map(|()| tokio::spawn(process.locks.lock(KEY).acquire()));
    sleep(SECOND / 10).await;
    let key = LockKey::new("", KEY)?;
    let store = &process.store.store;
    let seen = store.apply(Inspect::of(&key)).map(Snapshot::seen);
    let seen = seen.expect("a holder");
    let forced = store.apply(ForceRelease { key, seen });
    assert_eq!(forced.len(), 1);
    let next = timeout(DEADLINE, next)
        .await
        .expect("the lock")
        .expect("its task")?;
    assert!(matches!(first.release().await, Err(LockError::Lost { .. })));
    sleep(SECOND / 10).await;
    assert!(!last.is_finished(), "two have the lock");
    let token = next.held().fencing_token();
    next.release().await?;
    let last = timeout(DEADLINE, last)
        .await
        .expect("the lock")
        .expect("its task")?;
    assert!(last.held().fencing_token() > token);
    last.release().await
}

//! The queue over a store that misbehaves. The tests check how many requests are sent while the inbox is broken, and
//! what becomes of the waiters while a release is not answered.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

mod alone;
mod ends;
mod local_waiters;
mod releases;

use super::machine::unanswered;
use crate::base::error::{FailureClass, StoreError};
use crate::base::id::{InboxId, Owner};
use crate::base::key::LockKey;
use crate::base::sync::Mutex;
use crate::store::memory::MemoryStore;
use crate::store::{
    Acquire, AcquireReply, AcquireRequest, MessageListener, Reply, Request, StoreFuture, Wire,
};
use crate::support::{DEADLINE, eventually};
use crate::{LockError, Locks};

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(3_600);

/// An in-memory store whose inbox may be broken, and that counts the requests.
#[derive(Default)]
struct Counting {
    store: MemoryStore,
    is_broken: AtomicBool,
    asked: AtomicU32,
    released: AtomicU32,
    renewed: AtomicU32,
    /// Whether a release is not executed immediately.
    is_release_slow: AtomicBool,
    /// Whether no release is answered.
    is_silent: AtomicBool,
    /// The failure of each release before it is executed.
    failure: Mutex<Option<FailureClass>>,
    /// How late each of these failures is answered.
    fails_after: Mutex<Duration>,
    /// Whether an acquire is not answered immediately.
    is_slow: AtomicBool,
    /// Whether the next acquire panics.
    is_to_panic: AtomicBool,
    /// Called while the next acquire is polled.
    meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    listener: Mutex<Option<Weak<dyn MessageListener>>>,
}

impl Counting {
    fn once_polled(&self, happens: impl FnOnce() + Send + 'static) {
        *self.meanwhile.lock() = Some(Box::new(happens));
    }

    fn carry_acquire(&self, request: Request) -> StoreFuture<Reply> {
        let carried = self.store.carry(request);
        self.asked.fetch_add(1, Relaxed);
        let is_slow = self.is_slow.load(Relaxed);
        let is_to_panic = self.is_to_panic.swap(false, Relaxed);
        let meanwhile = self.meanwhile.lock().take();
        Box::pin(async move {
            if let Some(happens) = meanwhile {
                happens();
            }
            assert!(!is_to_panic, "as it is to");
            if is_slow {
                sleep(SECOND / 20).await;
            }
            carried.await
        })
    }
}

impl Wire for Counting {
    fn store(&self) -> &MemoryStore {
        &self.store
    }

    fn carry(&self, request: Request) -> StoreFuture<Reply> {
        match request.name() {
            "acquire" => return self.carry_acquire(request),
            "renew" => drop(self.renewed.fetch_add(1, Relaxed)),
            "release" => {
                self.released.fetch_add(1, Relaxed);
                if self.is_silent.load(Relaxed) {
                    return Box::pin(async { Err(unanswered("a silent store")) });
                }
                if let Some(class) = *self.failure.lock() {
                    let endpoint = Arc::from("nowhere");
                    let failed = StoreError::new("release", &endpoint, class, "it fails");
                    let after = *self.fails_after.lock();
                    return Box::pin(async move {
                        if !after.is_zero() {
                            sleep(after).await;
                        }
                        Err(failed)
                    });
                }
                if self.is_release_slow.load(Relaxed) {
                    let carried = self.store.carry(request);
                    return Box::pin(async {
                        sleep(SECOND / 20).await;
                        carried.await
                    });
                }
            }
            _ => {}
        }
        self.store.carry(request)
    }

    fn listen(&self, _: InboxId, listener: Weak<dyn MessageListener>) -> bool {
        *self.listener.lock() = Some(listener);
        !self.is_broken.load(Relaxed)
    }
}

impl std::fmt::Debug for Counting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counting").finish_non_exhaustive()
    }
}

const KEY: &str = "order:42";

/// One process.
#[derive(Clone)]
struct Process {
    store: Arc<Counting>,
    locks: Locks,
}

impl Process {
    fn with_heartbeat(heartbeat: Duration) -> Self {
        let store = Arc::<Counting>::default();
        let locks = Locks::builder("memory:").ttl(TTL).__heartbeat(heartbeat);
        let locks = locks.build_on_wire(Arc::clone(&store), SECOND);
        Self { store, locks }
    }

    /// Lets another process have the lock.
    async fn take_elsewhere(&self) -> Result<(), LockError> {
        let request = AcquireRequest {
            hold: Owner::new().next_hold(),
            ttl: TTL,
            entry: None,
            with_others: false,
        };
        let key = LockKey::new("", KEY)?;
        let taken = self.store.store.apply(Acquire { key, request });
        assert!(matches!(taken, AcquireReply::Held { .. }));
        Ok(())
    }

    /// Makes a caller wait until it is aborted.
    fn wait(&self) -> JoinHandle<()> {
        let waiting = self.locks.lock(KEY).wait(Duration::MAX).acquire();
        tokio::spawn(async move { drop(waiting.await) })
    }

    fn set_broken(&self, is_broken: bool) {
        self.store.is_broken.store(is_broken, Relaxed);
        let listener = self.store.listener.lock().as_ref().and_then(Weak::upgrade);
        listener.iter().for_each(|listener| listener.missed());
    }

    /// The number of requests while this time passes.
    async fn asks_within(&self, span: Duration) -> u32 {
        let before = self.store.asked.load(Relaxed);
        sleep(span).await;
        self.store.asked.load(Relaxed) - before
    }
}

#[tokio::test(start_paused = true)]
async fn waiters_poll_only_while_the_inbox_is_broken() -> Result<(), LockError> {
    let process = Process::with_heartbeat(60 * SECOND);
    process.take_elsewhere().await?;
    let waiting = process.wait();
    assert_eq!(process.asks_within(50 * SECOND).await, 1);
    for _ in 0..3 {
        process.set_broken(true);
        // A request is sent immediately, and then after pauses of up to 100 ms.
        let asked = process.asks_within(10 * SECOND).await;
        assert!((100..=250).contains(&asked), "{asked}");
        process.set_broken(false);
        assert_eq!(process.asks_within(50 * SECOND).await, 1);
    }
    waiting.abort();
    Ok(())
}

/// The release in this process names the waiter.
#[tokio::test(start_paused = true)]
async fn waiters_behind_a_local_holder_do_not_poll() -> Result<(), LockError> {
    let process = Process::with_heartbeat(60 * SECOND);
    let guard = process.locks.lock(KEY).acquire().await?;
    let waiting = process.wait();
    process.set_broken(true);
    assert_eq!(process.asks_within(50 * SECOND).await, 0);
    waiting.abort();
    guard.release().await
}

/// The entry lasts for two heartbeats, and these may be shorter than the pauses.
#[tokio::test(start_paused = true)]
async fn a_polling_waiter_keeps_its_entry() -> Result<(), LockError> {
    let process = Process::with_heartbeat(SECOND / 100);
    process.take_elsewhere().await?;
    process.set_broken(true);
    let waiting = process.wait();
    let asked = process.asks_within(10 * SECOND).await;
    assert!(asked >= 900, "{asked}");
    waiting.abort();
    Ok(())
}

/// The release in flight names the waiter ahead, if there is one, and is repeated as long as it is not answered.
#[tokio::test(start_paused = true)]
async fn no_wait_does_not_wait_for_a_release_that_is_repeated() -> Result<(), LockError> {
    for has_waiter in [false, true] {
        let process = Process::with_heartbeat(SECOND);
        let guard = process.locks.lock(KEY).acquire().await?;
        let waiting = has_waiter.then(|| process.wait());
        sleep(SECOND / 10).await;
        process.store.is_silent.store(true, Relaxed);
        drop(guard);
        if has_waiter {
            sleep(SECOND / 10).await;
        }
        let began = Instant::now();
        let once = process.locks.lock(KEY).no_wait().acquire().await;
        assert!(matches!(once, Err(LockError::Busy { .. })), "{once:?}");
        assert_eq!(began.elapsed(), Duration::ZERO);
        waiting.inspect(JoinHandle::abort);
    }
    Ok(())
}

/// Only the caller of a guard learns of it (P13).
#[tokio::test(start_paused = true)]
async fn a_refused_release_does_not_cost_the_output() -> Result<(), LockError> {
    let process = Process::with_heartbeat(SECOND);
    *process.store.failure.lock() = Some(FailureClass::Permanent);
    let output = process.locks.with_lock(KEY, async { 42 }).await?;
    assert_eq!(output, 42);
    Ok(())
}

/// A runtime that is stalled while no thread blocks on it.
fn still() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime")
}

/// Its turn is in another runtime than the one in which it began to wait.
#[test]
fn a_lock_is_renewed_where_it_was_entered() -> Result<(), LockError> {
    let (first, next) = (still(), still());
    let process = next.block_on(async { Process::with_heartbeat(SECOND / 20) });
    let request = || process.locks.lock("key").ttl(6 * SECOND);
    let holder = next.block_on(request().acquire())?;
    let mut waiting = Box::pin(request().acquire());
    let begun = async { timeout(SECOND / 20, waiting.as_mut()).await };
    assert!(first.block_on(begun).is_err());
    drop(first);
    next.block_on(async {
        holder.release().await?;
        let guard = waiting.await?;
        let renewed = async || process.store.renewed.load(Relaxed) > 0;
        eventually(DEADLINE, "a renewal", renewed).await;
        guard.release().await
    })
}

//! The queue over a store that misbehaves: how often it is asked while the inbox is broken, and what becomes
//! of those who wait when a runtime stands still or ends.

use std::sync::{
    Weak,
    atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
};

use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::watch,
    task::JoinHandle,
};

use super::*;
use tokio::time::sleep;

use crate::{
    LockError, Locks,
    base::{
        id::{InboxId, Owner},
        options::Wait,
    },
    queue::{Grant, Want},
    store::{
        AcquireReply, AcquireRequest, Answer, DepthChange, Listener, Presence, ReleaseReply,
        ReleaseRequest, Renewal, Seen, Snapshot, Store, memory::MemoryStore,
    },
    support::{DEADLINE, eventually},
};

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(3_600);

/// A store in memory whose inbox may be broken, and that counts the questions.
#[derive(Debug)]
struct Counting {
    store: MemoryStore,
    is_broken: AtomicBool,
    asked: AtomicU32,
    renewed: AtomicU32,
    /// Whether no release is answered.
    is_silent: AtomicBool,
}

impl Store for Counting {
    fn acquire(&self, key: &LockKey, claim: AcquireRequest) -> Answer<AcquireReply> {
        self.asked.fetch_add(1, Relaxed);
        self.store.acquire(key, claim)
    }

    fn depth(&self, key: &LockKey, change: DepthChange) -> Answer<Presence> {
        self.store.depth(key, change)
    }

    fn renew(&self, key: &LockKey, renewal: Renewal) -> Answer<Presence> {
        self.renewed.fetch_add(1, Relaxed);
        self.store.renew(key, renewal)
    }

    fn release(&self, key: &LockKey, ending: ReleaseRequest) -> Answer<ReleaseReply> {
        if self.is_silent.load(Relaxed) {
            return Box::pin(async { Err(attempt::unanswered("a silent store")) });
        }
        self.store.release(key, ending)
    }

    fn inspect(&self, key: &LockKey) -> Answer<Option<Snapshot>> {
        self.store.inspect(key)
    }

    fn force_release(&self, key: &LockKey, seen: Seen) -> Answer<bool> {
        self.store.force_release(key, seen)
    }

    fn listen(&self, _: InboxId, _: Weak<dyn Listener>) -> bool {
        !self.is_broken.load(Relaxed)
    }

    fn check_subscription(&self) {}

    fn suspect(&self, _: Instant) {}

    fn disconnects(&self) -> watch::Receiver<u64> {
        self.store.disconnects()
    }

    fn connection_epoch(&self) -> u64 {
        self.store.connection_epoch()
    }
}

fn want(key: &LockKey, wait: Wait) -> Want {
    Want {
        key: key.clone(),
        hold: Owner::new().next_hold(),
        ttl: TTL,
        inherits: false,
        wait,
        since: Instant::now(),
        runtime: Handle::current(),
    }
}

/// One process.
struct Process {
    store: Arc<Counting>,
    queue: Arc<Queue>,
    key: LockKey,
}

impl Process {
    fn with_heartbeat(heartbeat: Duration) -> Result<Self, LockError> {
        let store = Arc::new(Counting {
            store: MemoryStore::new(),
            is_broken: AtomicBool::new(false),
            asked: AtomicU32::new(0),
            renewed: AtomicU32::new(0),
            is_silent: AtomicBool::new(false),
        });
        let queueing = Queueing {
            heartbeat,
            ..Queueing::default()
        };
        let queue = Queue::new(Arc::<Counting>::clone(&store), queueing);
        let key = LockKey::new("", "order:42")?;
        Ok(Self { store, queue, key })
    }

    async fn acquire(&self) -> Result<Grant, LockError> {
        self.acquire_on(&self.key).await
    }

    async fn acquire_on(&self, key: &LockKey) -> Result<Grant, LockError> {
        let granted = self.queue.acquire(want(key, Wait::Forever)).await?;
        Ok(granted.expect("a waiter that is polled is not passed over"))
    }

    /// Lets another process have the lock.
    async fn take_elsewhere(&self) {
        let claim = AcquireRequest {
            hold: Owner::new().next_hold(),
            ttl: TTL,
            tokens: 1,
            entry: None,
        };
        let taken = self.store.store.acquire(&self.key, claim).await;
        assert!(matches!(taken, Ok(AcquireReply::Held { .. })));
    }

    /// Has one wait until it is aborted.
    fn wait(&self) -> JoinHandle<()> {
        let process = Self {
            store: Arc::clone(&self.store),
            queue: Arc::clone(&self.queue),
            key: self.key.clone(),
        };
        tokio::spawn(async move { drop(process.acquire().await) })
    }

    fn set_broken(&self, is_broken: bool) {
        self.store.is_broken.store(is_broken, Relaxed);
        self.queue.missed();
    }

    /// How many questions there are while so much time passes.
    async fn asks_within(&self, span: Duration) -> u32 {
        let before = self.store.asked.load(Relaxed);
        sleep(span).await;
        self.store.asked.load(Relaxed) - before
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_asks_by_itself_only_while_the_inbox_is_broken() -> Result<(), LockError> {
    let process = Process::with_heartbeat(60 * SECOND)?;
    process.take_elsewhere().await;
    let waiting = process.wait();
    assert_eq!(process.asks_within(50 * SECOND).await, 1);
    for _ in 0..3 {
        process.set_broken(true);
        // At once, and at pauses of up to 100 ms from then on.
        let asked = process.asks_within(10 * SECOND).await;
        assert!((100..=250).contains(&asked), "{asked}");
        process.set_broken(false);
        assert_eq!(process.asks_within(50 * SECOND).await, 1);
    }
    waiting.abort();
    Ok(())
}

/// The release in this process names it.
#[tokio::test(start_paused = true)]
async fn a_waiter_behind_a_holder_here_does_not_ask_while_the_inbox_is_broken()
-> Result<(), LockError> {
    let process = Process::with_heartbeat(60 * SECOND)?;
    let grant = process.acquire().await?;
    process.queue.guarded(&process.key, grant.hold);
    let waiting = process.wait();
    process.set_broken(true);
    assert_eq!(process.asks_within(50 * SECOND).await, 0);
    waiting.abort();
    drop(grant);
    Ok(())
}

/// It lasts for two heartbeats, and these may be shorter than the pauses.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_asks_by_itself_keeps_its_place() -> Result<(), LockError> {
    let process = Process::with_heartbeat(SECOND / 100)?;
    process.take_elsewhere().await;
    process.set_broken(true);
    let waiting = process.wait();
    let asked = process.asks_within(10 * SECOND).await;
    assert!(asked >= 900, "{asked}");
    waiting.abort();
    Ok(())
}

/// The release in flight names the one ahead, and is repeated for as long as it is not answered.
#[tokio::test(start_paused = true)]
async fn no_wait_does_not_wait_for_a_release_that_is_repeated() -> Result<(), LockError> {
    let process = Process::with_heartbeat(SECOND)?;
    let grant = process.acquire().await?;
    process.queue.guarded(&process.key, grant.hold);
    let waiting = process.wait();
    sleep(SECOND / 10).await;
    process.store.is_silent.store(true, Relaxed);
    drop(grant);
    sleep(SECOND / 10).await;
    let began = Instant::now();
    let once = process.queue.acquire(want(&process.key, Wait::Never)).await;
    assert!(matches!(once, Err(LockError::Busy { .. })), "{once:?}");
    assert_eq!(began.elapsed(), Duration::ZERO);
    waiting.abort();
    Ok(())
}

/// It stands still while it is not blocked on.
fn still() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime")
}

/// A heartbeat that is short on real time: a runtime that stands still has no paused one.
const SHORT: Duration = Duration::from_millis(50);

/// Who has the lock in the store, as the field in its hash.
async fn holder(process: &Process, key: &LockKey) -> Option<String> {
    let seen = process.store.inspect(key).await.ok().flatten();
    let field = seen.and_then(|seen| seen.seen())?.field;
    String::from_utf8(field).ok()
}

async fn until_free(process: &Process, key: &LockKey) {
    let free = async || holder(process, key).await.is_none();
    eventually(DEADLINE, "a free lock", free).await;
}

#[test]
fn releases_on_a_runtime_that_stands_still_take_no_turn_from_others() -> Result<(), LockError> {
    let (first, next) = (still(), still());
    let process = next.block_on(async { Process::with_heartbeat(SHORT) })?;
    let key = |number| LockKey::new("", &format!("order:{number}"));
    let keys = (0..=REPETITIONS).map(key).collect::<Result<Vec<_>, _>>()?;
    let mut grants = Vec::new();
    for (number, key) in keys.iter().enumerate() {
        let runtime = if number < REPETITIONS { &first } else { &next };
        let grant = async { process.queue.acquire(want(key, Wait::Forever)).await };
        grants.push(runtime.block_on(grant)?);
    }
    let last = grants.pop();
    process.store.is_silent.store(true, Relaxed);
    // Every turn there is, on one runtime and on all of them.
    let turns = || -> usize {
        let all = process.queue.repetitions.lock();
        all.values()
            .map(|turns| REPETITIONS - turns.available_permits())
            .sum()
    };
    first.block_on(async {
        drop(grants);
        let all_are_taken = async || turns() == REPETITIONS;
        eventually(DEADLINE, "all turns to be taken", all_are_taken).await;
    });
    next.block_on(async {
        drop(last);
        let repeats = async || turns() > REPETITIONS;
        eventually(DEADLINE, "a turn of its own", repeats).await;
        process.store.is_silent.store(false, Relaxed);
        until_free(&process, &keys[REPETITIONS]).await;
    });
    Ok(())
}

/// The waiter on it is brought the lock by the other one.
#[test]
fn a_waiter_whose_runtime_stands_still_is_passed_over() -> Result<(), LockError> {
    let (first, next) = (still(), still());
    let process = next.block_on(async { Process::with_heartbeat(SHORT) })?;
    let wanted = first.block_on(async { want(&process.key, Wait::Forever) });
    let hold = wanted.hold.to_string();
    let mut left_alone = Box::pin(process.queue.acquire(wanted));
    next.block_on(async {
        let elsewhere = AcquireRequest {
            hold: Owner::new().next_hold(),
            ttl: TTL,
            tokens: 1,
            entry: None,
        };
        let taken = process.store.store.acquire(&process.key, elsewhere).await;
        assert!(matches!(taken, Ok(AcquireReply::Held { .. })));
        assert!(
            timeout_at(Instant::now() + SHORT, left_alone.as_mut())
                .await
                .is_err()
        );
        process.store.store.forget();
        let brought = async || holder(&process, &process.key).await.as_ref() == Some(&hold);
        eventually(DEADLINE, "the lock to be brought", brought).await;
        until_free(&process, &process.key).await;
    });
    Ok(())
}

/// The task that passes waiters over was started by a hand-off on a runtime that stands still since.
#[test]
fn waiters_are_passed_over_although_the_first_keeper_stands_still() -> Result<(), LockError> {
    let (first, next) = (still(), still());
    let process = next.block_on(async { Process::with_heartbeat(SHORT) })?;
    let other = LockKey::new("", "another")?;
    let due = || process.queue.unclaimed.lock().next();
    let hand_off = async |key: &LockKey| {
        let held = process.acquire_on(key).await?;
        process.queue.guarded(key, held.hold);
        let mut left_alone = Box::pin(process.queue.acquire(want(key, Wait::Forever)));
        assert!(
            timeout_at(Instant::now() + SHORT, left_alone.as_mut())
                .await
                .is_err()
        );
        drop(held);
        let brought = async || due().is_some();
        eventually(DEADLINE, "the lock to be brought", brought).await;
        Ok::<_, LockError>(left_alone)
    };
    let kept = first.block_on(hand_off(&other))?;
    let left_alone = next.block_on(async {
        let overdue = async || due().is_none_or(|due| due + SHORT < Instant::now());
        eventually(DEADLINE, "it to be overdue", overdue).await;
        let left_alone = hand_off(&process.key).await?;
        until_free(&process, &process.key).await;
        Ok::<_, LockError>(left_alone)
    })?;
    drop((kept, left_alone));
    Ok(())
}

/// It has its turn in another runtime than it began to wait in.
#[test]
fn a_lock_is_renewed_where_it_was_entered() -> Result<(), LockError> {
    let (first, next) = (still(), still());
    let process = next.block_on(async { Process::with_heartbeat(SHORT) })?;
    let store = Arc::<Counting>::clone(&process.store);
    let locks = Locks::builder().ttl(6 * SECOND).over(store, SECOND);
    let holder = next.block_on(locks.lock("key").acquire())?;
    let mut waiting = Box::pin(locks.lock("key").acquire());
    let begun = async { timeout_at(Instant::now() + SHORT, waiting.as_mut()).await };
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

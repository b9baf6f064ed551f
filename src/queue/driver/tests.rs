//! How often the store is asked, on paused time: while the inbox stands, and while it is broken.

use std::sync::{
    Weak,
    atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
};

use tokio::{runtime::Handle, sync::watch, task::JoinHandle};

use super::*;
use crate::{
    LockError,
    base::{
        id::{InboxId, Owner},
        options::Wait,
    },
    queue::{Grant, Want},
    store::{
        Acquired, Answer, Claim, DepthChange, Ending, Listener, Presence, Released, Renewal, Seen,
        Snapshot, Store, memory::MemoryStore,
    },
};

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(3_600);

/// A store in memory whose inbox may be broken, and that counts the questions.
#[derive(Debug)]
struct Counting {
    store: MemoryStore,
    is_broken: AtomicBool,
    asked: AtomicU32,
}

impl Store for Counting {
    fn acquire(&self, key: &LockKey, claim: Claim) -> Answer<Acquired> {
        self.asked.fetch_add(1, Relaxed);
        self.store.acquire(key, claim)
    }

    fn depth(&self, key: &LockKey, change: DepthChange) -> Answer<Presence> {
        self.store.depth(key, change)
    }

    fn renew(&self, key: &LockKey, renewal: Renewal) -> Answer<Presence> {
        self.store.renew(key, renewal)
    }

    fn release(&self, key: &LockKey, ending: Ending) -> Answer<Released> {
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

    fn doubt(&self) {}

    fn suspect(&self, _: Instant) {}

    fn outages(&self) -> watch::Receiver<u64> {
        self.store.outages()
    }

    fn epoch(&self) -> u64 {
        self.store.epoch()
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
        let want = Want {
            key: self.key.clone(),
            hold: Owner::new().next_hold(),
            ttl: TTL,
            inherits: false,
            wait: Wait::Forever,
            since: Instant::now(),
            runtime: Handle::current(),
        };
        let granted = self.queue.acquire(want).await?;
        Ok(granted.expect("a waiter that is polled is not passed over"))
    }

    /// Lets another process have the lock.
    async fn take_elsewhere(&self) {
        let claim = Claim {
            hold: Owner::new().next_hold(),
            ttl: TTL,
            tokens: 1,
            standing: None,
        };
        let taken = self.store.store.acquire(&self.key, claim).await;
        assert!(matches!(taken, Ok(Acquired::Held { .. })));
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

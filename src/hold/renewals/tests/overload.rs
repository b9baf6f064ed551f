//! More renewals than a store can answer at the same time.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use futures_util::future::try_join_all;

use super::*;
use crate::base::error::FailureClass;
use crate::base::timer::{sleep, timeout};
use crate::store::memory::MemoryStore;
use crate::store::{Renew, Reply, Request, StoreFuture, Wire};
use crate::{LockGuard, StoreError};

/// The number of renewals that the store answers per second.
const RATE: u32 = 500;

/// A store that answers one renewal after the other. Requests fail after a second, but the store still executes them.
struct Slow {
    store: MemoryStore,
    is_away: AtomicBool,
    free_at: Mutex<Option<Instant>>,
    in_flight: Arc<AtomicUsize>,
    most: AtomicUsize,
    asked: AtomicUsize,
    generation: watch::Sender<u64>,
    connections: watch::Sender<u64>,
}

struct InFlight(Arc<AtomicUsize>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

fn failed(class: FailureClass) -> StoreError {
    StoreError::new("renew", &Arc::from("the store"), class, "slow")
}

impl Slow {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            store: MemoryStore::new(),
            is_away: AtomicBool::new(false),
            free_at: Mutex::default(),
            in_flight: Arc::default(),
            most: AtomicUsize::new(0),
            asked: AtomicUsize::new(0),
            generation: watch::Sender::new(0),
            connections: watch::Sender::new(0),
        })
    }

    async fn held(self: &Arc<Self>, count: usize, ttl: Duration) -> (Locks, Vec<LockGuard>) {
        let locks = Locks::builder("memory:")
            .ttl(ttl)
            .build_on_wire(Arc::clone(self), SECOND);
        // Each has a TTL of its own, so no two of them are renewed together.
        let guards = (0_u32..).take(count).map(|number| {
            let ttl = ttl + number * Duration::from_micros(1);
            locks.lock(number.to_string()).ttl(ttl).acquire()
        });
        let guards = try_join_all(guards).await.expect("free locks");
        (locks, guards)
    }
}

impl Wire for Slow {
    fn store(&self) -> &MemoryStore {
        &self.store
    }

    fn carry(&self, request: Request) -> StoreFuture<Reply> {
        let carried = self.store.carry(request.clone());
        if request.name() != "renew" {
            return carried;
        }
        self.asked.fetch_add(1, Relaxed);
        if let Some(Renew { holds, .. }) = request.verb() {
            let each: BTreeSet<_> = holds.iter().map(|(_, hold)| *hold).collect();
            assert_eq!(each.len(), holds.len(), "a request names a hold twice");
        }
        if self.is_away.load(Relaxed) {
            return Box::pin(async { Err(failed(FailureClass::NotExecuted)) });
        }
        let in_flight = self.in_flight.fetch_add(1, Relaxed) + 1;
        self.most.fetch_max(in_flight, Relaxed);
        let in_flight = InFlight(Arc::clone(&self.in_flight));
        let answered_at = {
            let mut free_at = self.free_at.lock();
            let from = free_at.unwrap_or_else(Instant::now).max(Instant::now());
            *free_at.insert(from + SECOND / RATE)
        };
        Box::pin(async move {
            let _in_flight = in_flight;
            let answered = timeout(SECOND, sleep_until(answered_at)).await;
            answered.map_err(|_| failed(FailureClass::OutcomeUnknown))?;
            carried.await
        })
    }

    fn generations(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    fn connections(&self) -> Option<watch::Receiver<u64>> {
        Some(self.connections.subscribe())
    }
}

fn lost(guards: &[LockGuard]) -> usize {
    guards.iter().filter(|guard| guard.held().is_lost()).count()
}

/// 2,000 holds with a TTL of 9 s need 667 renewals per second, and get 500. A connection is lost now and then.
#[tokio::test(start_paused = true)]
async fn no_hold_is_lost_if_more_renewals_are_due_than_answered() {
    let store = Slow::new();
    let (locks, guards) = store.held(2_000, 9 * SECOND).await;
    for _ in 0..3 {
        sleep(4 * SECOND).await;
        store.generation.send_modify(|count| *count += 1);
    }
    // A hold with an earlier deadline does not wait for its turn behind them.
    let short = locks
        .lock("short")
        .ttl(2 * SECOND)
        .acquire()
        .await
        .expect("free");
    sleep(10 * SECOND).await;
    assert_eq!((short.held().is_lost(), lost(&guards)), (false, 0));
    // Some requests are sent once more, because little is left of their leases.
    let (most, asked) = (store.most.load(Relaxed), store.asked.load(Relaxed));
    assert!(most < 400, "{most} in flight");
    assert!(asked < 11_250, "{asked} requests in 22 s");
}

/// While the store is unavailable, only the renewals in flight send requests, now and then.
#[tokio::test(start_paused = true)]
async fn an_outage_costs_no_more_the_more_holds_there_are() {
    let store = Slow::new();
    let (_locks, guards) = store.held(2_500, 30 * SECOND).await;
    sleep(SECOND).await;
    store.is_away.store(true, Relaxed);
    store.generation.send_modify(|count| *count += 1);
    sleep(10 * SECOND).await;
    let asked = store.asked.load(Relaxed);
    assert!(asked <= 40_000, "{asked} requests in 10 s");
    store.is_away.store(false, Relaxed);
    store.asked.store(0, Relaxed);
    sleep(7 * SECOND).await;
    let asked = store.asked.load(Relaxed);
    assert!((2_500..3_750).contains(&asked), "{asked} requests");
    assert_eq!(lost(&guards), 0);
}

/// The lock of a holder was lost with the server. The holder notices that when it is connected again, and not half a
/// second later.
#[tokio::test(start_paused = true)]
async fn a_new_connection_ends_the_pause_of_a_renewal() {
    for _ in 0..20 {
        let store = Slow::new();
        let (_locks, guards) = store.held(1, 30 * SECOND).await;
        store.is_away.store(true, Relaxed);
        store.generation.send_modify(|count| *count += 1);
        sleep(3 * SECOND).await;
        store.store.forget();
        store.is_away.store(false, Relaxed);
        store.connections.send_modify(|count| *count += 1);
        let back = Instant::now();
        assert_eq!(guards[0].held().lost().await, LostReason::Deleted);
        assert!(back.elapsed() <= 5 * MOMENT, "{:?}", back.elapsed());
    }
}

//! One case over both stores, and a section that notices two visitors at the same time.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use reentry::{Locks, LocksBuilder};
use tokio::time::sleep;

use super::server::RedisServer;
use super::wait::{DEADLINE, eventually, within};

/// Runs each `async fn case(locks: Locks)` as a separate test over the in-memory store, on paused time. It is for claims
/// in which the store has no part.
macro_rules! in_memory {
    ($($case:ident),+ $(,)?) => {
        mod in_memory {
            $(#[tokio::test(start_paused = true)]
            async fn $case() {
                super::$case(reentry::Locks::in_memory()).await;
            })+
        }
    };
}
pub(crate) use in_memory;

/// Runs each `async fn case(locks: Locks)` as a separate test over the in-memory store (on paused time) and over a
/// server of its own.
macro_rules! on_both_stores {
    ($($case:ident),+ $(,)?) => {
        crate::support::stores::in_memory!($($case),+);

        mod on_redis {
            use crate::support::server::RedisServer;
            use crate::support::stores::connect;
            use crate::support::wait::{DEADLINE, within};

            $(#[tokio::test]
            async fn $case() {
                let server = RedisServer::start().await;
                let locks = connect(&server).await;
                within(DEADLINE, stringify!($case), super::$case(locks)).await;
            })+
        }
    };
}
pub(crate) use on_both_stores;

/// Locks on `server` that do not treat a pause of a busy machine as a failure.
pub fn patient(server: &RedisServer) -> LocksBuilder {
    patient_at(server.url())
}

/// Locks as from [`patient`], for a URL.
pub fn patient_at(url: impl AsRef<str>) -> LocksBuilder {
    let builder = Locks::builder(url).outage(Duration::MAX);
    builder.connect_timeout(DEADLINE).response_timeout(DEADLINE)
}

/// Locks on `server`, with all other options at their defaults.
pub async fn connect(server: &RedisServer) -> Locks {
    let locks = patient(server).build().await;
    locks.expect("a connection to the test's own server")
}

/// The section that a lock protects. It panics when two visitors are inside at the same time, and counts the visits.
#[derive(Debug, Default)]
pub struct Section {
    inside: AtomicU32,
    visits: AtomicU32,
}

/// A visitor, who leaves even if the visit is cut short.
struct Visitor<'a>(&'a Section);

impl Drop for Visitor<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Section {
    /// Stays inside for several turns of the scheduler, so that an overlap can happen.
    pub async fn visit(&self) {
        let turns = async {
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
        };
        self.visit_until(turns).await;
    }

    /// Stays inside until `end` is complete.
    pub async fn visit_until(&self, end: impl Future<Output = ()>) {
        let before = self.inside.fetch_add(1, Ordering::SeqCst);
        let _visitor = Visitor(self);
        assert_eq!(before, 0, "an overlap");
        end.await;
        self.visits.fetch_add(1, Ordering::SeqCst);
        assert_eq!(self.inside.load(Ordering::SeqCst), 1, "an overlap");
    }

    /// The number of visits.
    pub fn visits(&self) -> u32 {
        self.visits.load(Ordering::SeqCst)
    }
}

/// The depth of each holder of `key`, as the store shows it; empty if the key is free.
pub async fn depths(locks: &Locks, key: &str) -> Vec<u64> {
    let info = locks
        .admin()
        .inspect(key)
        .await
        .expect("an answer of the store");
    let holders = info.map(|info| info.holders).unwrap_or_default();
    holders.iter().map(|holder| holder.depth).collect()
}

/// Waits until the store shows these depths. The depth follows the entries and exits, which do not wait for it.
pub async fn until_depths(locks: &Locks, key: &str, wanted: &[u64]) {
    let follow = async {
        while depths(locks, key).await != wanted {
            sleep(Duration::from_millis(2)).await;
        }
    };
    let what = format!("the depths of {key} are {wanted:?}");
    within(DEADLINE, &what, follow).await;
}

/// Waits until the lock is free in the store.
pub async fn until_free(locks: &Locks, key: &str) {
    let is_free = async || depths(locks, key).await.is_empty();
    eventually(DEADLINE, &format!("{key} is free"), is_free).await;
}

/// The number of waiters for `key` in this process; `None` if the key is free.
pub async fn waiters(locks: &Locks, key: &str) -> Option<usize> {
    let info = locks
        .admin()
        .inspect(key)
        .await
        .expect("an answer of the store");
    info.map(|info| info.waiters)
}

/// Waits until this number of callers waits for `key` in this process.
pub async fn until_waiting(locks: &Locks, key: &str, count: usize) {
    let wait = async || waiters(locks, key).await == Some(count);
    eventually(DEADLINE, &format!("{count} wait for {key}"), wait).await;
}

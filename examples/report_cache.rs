//! Readers and a writer: many callers read a report at the same time, and one caller rewrites it from time to time.
//!
//! `cargo run --example report_cache`, or with `REDIS_URL=redis://127.0.0.1:6379` on a server. No reader ever sees half
//! a report.

use std::env;
use std::error::Error;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reentry::{FencingToken, Locks, locked};
use tokio::task::JoinSet;
use tokio::time::sleep;

const READERS: u32 = 8;
const EDITIONS: u32 = 5;

type Failure = Box<dyn Error + Send + Sync>;

/// A report in two parts, which are written one after the other.
#[derive(Default)]
struct Cache {
    revenue: Mutex<u32>,
    costs: Mutex<u32>,
    inside: AtomicU32,
    most_inside: AtomicU32,
    reads: AtomicU32,
}

impl Cache {
    fn part(part: &Mutex<u32>) -> std::sync::MutexGuard<'_, u32> {
        part.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Several readers are inside at the same time, but never together with the writer. The token shows which edition was
/// read.
#[locked("report:{year}", read, locks = locks, held = lock)]
async fn read(locks: &Locks, cache: &Cache, year: u32) -> Result<FencingToken, Failure> {
    let inside = cache.inside.fetch_add(1, Relaxed) + 1;
    cache.most_inside.fetch_max(inside, Relaxed);
    let revenue = *Cache::part(&cache.revenue);
    sleep(Duration::from_millis(2)).await;
    let costs = *Cache::part(&cache.costs);
    cache.inside.fetch_sub(1, Relaxed);
    cache.reads.fetch_add(1, Relaxed);
    if revenue != costs {
        return Err(format!("half a report: {revenue} and {costs}").into());
    }
    Ok(lock.fencing_token())
}

/// Writes the report exclusively, and then checks it: the read is nested, so it re-enters the lock.
#[locked("report:{year}", locks = locks)]
async fn write(locks: &Locks, cache: &Cache, year: u32, edition: u32) -> Result<(), Failure> {
    *Cache::part(&cache.revenue) = edition;
    sleep(Duration::from_millis(2)).await;
    *Cache::part(&cache.costs) = edition;
    let token = read(locks, cache, year).await?;
    println!(
        "edition {edition}: written and read under token {token}; {} reads so far, at most {} at a time",
        cache.reads.load(Relaxed),
        cache.most_inside.load(Relaxed)
    );
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let url = env::var("REDIS_URL").unwrap_or_else(|_| "memory:".to_owned());
    let locks = Locks::connect(&url).await?;
    let (cache, is_over) = (Arc::<Cache>::default(), Arc::<AtomicBool>::default());
    let mut readers = JoinSet::new();
    for _ in 0..READERS {
        let (locks, cache) = (locks.clone(), Arc::clone(&cache));
        let is_over = Arc::clone(&is_over);
        readers.spawn(async move {
            while !is_over.load(Relaxed) {
                read(&locks, &cache, 2026).await?;
            }
            Ok::<_, Failure>(())
        });
    }
    for edition in 1..=EDITIONS {
        sleep(Duration::from_millis(50)).await;
        // Readers arrive all the time, and the writer still gets its turn.
        write(&locks, &cache, 2026, edition).await?;
    }
    is_over.store(true, Relaxed);
    while let Some(ended) = readers.join_next().await {
        ended??;
    }
    println!("{} readers saw only whole reports", READERS);
    Ok(())
}

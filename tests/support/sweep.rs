//! Futures that are polled a few times and then dropped, and what they leave behind (P7): no key except the meta keys, no
//! task (watchdog, driver, release), and no place in a queue.

use super::server::RedisServer;
use super::stores::{patient_at, waiters};
use super::wait::{DEADLINE, eventually, within};
use reentry::Locks;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use tokio::runtime::Handle;
use tokio::task::yield_now;

/// The key of a sweep. The expected keys in the store follow from it.
pub const KEY: &str = "swept";

/// The tasks of a `Locks` that stay for a while: one renews. On a server, one keeps the inbox, one reads its connection,
/// and one sends batches as well.
const STAYING: [usize; 2] = [1, 4];

/// A store on which futures are dropped. Its leases are thirty times as long as the longest wait, so none of them expires.
#[derive(Debug)]
pub struct Ground {
    /// The locks that the futures use.
    pub locks: Locks,
    server: Option<RedisServer>,
    /// The number of the runtime's tasks while nothing is in progress.
    tasks: usize,
}

impl Ground {
    /// The in-memory store, on real time, because paused time would skip to the end of every lease.
    pub async fn in_memory() -> Ground {
        Ground::on("memory:", None).await
    }

    /// A server of its own.
    pub async fn on_redis() -> Ground {
        let server = RedisServer::start().await;
        Ground::on(&server.url(), Some(server)).await
    }

    async fn on(url: &str, server: Option<RedisServer>) -> Ground {
        let builder = patient_at(url).ttl(30 * DEADLINE);
        let locks = builder.build().await.expect("a store for the sweep");
        // The task that names the connection has ended when a later request has been answered.
        locks.admin().inspect(KEY).await.expect("an inspection");
        yield_now().await;
        let tasks = alive() + STAYING[usize::from(server.is_some())];
        if let Some(server) = &server {
            let both = locks.lock_all([KEY, "beside"]).await.expect("free locks");
            both.release().await.expect("a release");
            server.until_listening(1).await;
        }
        Ground {
            locks,
            server,
            tasks,
        }
    }

    /// The depth of the hold, as the store shows it; 0 for a free lock.
    pub async fn depth(&self) -> u64 {
        super::stores::depths(&self.locks, KEY).await.iter().sum()
    }

    /// Waits until nothing is left, and then acquires the lock once more without waiting for it.
    pub async fn settle(&self, what: &str) {
        let gone = async || match &self.server {
            Some(server) => server.key_count().await == 0,
            None => waiters(&self.locks, KEY).await.is_none(),
        };
        eventually(DEADLINE, &format!("no key is left: {what}"), gone).await;
        let ended = async || alive() <= self.tasks;
        eventually(DEADLINE, &format!("no task is left: {what}"), ended).await;
        let guard = self.locks.lock(KEY).no_wait().await;
        let guard = guard.unwrap_or_else(|error| panic!("{what}: {error}"));
        guard.release().await.expect("a release");
    }
}

/// Polls a future when it is woken, at most `times` times. Returns its output if that was enough.
///
/// # Panics
///
/// Panics if it sleeps for longer than the deadline.
pub async fn poll_times<F: Future>(times: usize, future: F) -> Option<F::Output> {
    let polled = poll_at_most(times, future, || ());
    within(DEADLINE, &format!("it wakes up {times} times"), polled).await
}

/// Polls a future that may sleep for any time, at most `times` times. `before_last` is called before the last of these
/// polls.
pub async fn poll_at_most<F: Future>(
    times: usize,
    future: F,
    before_last: impl FnOnce(),
) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut before_last = Some(before_last);
    let mut polls = 0;
    poll_fn(|cx| {
        polls += 1;
        if let Some(work) = before_last.take_if(|_| polls == times) {
            work();
        }
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if polls == times => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

fn alive() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// Runs each `async fn case(ground: Ground)` as a separate test over both stores.
macro_rules! on_both_grounds {
    ($($case:ident),+ $(,)?) => {
        mod in_memory {
            $(#[tokio::test]
            async fn $case() {
                super::$case(crate::support::sweep::Ground::in_memory().await).await;
            })+
        }

        mod on_redis {
            $(#[tokio::test]
            async fn $case() {
                super::$case(crate::support::sweep::Ground::on_redis().await).await;
            })+
        }
    };
}
pub(crate) use on_both_grounds;

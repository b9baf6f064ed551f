//! Sweeps. A future is dropped after its n-th poll, for every n until it completes, and must leave nothing behind.
//!
//! On a server the polls are those of real wake-ups, so each of them makes progress. Whatever the future was doing when
//! it was dropped, nothing of it may be left a moment later (P7). There must be no key except the meta keys, no task
//! (watchdog, driver, release), no place in a queue, and no neighbour asleep.

use super::proxy::{Action, Direction, Proxy};
use super::rig::{EVALSHA, RESPONSE_TIMEOUT};
use super::server::RedisServer;
use super::stores::patient_at;
use super::wait::{DEADLINE, eventually, within};
use reentry::{LockGuard, Locks, LocksBuilder};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::yield_now;

/// The key of a sweep. The expected keys in the store follow from it.
pub const KEY: &str = "swept";

/// Lets a caller wait, so that the inbox is open from here on, and acquires two locks by one batch. Returns the number of
/// the tasks that stay: one that keeps the inbox, one that reads its connection, and one that sends batches.
async fn warm_up(locks: &Locks, server: &RedisServer) -> usize {
    let guard = locks.lock(KEY).await.expect("a free lock");
    let waiting = tokio::spawn(locks.with_lock(KEY, async {}));
    let open = async || server.subscriptions().await.len() == 1;
    eventually(DEADLINE, "the inbox is open", open).await;
    guard.release().await.expect("a release");
    waiting.await.expect("a waiter").expect("its turn");
    let both = locks.lock_all([KEY, "beside"]).await.expect("free locks");
    both.release().await.expect("a release");
    3
}

/// The request of a future that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Onset {
    /// The first request.
    Start,
    /// The request that the last poll before the drop sends, or otherwise the next request.
    LastPoll,
}

/// A store for a sweep. Its leases are thirty times as long as the longest wait, so none of them expires.
#[derive(Debug)]
pub struct Ground {
    /// The locks that the futures use.
    pub locks: Locks,
    server: Option<RedisServer>,
    /// The fault for a request of each future, and the proxy that causes it.
    fault: Option<(Proxy, Action)>,
    /// The number of the runtime's tasks while nothing is in progress: the tasks of the connection.
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

    /// A server of its own, behind a network that causes this fault in a request of each future. In the first round it
    /// is the first request, and in a second round the last one.
    pub async fn on_bad_network(fault: Action) -> Ground {
        let server = RedisServer::start().await;
        let proxy = Proxy::start(server.port());
        let builder = Ground::builder(&proxy.url()).response_timeout(RESPONSE_TIMEOUT);
        let mut ground = Ground::with(builder, Some(server)).await;
        ground.fault = Some((proxy, fault));
        ground
    }

    async fn on(url: &str, server: Option<RedisServer>) -> Ground {
        Ground::with(Ground::builder(url), server).await
    }

    fn builder(url: &str) -> LocksBuilder {
        patient_at(url).ttl(30 * DEADLINE)
    }

    async fn with(builder: LocksBuilder, server: Option<RedisServer>) -> Ground {
        let locks = builder.build().await.expect("a store for the sweep");
        // The task that names the connection has ended when a later request has been answered.
        locks.admin().inspect(KEY).await.expect("an inspection");
        yield_now().await;
        let tasks = match &server {
            Some(server) => alive() + warm_up(&locks, server).await,
            None => alive(),
        };
        Ground {
            locks,
            server,
            fault: None,
            tasks,
        }
    }

    /// The number of waiters for the key; `None` while it is free.
    pub async fn waiters(&self) -> Option<usize> {
        match self.locks.admin().inspect(KEY).await {
            Ok(info) => info.map(|info| info.waiters),
            // The request may have met the fault.
            Err(_) if self.fault.is_some() => None,
            Err(error) => panic!("{error:?}"),
        }
    }

    /// Waits until at least `count` wait for the key.
    pub async fn until_waiting(&self, count: usize) {
        let waiting = async || self.waiters().await.is_some_and(|waiters| waiters >= count);
        eventually(DEADLINE, "they wait", waiting).await;
    }

    /// The depth of the hold, as the store shows it; 0 for a free lock.
    pub async fn depth(&self) -> u64 {
        let info = self
            .locks
            .admin()
            .inspect(KEY)
            .await
            .expect("an inspection");
        info.map_or(0, |info| {
            info.holders.iter().map(|holder| holder.depth).sum()
        })
    }

    /// Waits until nothing is left, and then acquires the lock once more without waiting for it.
    pub async fn settle(&self, what: &str) {
        let gone = async || self.leftovers().await == 0;
        eventually(DEADLINE, &format!("no key is left: {what}"), gone).await;
        let ended = async || alive() <= self.tasks + RENEWALS;
        eventually(DEADLINE, &format!("no task is left: {what}"), ended).await;
        self.spare();
        let visit = async || self.locks.lock(KEY).try_acquire().await;
        let mut guard = visit().await;
        if self.fault.is_some() {
            // The first attempt may meet a dead connection, or a request that was in flight at the last check.
            let visited = async || {
                if !matches!(guard, Ok(Some(_))) {
                    guard = visit().await;
                }
                matches!(guard, Ok(Some(_)))
            };
            eventually(DEADLINE, &format!("the lock is free: {what}"), visited).await;
        }
        let guard = guard.expect("a store that answers");
        let guard = guard.unwrap_or_else(|| panic!("the queue is empty: {what}"));
        guard.release().await.expect("a release");
    }

    /// Makes the next request from here on go wrong.
    fn strike(&self) {
        if let Some((proxy, fault)) = &self.fault {
            proxy.on_next(Direction::ToServer, EVALSHA, *fault);
        }
    }

    fn spare(&self) {
        if let Some((proxy, _)) = &self.fault {
            proxy.clear_rules();
        }
    }

    /// The number of keys: the lock, or a tombstone. A tombstone may be left only if a response never arrived.
    async fn leftovers(&self) -> u64 {
        let Some(server) = &self.server else {
            return u64::from(self.waiters().await.is_some());
        };
        if self.fault.is_some() {
            return server.leftovers().await.len() as u64;
        }
        server.key_count().await as u64
    }

    /// Drops the future that `make` makes after its first poll, then another after its second, and so on until one
    /// completes. Checks each time what is left. Returns the number of polls.
    /// Everything is done twice: with the drop right after the poll, and with the drop while a neighbour waits in the
    /// queue. In the latter case, requests in flight have been completed without being noticed.
    pub async fn sweep<F: Future>(&self, mut make: impl FnMut() -> F) -> usize {
        self.sweep_both(&mut |_| make(), false).await
    }

    /// Sweeps futures that begin while the lock is held: `make` gets the guard.
    pub async fn sweep_held<F: Future>(&self, mut make: impl FnMut(LockGuard) -> F) -> usize {
        let mut make = |holder: Option<LockGuard>| make(holder.expect("it is held"));
        self.sweep_both(&mut make, true).await
    }

    async fn sweep_both<F: Future>(
        &self,
        make: &mut impl FnMut(Option<LockGuard>) -> F,
        held: bool,
    ) -> usize {
        let mut polls = 0;
        let onsets: &[Onset] = match self.fault {
            Some(_) => &[Onset::Start, Onset::LastPoll],
            None => &[Onset::Start],
        };
        for onset in onsets {
            for with_neighbour in [false, true] {
                let swept = self.sweep_with(make, held, with_neighbour, *onset).await;
                polls = polls.max(swept);
            }
        }
        if let Some((proxy, fault)) = &self.fault {
            assert!(proxy.hits() > 0, "{fault:?} has struck no request");
        }
        polls
    }

    async fn sweep_with<F: Future>(
        &self,
        make: &mut impl FnMut(Option<LockGuard>) -> F,
        held: bool,
        with_neighbour: bool,
        onset: Onset,
    ) -> usize {
        for polls in 1.. {
            let what = format!(
                "after poll {polls}, with a neighbour: {with_neighbour}, {:?} from {onset:?}",
                self.fault
            );
            let holder = match held {
                true => Some(self.locks.lock(KEY).await.expect("a free lock")),
                false => None,
            };
            if onset == Onset::Start {
                self.strike();
            }
            let mut future = Box::pin(make(holder));
            let strike = || {
                if onset == Onset::LastPoll {
                    self.strike();
                }
            };
            let polled = poll_at_most(polls, future.as_mut(), strike);
            let completed = within(DEADLINE, &what, polled).await.is_some();
            if with_neighbour {
                let neighbour = tokio::spawn(self.locks.with_lock(KEY, async {}));
                let placed =
                    async || neighbour.is_finished() || self.waiters().await.unwrap_or(0) > 0;
                eventually(
                    DEADLINE,
                    "the neighbour is in the queue, or through",
                    placed,
                )
                .await;
                drop(future);
                let what = format!("the neighbour enters: {what}");
                let entered = within(DEADLINE, &what, neighbour).await;
                entered.expect("no panic").expect("a turn");
            } else {
                drop(future);
            }
            self.settle(&what).await;
            if completed {
                return polls;
            }
        }
        unreachable!("some poll completes it")
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
    let mut future: Pin<&mut F> = pin!(future);
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

/// A waiter. Its poll number `moment` starts the holder's release.
pub async fn released_at<T>(
    moment: usize,
    holder: LockGuard,
    waiter: impl Future<Output = T>,
) -> T {
    let mut holder = Some(holder);
    let mut polls = 0;
    let mut waiter = Box::pin(waiter);
    poll_fn(|cx| {
        polls += 1;
        let polled = waiter.as_mut().poll(cx);
        if polls == moment {
            drop(holder.take().map(|guard| tokio::spawn(guard.release())));
        } else if polls < moment {
            // Nothing wakes the waiter before that.
            cx.waker().wake_by_ref();
        }
        polled
    })
    .await
}

/// The one task for the renewals of a `Locks`. Once per second it checks whether it has something to do. Another test
/// covers its end.
pub const RENEWALS: usize = 1;

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

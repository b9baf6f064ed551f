//! `LocksBuilder::neighbours`: programs with the well-known scripts, which poll, and clients that wait as Redisson
//! does, enter together with the waiters of this crate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::classic::{Unlocked, classic_lock, classic_unlock};
use crate::support::redisson::{Redisson, lock_in_mode};
use crate::support::rig::KEY;
use crate::support::{
    DEADLINE, RedisServer, Section, Turns, eventually, patient, processes, unhurried, until_queued,
    within,
};
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, cmd};
use reentry::{Locks, LocksBuilder, Neighbours};
use tokio::task::JoinSet;

const CLASSIC: &str = "9b2d7c3e-8a5f-4d1c-9e60-2f4b8a7c6d5e:1";
const TTL_MS: u64 = 60_000;
const INTERVAL: Duration = Duration::from_millis(50);
/// The longest interval.
const SELDOM: Duration = Duration::from_secs(10);
const VACATED: &str = "reentry:vacated:{order:42}:order:42";

/// Locks that are left free for so long that only an action of the test ends that time.
fn patiently(server: &RedisServer) -> LocksBuilder {
    let neighbours = Neighbours::polling(SELDOM);
    unhurried(server).neighbours(neighbours.every(Duration::from_secs(60)))
}

/// Callers that acquire the lock again and again, until they are stopped.
struct Contention {
    stop: Arc<AtomicBool>,
    section: Arc<Section>,
    callers: JoinSet<u32>,
}

impl Contention {
    fn of(processes: &[Locks], callers: usize) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let section = Arc::<Section>::default();
        let mut tasks = JoinSet::new();
        for locks in processes {
            for _ in 0..callers {
                let (stop, section) = (Arc::clone(&stop), Arc::clone(&section));
                let locks = locks.clone();
                tasks.spawn(async move {
                    let mut turns = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let body = section.visit_until(tokio::time::sleep(INTERVAL / 10));
                        locks.with_lock(KEY, body).await.unwrap();
                        turns += 1;
                    }
                    turns
                });
            }
        }
        Self {
            stop,
            section,
            callers: tasks,
        }
    }

    /// Polls until the classic program has had the lock.
    async fn enter(&self, connection: &mut MultiplexedConnection) {
        let mut polls = tokio::time::interval(INTERVAL);
        loop {
            polls.tick().await;
            if classic_lock(connection, KEY, CLASSIC, TTL_MS)
                .await
                .is_none()
            {
                self.section.visit().await;
                let unlocked = classic_unlock(connection, KEY, CLASSIC, TTL_MS).await;
                return assert_eq!(unlocked, Unlocked::Freed);
            }
        }
    }

    /// Stops the callers. Returns the number of turns of each.
    async fn turns(self) -> Vec<u32> {
        self.stop.store(true, Ordering::Relaxed);
        within(DEADLINE, "their ends", self.callers.join_all()).await
    }
}

/// Without the option it never enters: see the page *migrating* of the guide.
#[tokio::test]
async fn a_program_that_polls_gets_in_beside_contending_processes() {
    for (count, callers) in [(1, 2), (2, 1), (2, 2), (4, 1)] {
        let server = RedisServer::start().await;
        let builder = patient(&server);
        let all: [Locks; 4] = processes(&builder.neighbours(Neighbours::polling(INTERVAL))).await;
        let contention = Contention::of(&all[..count], callers);
        let mut classic = server.connection().await;
        for _ in 0..3 {
            let entering = contention.enter(&mut classic);
            within(DEADLINE, "a turn of the program that polls", entering).await;
        }
        let turns = contention.turns().await;
        assert!(turns.iter().all(|turns| *turns > 0), "{turns:?}");
        let is_empty = async || server.key_count().await == 0;
        eventually(DEADLINE, "nothing is left", is_empty).await;
    }
}

#[tokio::test]
async fn no_caller_of_ours_gets_a_lock_that_is_left_to_others() {
    let server = RedisServer::start().await;
    let [holder, waiting, third] = processes(&patiently(&server)).await;
    let guard = holder.lock(KEY).await.unwrap();
    let mut turns = Turns::default();
    let mut waiter = turns.stay(waiting.lock(KEY), "waiter");
    until_queued(&server, 1).await;
    guard.release().await.unwrap();
    assert!(third.inspect(KEY).await.unwrap().is_none(), "it is free");
    assert!(third.lock(KEY).try_acquire().await.unwrap().is_none());
    let reader = third.lock(KEY).read().try_acquire();
    assert!(reader.await.unwrap().is_none());
    assert!(!waiter.has_entered());
    let mut classic = server.connection().await;
    assert_eq!(classic_lock(&mut classic, KEY, CLASSIC, TTL_MS).await, None);
    let unlocked = classic_unlock(&mut classic, KEY, CLASSIC, TTL_MS).await;
    assert_eq!(unlocked, Unlocked::Freed);

    // When that time is over, the lock goes to the first in the queue, whichever process sends a request.
    let over = format!("HDEL reentry:entries:{{{KEY}}}:{KEY} pause");
    assert_eq!(server.ask(&over).await, "1");
    assert!(third.lock(KEY).try_acquire().await.unwrap().is_none());
    waiter.entered().await;
    waiter.leave();
    turns.all().await;
}

#[tokio::test]
async fn a_client_that_waits_as_redisson_does_is_told_of_our_release() {
    let server = RedisServer::start().await;
    let [ours] = processes(&patiently(&server)).await;
    let mut theirs = Redisson::start(&server, KEY, CLASSIC).await;
    let guard = ours.lock(KEY).await.unwrap();
    assert!(theirs.ask(TTL_MS).await.is_some());
    guard.release().await.unwrap();
    assert_eq!(within(DEADLINE, "a message", theirs.told()).await, "0");
    assert_eq!(theirs.ask(TTL_MS).await, None);
    theirs.unlock(TTL_MS).await;
    assert_eq!(server.key_count().await, 0);
}

/// This also covers messages on a separate connection.
#[tokio::test]
async fn our_waiter_is_told_of_the_release_of_redisson() {
    let server = RedisServer::start().await;
    for protocol in ["resp3", "resp2"] {
        let url = format!("{}?protocol={protocol}", server.url());
        let [ours] = processes(&patiently(&server).url(url)).await;
        let mut theirs = Redisson::start(&server, KEY, CLASSIC).await;
        assert_eq!(theirs.ask(TTL_MS).await, None);
        let before = server.commandstats().await;
        let mut turns = Turns::default();
        let mut waiter = turns.stay(ours.lock(KEY), "waiter");
        until_queued(&server, 1).await;
        // It sends a request when it joins, and another one when it is subscribed.
        let listens = async || {
            let calls = server.calls_since(&before).await;
            calls.get("evalsha").is_some_and(|&calls| calls >= 2)
        };
        eventually(DEADLINE, "it listens", listens).await;
        let unlocking = Instant::now();
        theirs.unlock(TTL_MS).await;
        waiter.entered().await;
        let waited = unlocking.elapsed();
        assert!(waited < SELDOM, "it asked at its time, after {waited:?}");
        waiter.leave();
        turns.all().await;
    }
}

/// Without the permission the waiters send requests.
#[tokio::test]
async fn the_user_needs_one_right_more() {
    let server = RedisServer::start().await;
    let mut admin = server.connection().await;
    for has_right in [true, false] {
        let mut user = cmd("ACL");
        user.arg("SETUSER").arg("locker").arg("reset").arg("on");
        user.arg(">secret").arg("resetchannels").arg("allkeys");
        user.arg("+@all").arg("-psubscribe").arg("&reentry:inbox:*");
        if has_right {
            user.arg("+psubscribe").arg("&redisson_lock__channel:*");
        }
        let _: () = user.query_async(&mut admin).await.unwrap();
        let url = format!("redis://locker:secret@127.0.0.1:{}", server.port());
        let [one, other] = processes(&patiently(&server).url(url)).await;
        let guard = one.lock(KEY).await.unwrap();
        let mut turns = Turns::default();
        let mut waiter = turns.stay(other.lock(KEY), "waiter");
        until_queued(&server, 1).await;
        let listens = async || server.ask("PUBSUB NUMPAT").await == "1";
        if has_right {
            eventually(DEADLINE, "it listens", listens).await;
        } else {
            assert!(!listens().await);
        }
        let _: u32 = admin.hset(VACATED, "at", 0).await.unwrap();
        guard.release().await.unwrap();
        waiter.entered().await;
        waiter.leave();
        turns.all().await;
        let _: u32 = admin.del(VACATED).await.unwrap();
    }
}

#[tokio::test]
async fn a_user_who_may_not_leave_a_lock_free_releases_it() {
    let server = RedisServer::start().await;
    let mut admin = server.connection().await;
    let mut user = cmd("ACL");
    user.arg("SETUSER").arg("locker").arg("on").arg(">secret");
    user.arg("+@all").arg("&*").arg("~order:*");
    user.arg("~reentry:queue:*").arg("~reentry:entries:*");
    let _: () = user.query_async(&mut admin).await.unwrap();
    let url = format!("redis://locker:secret@127.0.0.1:{}", server.port());
    let [locks] = processes(&patiently(&server).url(url)).await;
    locks.lock(KEY).await.unwrap().release().await.unwrap();
    assert!(locks.inspect(KEY).await.unwrap().is_none());
}

/// This is so whichever way the lock came to its holder.
#[tokio::test]
async fn read_and_write_locks_of_redisson_exclude_ours() {
    let server = RedisServer::start().await;
    let [one, other] = processes(&unhurried(&server)).await;
    let mut theirs = server.connection().await;
    let writer = one.lock(KEY).await.unwrap();
    let mut turns = Turns::default();
    let mut waiter = turns.stay(other.lock(KEY), "waiter");
    until_queued(&server, 1).await;
    let mut stay_out = async || {
        for mode in ["read", "write"] {
            let busy = lock_in_mode(&mut theirs, KEY, CLASSIC, mode, TTL_MS).await;
            assert!(busy.is_some(), "{mode}");
        }
    };
    stay_out().await;
    writer.release().await.unwrap();
    waiter.entered().await;
    stay_out().await;
    waiter.leave();
    turns.all().await;
    let reader = one.lock(KEY).read().await.unwrap();
    stay_out().await;
    reader.release().await.unwrap();
    let [first, second] = [KEY, "order:43"].map(str::to_owned);
    let both = one.lock_all([first, second]).acquire().await.unwrap();
    stay_out().await;
    both.release().await.unwrap();

    for mode in ["read", "write"] {
        let locked = lock_in_mode(&mut theirs, KEY, CLASSIC, mode, TTL_MS).await;
        assert_eq!(locked, None, "{mode}");
        assert!(one.lock(KEY).try_acquire().await.unwrap().is_none());
        let reading = one.lock(KEY).read().try_acquire();
        assert!(reading.await.unwrap().is_none());
        let info = one.inspect(KEY).await.unwrap().unwrap();
        let holders: Vec<_> = info.holders.iter().map(|holder| holder.depth).collect();
        assert_eq!(holders, [1], "{mode}: the mode is no holder");
        let _: u32 = theirs.del(KEY).await.unwrap();
    }
}

#[tokio::test]
async fn a_lock_that_no_caller_waits_for_takes_two_requests() {
    let server = RedisServer::start().await;
    let [ours] = processes(&patiently(&server)).await;
    ours.with_lock(KEY, async {}).await.unwrap();
    let before = server.commandstats().await;
    ours.with_lock(KEY, async {}).await.unwrap();
    let calls = server.calls_since(&before).await;
    assert_eq!((calls["evalsha"], calls["publish"]), (2, 1), "{calls:?}");
    assert_eq!(server.key_count().await, 0);
}

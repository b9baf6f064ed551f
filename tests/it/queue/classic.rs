//! P12 together with a queue. A program with the well-known scripts does not know the queue. It and the waiters of this
//! crate exclude each other, and it enters when the queue is empty. The tests also check what it sees of a lock of this
//! crate.

use std::time::Duration;

use crate::support::classic::{Unlocked, classic_lock, classic_unlock};
use crate::support::redisson::lock_in_mode;
use crate::support::rig::KEY;
use crate::support::{
    DEADLINE, RedisServer, Turns, eventually, processes, unhurried, until_queued, within,
};
use redis::AsyncCommands;

const CLASSIC: &str = "9b2d7c3e-8a5f-4d1c-9e60-2f4b8a7c6d5e:1";
const TTL_MS: u64 = 60_000;

/// The lock is never free between two holders of this crate, whichever way it passes from one to the next.
#[tokio::test]
async fn a_classic_program_enters_when_the_queue_is_empty() {
    let server = RedisServer::start().await;
    let builder = unhurried(&server).turns(2);
    let [holder, one, other] = processes(&builder).await;
    let guard = holder.lock(KEY).await.unwrap();
    let mut turns = Turns::default();
    for number in 0..10 {
        turns.come(&one, &format!("a{number}")).await;
        turns.come(&other, &format!("b{number}")).await;
    }
    until_queued(&server, 2).await;
    let before = server.commandstats().await;
    let mut classic = server.connection().await;
    let poller = tokio::spawn(async move {
        // It polls repeatedly, as such programs do.
        while let Some(_busy) = classic_lock(&mut classic, KEY, CLASSIC, TTL_MS).await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        classic
    });
    let polls = async || server.calls_since(&before).await.contains_key("eval");
    eventually(DEADLINE, "it polls", polls).await;
    guard.release().await.unwrap();
    let mut classic = within(DEADLINE, "its turn", poller).await.unwrap();
    assert_eq!(turns.so_far().len(), 20, "it came after all of ours");
    // The callers of this crate stay out while it is inside.
    let refused = one.lock(KEY).try_acquire().await.unwrap();
    assert!(refused.is_none());
    let unlocked = classic_unlock(&mut classic, KEY, CLASSIC, TTL_MS).await;
    assert_eq!(unlocked, Unlocked::Freed);
    turns.all().await;
}

/// This is so whichever way the lock came to its holder.
#[tokio::test]
async fn locks_of_redisson_and_of_this_crate_exclude_each_other() {
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
        let info = one.admin().inspect(KEY).await.unwrap().unwrap();
        let holders: Vec<_> = info.holders.iter().map(|holder| holder.depth).collect();
        assert_eq!(holders, [1], "{mode}: the mode is no holder");
        let _: u32 = theirs.del(KEY).await.unwrap();
    }
}

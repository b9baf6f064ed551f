//! P1, P3 and P7 together: many tasks on many threads that enter, re-enter, give up, time out and
//! drop their futures after any number of polls, and afterwards nothing is left.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::support::dice::Dice;
use crate::support::{
    DEADLINE, RedisServer, Section, connect, depths, eventually, waiters, within,
};
use reentry::{LockError, Locks, held};
use tokio::task::{JoinSet, yield_now};

/// Polls `future` at most so many times, each time that it is woken.
async fn polled<F: Future>(future: F, mut times: u64) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if times == 0 => Poll::Ready(None),
        Poll::Pending => {
            times -= 1;
            Poll::Pending
        }
    })
    .await
}

/// A body that enters again, in two branches at once, and is alone all the while.
async fn nested(locks: &Locks, section: &Section) {
    let enter = || locks.with_lock("key", async { assert!(held("key").unwrap().depth() > 1) });
    section.visit().await;
    let (one, other) = tokio::join!(enter(), enter());
    one.and(other).unwrap();
    section.visit().await;
}

fn is_contended<T>(result: Result<T, LockError>) {
    if let Err(error) = result {
        assert!(error.is_contended(), "{error:?}");
    }
}

async fn one_turn(locks: &Locks, section: &Section, dice: &mut Dice) {
    let request = || locks.lock("key");
    match dice.roll(8) {
        0 => locks.with_lock("key", section.visit()).await.unwrap(),
        1 => request().run(nested(locks, section)).await.unwrap(),
        2 | 3 => {
            let call = request().run(nested(locks, section));
            polled(call, dice.roll(12)).await.transpose().unwrap();
        }
        4 => is_contended(request().no_wait().run(section.visit()).await),
        5 => {
            let wait = Duration::from_micros(dice.roll(3_000));
            is_contended(request().wait(wait).run(nested(locks, section)).await);
        }
        6 => {
            let guard = request().await.unwrap();
            guard.scope(nested(locks, section)).await.unwrap();
            drop(guard);
        }
        _ => {
            if let Some(guard) = request().try_acquire().await.unwrap() {
                polled(guard.scope(nested(locks, section)), dice.roll(6)).await;
                // What was dropped inside leaves by itself; nobody else comes in before.
                section.visit().await;
                guard.release().await.unwrap();
            }
        }
    }
}

/// `all` are clones, or strangers on one server.
async fn storm(all: Vec<Locks>, turns: u32) {
    let section = Arc::new(Section::default());
    let mut tasks = JoinSet::new();
    for seed in 0..12 {
        let locks = all[seed % all.len()].clone();
        let section = Arc::clone(&section);
        tasks.spawn(async move {
            let mut dice = Dice(seed as u64);
            for _ in 0..turns {
                one_turn(&locks, &section, &mut dice).await;
                yield_now().await;
            }
        });
    }
    let everybody = async {
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
    };
    within(3 * DEADLINE, "the end of the storm", everybody).await;
    assert!(section.visits() > 0);
    let locks = &all[0];
    let is_free = async || depths(locks, "key").await.is_empty();
    eventually(DEADLINE, "a free lock", is_free).await;
    for locks in &all {
        // A request that was dropped in flight may come and go once more.
        let guard = locks.lock("key").await.unwrap();
        assert_eq!(waiters(locks, "key").await, Some(0));
        assert_eq!(depths(locks, "key").await, [1]);
        guard.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_storm_in_memory_leaves_nothing_behind() {
    storm(vec![Locks::in_memory()], 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_storm_on_one_server_leaves_nothing_behind() {
    let server = RedisServer::start().await;
    storm(vec![connect(&server).await], 40).await;
    assert_eq!(server.ask("EXISTS key").await, "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_storm_of_strangers_on_one_server_leaves_nothing_behind() {
    let server = RedisServer::start().await;
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(connect(&server).await);
    }
    storm(all, 15).await;
    assert_eq!(server.ask("EXISTS key").await, "0");
}

//! P1, P5, P6 and P11 on a real server whose clock is stepped forward and back.
//!
//! `tests/it/testing/data_and_clock.rs` has such cases on the server in memory. These tests check that Redis itself
//! handles leases and the time in the same way. Run them with `cargo xtask servers redis-6.2`, because they need a
//! server whose clock can be stepped.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test ends where its ground gives way"
)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reentry::{FencingToken, LockError, Locks, LostReason, held};
use support::{
    DEADLINE, Direction, Proxy, Section, SteppedServer, connect, eventually, patient, patient_at,
    processes, within,
};
use tokio::task::JoinSet;

const KEY: &str = "order:42";
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

async fn token(locks: &Locks) -> FencingToken {
    let body = async { held(KEY).unwrap().fencing_token() };
    locks.with_lock(KEY, body).await.unwrap()
}

/// A lock that moves while it is held gets the token after its own, however far the clock was set back.
#[tokio::test]
async fn tokens_of_a_lock_that_is_handed_over_grow_though_the_clock_goes_back() {
    let stepped = SteppedServer::start().await;
    let [one, other] = processes(&patient(&stepped.server)).await;
    let mut guard = one.lock(KEY).await.unwrap();
    let first = guard.held().fencing_token();
    let mut tokens = Vec::new();
    for next in [&other, &one, &other, &one] {
        let waiting = tokio::spawn(next.lock(KEY).acquire());
        let waits = async || {
            let info = one.admin().inspect(KEY).await.unwrap().unwrap();
            info.waiters > 0 || info.waiting_processes > 0
        };
        eventually(DEADLINE, "it waits", waits).await;
        stepped.step_back(HOUR).await;
        guard.release().await.unwrap();
        guard = within(DEADLINE, "it enters", waiting)
            .await
            .unwrap()
            .unwrap();
        tokens.push(u64::from(guard.held().fencing_token()));
    }
    let expected: Vec<u64> = (1..=4).map(|number| u64::from(first) + number).collect();
    assert_eq!(tokens, expected);
    guard.release().await.unwrap();
    // The server has no trace of it any more, so the token comes from the clock.
    assert!(token(&one).await < first, "as P11 says");
}

/// A lock that is free leaves nothing: its next token is the time.
#[tokio::test]
async fn tokens_grow_though_the_clock_goes_back_by_less_than_the_time_since() {
    let stepped = SteppedServer::start().await;
    let [one, other] = processes(&patient(&stepped.server)).await;
    let mut last = token(&one).await;
    for locks in [&other, &one, &other] {
        stepped.step_forward(HOUR).await;
        stepped.step_back(HOUR - SECOND).await;
        let next = token(locks).await;
        assert!(next > last, "{next} after {last}");
        last = next;
    }
    stepped.step_back(HOUR).await;
    assert!(token(&one).await < last, "as P11 says");
}

/// A lock that expires does so by the clock that made its token, so the next one is greater whatever that clock did.
#[tokio::test]
async fn tokens_grow_after_an_expiry_whatever_the_clock_did() {
    let stepped = SteppedServer::start().await;
    let locks = connect(&stepped.server).await;
    let ttl = 2 * SECOND;
    let mut last = FencingToken::from(0);
    for back in [SECOND, HOUR, 10 * HOUR] {
        let guard = locks.lock(KEY).ttl(ttl).max_hold(ttl).await.unwrap();
        let current = guard.held().fencing_token();
        assert!(current > last, "{current} after {last}");
        last = current;
        stepped.step_back(back).await;
        assert!(locks.admin().inspect(KEY).await.unwrap().is_some());
        // The clock has caught up, and the lease has expired.
        stepped.step_forward(back + ttl).await;
        let is_free = async || locks.admin().inspect(KEY).await.unwrap().is_none();
        eventually(DEADLINE, "the end of the lease", is_free).await;
    }
    assert!(token(&locks).await > last);
}

/// P1 is broken until the holder sends its next request. P6 and P11 are not.
#[tokio::test]
async fn a_clock_stepped_forward_ends_leases_and_the_holder_learns_of_it() {
    let stepped = SteppedServer::start().await;
    let ttl = 30 * SECOND;
    let renewed_often = patient(&stepped.server).ttl(3 * SECOND);
    let [holder, other] = processes(&renewed_often).await;
    let long = holder.lock(KEY).ttl(ttl).await.unwrap();
    stepped.step_forward(ttl / 2).await;
    let refused = other.lock(KEY).no_wait().await.unwrap_err();
    assert!(refused.is_busy(), "{refused:?}");
    long.release().await.unwrap();

    let first = holder.lock(KEY).await.unwrap();
    stepped.step_forward(HOUR).await;
    let second = other.lock(KEY).no_wait().await.unwrap();
    assert!(second.held().fencing_token() > first.held().fencing_token());
    let held = first.held();
    let reason = within(DEADLINE, "the loss", held.lost()).await;
    assert_eq!(reason, LostReason::Deleted);
    second.release().await.unwrap();
}

/// P5, P6: the deadline of the holder is local. P1: the server keeps the others out until its clock has caught up.
#[tokio::test]
async fn a_clock_stepped_back_keeps_the_others_out_for_longer() {
    let stepped = SteppedServer::start().await;
    let proxy = Proxy::start(stepped.server.port());
    let ttl = 3 * SECOND;
    let cut_off = patient_at(proxy.url()).ttl(ttl).build().await.unwrap();
    let other = connect(&stepped.server).await;
    let start = Instant::now();
    let body = async {
        proxy.hold(Direction::ToServer);
        stepped.step_back(HOUR).await;
        std::future::pending::<()>().await;
    };
    let lost = within(DEADLINE, "the loss", cut_off.with_lock(KEY, body)).await;
    assert!(matches!(lost, Err(LockError::Lost { .. })), "{lost:?}");
    assert!(start.elapsed() < 2 * ttl, "{:?}", start.elapsed());

    let refused = other.lock(KEY).no_wait().await.unwrap_err();
    assert!(refused.is_busy(), "{refused:?}");
    let waiting = tokio::spawn(other.with_lock(KEY, async {}));
    let remaining = async || {
        let info = other.admin().inspect(KEY).await.unwrap();
        let info = info.filter(|info| info.waiters == 1);
        info.and_then(|info| info.remaining)
    };
    let waits = async || remaining().await.is_some();
    eventually(DEADLINE, "it waits", waits).await;
    assert!(remaining().await.unwrap() > HOUR / 2 && !waiting.is_finished());
    stepped.step_forward(HOUR).await;
    let entered = within(DEADLINE, "the end of the lease", waiting).await;
    entered.unwrap().unwrap();
}

/// P5: a renewal neither fails nor shortens anything, and a release frees the lock immediately.
#[tokio::test]
async fn a_holder_keeps_its_lock_over_steps_back() {
    let stepped = SteppedServer::start().await;
    let builder = patient(&stepped.server).ttl(3 * SECOND);
    let [holder, other] = processes(&builder).await;
    let body = async {
        let end = || Instant::now() + held(KEY).unwrap().remaining();
        for _ in 0..3 {
            stepped.step_back(HOUR).await;
            let before = end();
            let renewed = async || end() > before + SECOND / 2;
            eventually(DEADLINE, "a renewal", renewed).await;
            let refused = other.lock(KEY).no_wait().await.unwrap_err();
            assert!(refused.is_busy(), "{refused:?}");
        }
    };
    holder.with_lock(KEY, body).await.unwrap();
    let next = within(DEADLINE, "it is free", other.lock(KEY).no_wait().acquire());
    let _guard = next.await.unwrap();
}

/// P1. A step forward expires leases, as the test above shows. A step back expires none.
#[tokio::test]
async fn steps_back_let_no_two_inside_and_take_no_lock_away() {
    const TURNS: u32 = 40;
    let stepped = SteppedServer::start().await;
    let builder = patient(&stepped.server);
    let section = Arc::new(Section::default());
    let mut tasks = JoinSet::new();
    for locks in processes::<3>(&builder).await {
        let section = Arc::clone(&section);
        tasks.spawn(async move {
            for _ in 0..TURNS {
                locks.with_lock(KEY, section.visit()).await.unwrap();
            }
        });
    }
    let are_done = AtomicBool::new(false);
    let turns = async {
        while let Some(ended) = within(DEADLINE, "their turns", tasks.join_next()).await {
            ended.unwrap();
        }
        are_done.store(true, Ordering::Relaxed);
    };
    let steps = async {
        let mut count = 0;
        while !are_done.load(Ordering::Relaxed) {
            stepped.step_back(7 * SECOND).await;
            count += 1;
        }
        count
    };
    let ((), count) = tokio::join!(turns, steps);
    assert!(count > 3, "only {count} steps");
    assert_eq!(section.visits(), 3 * TURNS);
}

//! The server as a process sees it below its locks: connections, their count, and their cost.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::runtime::Builder;

use super::network::Network;
use crate::base::error::Effect;
use crate::base::key::LockKey;
use crate::store::redis::Timeouts;
use crate::store::{AnswerFuture, Inspect, Snapshot, Store};
use crate::support::DEADLINE;

const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(2),
    response: Duration::from_secs(1),
};

fn key() -> LockKey {
    LockKey::new("", "order:42").expect("a key")
}

fn inspect(store: &Arc<Store>) -> AnswerFuture<Option<Snapshot>> {
    store.ask(Inspect::of(&key()))
}

/// The result of a request that gets its response at its first poll.
fn effect(store: &Arc<Store>) -> Result<(), Effect> {
    let answer = inspect(store).now_or_never().expect("an answer");
    answer.map(drop).map_err(|error| error.effect())
}

/// Without a runtime there is no timer to arm.
#[test]
fn while_all_is_well_a_request_is_answered_at_its_first_poll() {
    let server = Network::new();
    for store in [server.connect(TIMEOUTS), server.open(TIMEOUTS)] {
        for _ in 0..1_000 {
            assert_eq!(effect(&store), Ok(()));
        }
        assert_eq!(store.answers_within(&key()), TIMEOUTS.response);
    }
}

#[test]
fn the_epoch_changes_with_every_connection_and_every_loss() {
    let server = Network::new();
    let store = server.open(TIMEOUTS);
    assert_eq!(
        store.answers_within(&key()),
        Duration::MAX,
        "it has to connect"
    );
    let mut epochs = vec![store.connection_epochs()];
    let mut disconnects = store.disconnects();
    let mut is_new = |store: &Arc<Store>| {
        let epoch = store.connection_epochs();
        let is_new = !epochs.contains(&epoch);
        epochs.push(epoch);
        is_new
    };
    assert_eq!(effect(&store), Ok(()));
    assert!(is_new(&store) && !disconnects.has_changed().expect("it is there"));
    server.stop();
    assert!(is_new(&store) && disconnects.has_changed().expect("it is there"));
    disconnects.mark_unchanged();
    assert_eq!(effect(&store), Err(Effect::None));
    server.start();
    assert_eq!(effect(&store), Ok(()));
    assert!(is_new(&store));
    server.partition(&store);
    server.stop();
    assert!(
        !disconnects.has_changed().expect("it is there"),
        "it cannot know"
    );
    server.heal(&store);
    assert!(is_new(&store) && disconnects.has_changed().expect("it is there"));
    // Without a connection that can be lost, no disconnect is reported.
    disconnects.mark_unchanged();
    server.stop();
    server.stop();
    assert!(!is_new(&store) && !disconnects.has_changed().expect("it is there"));
}

#[test]
fn a_store_that_is_closed_asks_no_more() {
    let server = Network::new();
    let (closed, open) = (server.connect(TIMEOUTS), server.connect(TIMEOUTS));
    closed.close();
    for _ in 0..2 {
        assert_eq!(effect(&closed), Err(Effect::Refused));
        assert_eq!(effect(&open), Ok(()));
        server.stop();
        assert_eq!(effect(&closed), Err(Effect::Refused));
        server.start();
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_connection_learns_that_the_store_is_closed() {
    let server = Network::new();
    server.pause();
    let store = server.open(TIMEOUTS);
    let waiting = tokio::spawn(inspect(&store));
    tokio::task::yield_now().await;
    store.close();
    let error = waiting.await.expect("no panic").expect_err("it is closed");
    assert_eq!(error.effect(), Effect::Refused);
}

/// After a renewal without a response, the next request waits for a connection, and not for a response.
#[tokio::test(start_paused = true)]
async fn a_connection_that_is_suspected_is_left_only_while_it_is_silent() {
    let server = Network::new();
    let store = server.connect(TIMEOUTS);
    let epoch = store.connection_epochs();
    store.suspect(&key(), tokio::time::Instant::now());
    assert_eq!(effect(&store), Ok(()));
    assert_eq!(store.connection_epochs(), epoch);
    server.pause();
    store.suspect(&key(), tokio::time::Instant::now());
    let error = inspect(&store).await.expect_err("the server is paused");
    assert_eq!(error.effect(), Effect::None);
}

/// A request that arrives while the server resumes is executed, before or after the others.
#[test]
fn no_request_is_forgotten_while_the_server_stands_still_and_goes_on() {
    let server = Network::new();
    let is_over = AtomicBool::new(false);
    let patient = Timeouts {
        connect: DEADLINE,
        response: DEADLINE,
    };
    let ask = || {
        let store = server.connect(patient);
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            for _ in 0..2_000 {
                inspect(&store).await.expect("an answer");
            }
        });
    };
    thread::scope(|scope| {
        let asking = [scope.spawn(ask), scope.spawn(ask)];
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                server.pause();
                thread::yield_now();
                server.resume();
            }
        });
        let ended = asking.map(thread::ScopedJoinHandle::join);
        is_over.store(true, Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
}

//! Nested entries below one holder. None of them waits for the store, which follows.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::iter::repeat_with;
use std::time::Duration;

use futures_util::future::{join, join_all};
use tokio::time::{Instant, sleep};

use super::climate::{Fate, millis};
use super::far::Ground;
use super::run::simulated;
use super::server::Server;
use crate::base::key::LockKey;
use crate::store::Inspect;
use crate::{Locks, held};

const KEY: &str = "order:42";

const BRANCHES: usize = 16;

const TRAVEL: Duration = Duration::from_millis(1);
const ROUND_TRIP: Duration = Duration::from_millis(20);

/// The depths that a hold has had, each with the instant from which it did.
type History = RefCell<Vec<(Instant, u32)>>;

fn note(history: &History) {
    let depth = held(KEY).expect("it is held").depth();
    history.borrow_mut().push((Instant::now(), depth));
}

/// Enters again and again, with short bodies.
async fn enter_until(end: Instant, locks: &Locks, history: &History) {
    while Instant::now() < end {
        let body = async {
            note(history);
            sleep(millis(1..=9)).await;
        };
        locks.with_lock(KEY, body).await.unwrap();
        note(history);
        sleep(millis(1..=9)).await;
    }
}

/// Looks at the server itself, without a way to it. Returns the number of different depths.
async fn observe_until(end: Instant, server: &Server, history: &History) -> usize {
    let key = LockKey::new("", KEY).unwrap();
    let mut all = BTreeSet::new();
    while Instant::now() < end {
        sleep(TRAVEL).await;
        let seen = server.ask(Inspect::of(&key)).await.expect("a held lock");
        let seen = u32::try_from(seen.holders[0].depth).unwrap();
        all.insert(seen);
        // The depth that was wanted two round trips ago counts, and each that was wanted since.
        let oldest = Instant::now() - 2 * ROUND_TRIP;
        let history = history.borrow();
        let before = history.iter().rfind(|(at, _)| *at <= oldest);
        let since = history.iter().filter(|(at, _)| *at > oldest);
        let mut wanted = before.into_iter().chain(since).map(|(_, depth)| *depth);
        assert!(wanted.any(|depth| depth == seen), "{seen} is outdated");
    }
    all.len()
}

#[test]
fn the_depth_in_the_store_is_at_most_two_round_trips_old() {
    let different = simulated(7, async {
        let ground = Ground::new();
        let (locks, _) = ground.process(ROUND_TRIP);
        let history = History::default();
        let body = async {
            note(&history);
            let end = Instant::now() + Duration::from_secs(2);
            let branches = repeat_with(|| enter_until(end, &locks, &history)).take(BRANCHES);
            join(
                join_all(branches),
                observe_until(end, &ground.server, &history),
            )
            .await
        };
        locks.with_lock(KEY, body).await.unwrap().1
    });
    assert!(different > BRANCHES / 2, "{different}");
}

/// The request of the inner exit is slow, and the release, which is sent later, is executed first.
#[test]
fn an_exit_that_is_overtaken_by_the_release_is_no_loss() {
    simulated(7, async {
        let (locks, link) = Ground::new().process(2 * TRAVEL);
        let outer = locks.lock(KEY).await.unwrap();
        let inner = outer.scope(locks.lock(KEY).acquire()).await.unwrap();
        link.set_fate(Some(Fate {
            there: 100 * TRAVEL,
            ..Fate::good()
        }));
        let release = async {
            sleep(10 * TRAVEL).await;
            link.set_fate(None);
            outer.release().await
        };
        let (left, released) = tokio::join!(inner.unwrap().release(), release);
        left.and(released).unwrap();
    });
}

//! Nested entries below one holder, each of which needs the store. None of them delays another one.

use std::iter::repeat_with;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep, timeout_at};

use super::climate::{Climate, Fate};
use super::ledger::Ledger;
use super::link::Link;
use super::run::simulated;
use super::server::Server;
use crate::Locks;

const KEY: &str = "order:42";

const BRANCHES: usize = 16;

const TRAVEL: Duration = Duration::from_millis(1);

/// Enters again and again. Its own body requests the lock from the store, and then its label.
async fn enter_until(end: Instant, locks: &Locks) -> u32 {
    let mut entries = 0;
    loop {
        let body = async { locks.inspect(KEY).await.unwrap() };
        match timeout_at(end, locks.with_lock(KEY, body)).await {
            Ok(entered) => drop(entered.unwrap()),
            Err(_elapsed) => return entries,
        }
        entries += 1;
    }
}

#[test]
fn busy_siblings_let_each_other_in() {
    let entries = simulated(7, async {
        let server = Arc::new(Server::new());
        let ledger = Ledger::new(Climate::CALM);
        let response_timeout = Duration::from_secs(1);
        let link = Link::new(&server, &ledger, Climate::CALM, response_timeout);
        let fate = Fate {
            there: TRAVEL,
            back: TRAVEL,
            ..Fate::good()
        };
        link.set_fate(Some(fate));
        let locks = Locks::builder().behind(Arc::new(link), response_timeout);
        let body = async {
            let end = Instant::now() + Duration::from_secs(2);
            let branches = repeat_with(|| enter_until(end, &locks)).take(BRANCHES);
            join_all(branches).await
        };
        locks.with_lock(KEY, body).await.unwrap()
    });
    // An entry waits for two changes of the depth at most, and so does its exit: the change in flight, and the one that
    // includes its own. With the body this is six round trips of 2 ms.
    let least = entries.iter().min().unwrap();
    assert!(*least >= 160, "{entries:?}");
}

/// The request of the inner exit is slow, and the release, which is sent later, is executed first.
#[test]
fn an_exit_that_is_overtaken_by_the_release_is_no_loss() {
    simulated(7, async {
        let server = Arc::new(Server::new());
        let ledger = Ledger::new(Climate::CALM);
        let response_timeout = Duration::from_secs(1);
        let link = Link::new(&server, &ledger, Climate::CALM, response_timeout);
        let locks = Locks::builder().behind(Arc::new(link.clone()), response_timeout);
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

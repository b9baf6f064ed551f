//! A store that is far away: round trips that are long compared to the TTL, and responses that arrive late.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::climate::{Climate, Fate};
use super::ledger::Ledger;
use super::link::Link;
use super::run::simulated;
use super::server::Server;
use crate::{LockError, Locks};

const KEY: &str = "order:42";

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Every request is answered after this round trip.
fn answered_after(round_trip: Duration) -> Fate {
    Fate {
        there: round_trip / 2,
        back: round_trip / 2,
        ..Fate::good()
    }
}

/// A server, and processes whose response timeout is a second.
pub(super) struct Ground {
    pub(super) server: Arc<Server>,
    ledger: Arc<Ledger>,
}

impl Ground {
    pub(super) fn new() -> Self {
        Self {
            server: Arc::new(Server::new()),
            ledger: Ledger::new(Climate::CALM),
        }
    }

    pub(super) fn process(&self, round_trip: Duration) -> (Locks, Link) {
        let response_timeout = Duration::from_secs(1);
        let link = Link::new(&self.server, &self.ledger, Climate::CALM, response_timeout);
        link.set_fate(Some(answered_after(round_trip)));
        let locks =
            Locks::builder("memory:").build_on_wire(Arc::new(link.clone()), response_timeout);
        (locks, link)
    }
}

/// Holds a lock for a while.
async fn hold(ttl: Duration, round_trip: Duration) -> Result<(), LockError> {
    let (locks, _) = Ground::new().process(round_trip);
    let body = sleep(Duration::from_secs(20));
    locks.lock(KEY).ttl(ttl).run(body).await
}

#[test]
fn a_lease_is_kept_over_round_trips_of_less_than_half_the_ttl() {
    for (ttl, round_trip) in [
        (ms(1_000), ms(180)),
        (ms(1_000), ms(480)),
        (ms(3_000), ms(600)),
        (ms(100), ms(46)),
    ] {
        let held = simulated(7, hold(ttl, round_trip));
        assert!(held.is_ok(), "{ttl:?} over {round_trip:?}: {held:?}");
    }
    // The first renewal is sent when the lock was acquired, and its response is too late.
    let lost = simulated(7, hold(ms(1_000), ms(520))).unwrap_err();
    assert!(lost.is_lost(), "{lost}");
}

/// It begins with the short lease of a lock that has moved, and the connection is silent once.
#[test]
fn a_lock_that_has_moved_outlives_a_silent_connection() {
    simulated(7, async {
        let ground = Ground::new();
        let ((here, _), (there, link)) = (ground.process(ms(150)), ground.process(ms(150)));
        let holder = here.lock(KEY).await.unwrap();
        let silent = Fate {
            arrives: false,
            ..answered_after(ms(150))
        };
        let section = there.with_lock(KEY, async {
            link.set_fate(Some(silent));
            // The first renewal, after half a second, is lost. Then the silence must be noticed, and another connection
            // must be opened.
            sleep(ms(1_600)).await;
            link.set_fate(Some(answered_after(ms(150))));
            sleep(Duration::from_secs(20)).await;
        });
        let release = async {
            sleep(Duration::from_secs(2)).await;
            holder.release().await
        };
        let (held, released) = tokio::join!(section, release);
        released.unwrap();
        held.unwrap();
    });
}

/// All waits end without a response, and the requests that they have sent are undone in the background.
#[test]
fn a_server_that_always_answers_too_late_is_not_stormed() {
    simulated(7, async {
        let (locks, link) = Ground::new().process(ms(1_100));
        let waits = (0..300).map(|number| {
            let wait = locks.lock(format!("order:{number}")).wait(ms(1_500));
            tokio::spawn(wait.acquire())
        });
        for wait in waits.collect::<Vec<_>>() {
            let error = wait.await.unwrap().unwrap_err();
            assert!(!error.is_busy(), "{error}");
        }
        sleep(Duration::from_secs(5)).await;
        let before = link.requests();
        sleep(Duration::from_secs(60)).await;
        let sent = link.requests() - before;
        // Eight requests are sent at a time, each for a second and a pause.
        assert!(sent <= 8 * 60, "{sent} requests in a minute");
        link.set_fate(Some(answered_after(ms(2))));
        sleep(Duration::from_secs(5)).await;
        let before = link.requests();
        sleep(Duration::from_secs(60)).await;
        assert_eq!(link.requests() - before, 0, "all is undone");
    });
}

/// A store that sends no response, or a late one, says nothing about another holder.
#[test]
fn a_silent_store_is_not_reported_as_contention() {
    simulated(7, async {
        let silent = Fate {
            answered: false,
            ..answered_after(ms(2))
        };
        // There is no response as long as a caller waits, and there is an error in the meantime.
        for wait in [ms(300), ms(5_000)] {
            let (locks, link) = Ground::new().process(ms(2));
            link.set_fate(Some(silent));
            let waits = || locks.lock(KEY).wait(wait).acquire();
            let (first, second, third) = tokio::join!(waits(), waits(), waits());
            for waited in [first, second, third] {
                let error = waited.unwrap_err();
                let named = matches!(&error, LockError::Unavailable { .. });
                assert!(named && !error.is_busy(), "{error:?}");
            }
        }
        let (locks, link) = Ground::new().process(ms(2));
        link.set_fate(Some(silent));
        let tries = || locks.lock(KEY).try_acquire();
        let (first, second) = tokio::join!(tries(), tries());
        assert!(first.is_err() && second.is_err(), "{first:?} {second:?}");

        // The lease has expired when the response arrives.
        let (locks, _) = Ground::new().process(ms(300));
        let tried = locks.lock(KEY).ttl(ms(100)).try_acquire().await;
        assert!(tried.unwrap_err().is_unavailable());
    });
}

#[test]
fn a_lock_that_another_one_holds_is_contended() {
    simulated(7, async {
        let ground = Ground::new();
        let ((here, _), (there, _)) = (ground.process(ms(2)), ground.process(ms(2)));
        let _holder = here.lock(KEY).await.unwrap();
        for locks in [&here, &there] {
            let waits = || locks.lock(KEY).wait(ms(300)).acquire();
            let (first, second) = tokio::join!(waits(), waits());
            for waited in [first, second] {
                let error = waited.unwrap_err();
                assert!(error.is_busy(), "{error:?}");
            }
            let tries = || locks.lock(KEY).try_acquire();
            let (first, second) = tokio::join!(tries(), tries());
            assert!(first.unwrap().is_none() && second.unwrap().is_none());
        }
    });
}

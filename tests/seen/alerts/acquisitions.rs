//! The alerts about acquisitions that end without the lock.

use reentry::testing::Server;
use reentry::{LockError, Locks};
use tokio::time::sleep;

use super::{KEY, MINUTE, SECOND};
use crate::prometheus::{Fires, Scrapes};
use crate::support::{RedisServer, cycle, patient, patient_at};

const STORE_FAILS: Fires<'_> = (
    "ReentryStoreFails",
    "critical",
    "orders cannot acquire locks, because Redis fails or does not respond",
);

const MISUSED: Fires<'_> = (
    "ReentryMisused",
    "warning",
    "orders requests locks that Redis will always reject: a bug, or a wrong setting",
);

const DEADLOCK: Fires<'_> = (
    "ReentryDeadlock",
    "warning",
    "orders had a deadlock: callers waited for each other in a cycle",
);

/// The summary has a number, and so does its situation.
const fn fail(summary: &str) -> Fires<'_> {
    ("ReentryAcquisitionsFail", "warning", summary)
}

/// One caller in `of` waits in vain, because another one keeps the lock.
async fn contended(of: usize) -> Result<Scrapes, LockError> {
    let mut scrapes = Scrapes::of_this_test();
    let server = Server::new();
    let (holder, locks) = (server.locks(), server.locks());
    for _ in 0..12 {
        let guard = holder.lock(KEY).await?;
        let late = locks.lock(KEY).wait(SECOND).await;
        assert!(late.is_err_and(|error| error.is_busy()));
        guard.release().await?;
        for _ in 2..of {
            locks.with_lock(KEY, async {}).await?;
        }
        sleep(MINUTE).await;
        scrapes.scrape();
    }
    Ok(scrapes)
}

#[tokio::test(start_paused = true)]
async fn locks_that_are_held_for_too_long_are_an_alarm() -> Result<(), LockError> {
    let scrapes = contended(10).await?;
    scrapes.assert_fires(&[fail("orders fails to acquire 10% of its locks")]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_is_an_alarm_whatever_callers_do() -> Result<(), LockError> {
    for (away, wait) in [
        (Server::stop as fn(&Server), Some(SECOND)),
        (Server::stop, None),
        (Server::pause, Some(MINUTE)),
        (Server::pause, None),
    ] {
        let mut scrapes = Scrapes::of_this_test();
        let server = Server::new();
        let locks = server.locks();
        for minute in 0..16 {
            if minute == 6 {
                away(&server);
            }
            let acquired = match wait {
                Some(wait) => locks.lock(KEY).wait(wait).await.map(drop),
                None => locks.lock(KEY).no_wait().await.map(drop),
            };
            assert_eq!(acquired.is_err_and(|it| it.is_unavailable()), minute >= 6);
            sleep(MINUTE).await;
            scrapes.scrape();
        }
        scrapes.assert_fires_at(6, &[]);
        scrapes.assert_fires_at(8, &[STORE_FAILS]);
        let all = "orders fails to acquire 100% of its locks";
        scrapes.assert_fires(&[STORE_FAILS, fail(all)]);
    }
    Ok(())
}

/// The server responds to each of these requests, and would respond to a repetition in the same way.
#[tokio::test]
async fn mistakes_are_an_alarm_of_their_own() -> Result<(), LockError> {
    let server = RedisServer::start().await;
    server.ask("SET order:42 precious").await;
    server
        .ask("ACL SETUSER reader on >right ~* &* +@read")
        .await;
    let at = |login: &str| patient_at(server.url().replace("://", &format!("://{login}@")));
    for builder in [patient(&server), at("reader:right"), at("reader:wrong")] {
        let mut scrapes = Scrapes::of_this_test();
        let locks = builder.build_lazy()?;
        for minute in 0..16 {
            if minute >= 6 {
                let refused = locks.lock(KEY).await.unwrap_err();
                assert!(
                    refused.is_misuse() && !refused.is_unavailable(),
                    "{refused:?}"
                );
            }
            scrapes.scrape();
        }
        scrapes.assert_fires_at(6, &[]);
        scrapes.assert_fires_at(8, &[MISUSED]);
        let all = "orders fails to acquire 100% of its locks";
        scrapes.assert_fires(&[MISUSED, fail(all)]);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn callers_that_wait_for_each_other_are_an_alarm() -> Result<(), LockError> {
    let mut scrapes = Scrapes::of_this_test();
    let locks = Locks::in_memory();
    for minute in 0..8 {
        if minute == 4 {
            let error = cycle(&locks, "a", "b").await.unwrap_err();
            assert!(error.is_deadlock(), "{error:?}");
        }
        sleep(MINUTE).await;
        scrapes.scrape();
    }
    scrapes.assert_fires_at(4, &[]);
    scrapes.assert_fires_at(6, &[DEADLOCK]);
    Ok(())
}

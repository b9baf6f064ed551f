//! The alerts about connections and the messages over them.

use reentry::LockError;
use reentry::admin::LockInfo;

use super::{KEY, SECOND};
use crate::prometheus::{Fires, Scrapes};
use crate::support::{Cut, DEADLINE, RedisServer, Rig, eventually, patient};

const MESSAGES_LOST: Fires<'_> = (
    "ReentryMessagesLost",
    "warning",
    "orders learns of 100% of its locks one heartbeat late",
);

const NOT_SUBSCRIBED: Fires<'_> = (
    "ReentryNotSubscribed",
    "warning",
    "orders gets no messages about its locks, and polls instead",
);

const FLAP: Fires<'_> = (
    "ReentryConnectionsFlap",
    "warning",
    "orders repeatedly loses its connections to Redis",
);

/// Two processes that hand a lock to each other. The server may publish no messages, or all arrive.
#[tokio::test]
async fn messages_that_are_lost_are_an_alarm() -> Result<(), LockError> {
    for are_lost in [true, false] {
        let mut scrapes = Scrapes::of_this_test();
        let server = RedisServer::start().await;
        let heartbeat = if are_lost { SECOND / 20 } else { DEADLINE / 4 };
        let build = || patient(&server).__heartbeat(heartbeat).build();
        let (one, other) = (build().await?, build().await?);
        if are_lost {
            server.ask("ACL SETUSER default -publish").await;
        }
        for _ in 0..25 {
            let guard = one.lock(KEY).await?;
            let waiting = tokio::spawn(other.lock(KEY).acquire());
            let is_queued = async || {
                let info = one.admin().inspect(KEY).await;
                let waits = |info: LockInfo| info.waiting_processes == 1;
                info.is_ok_and(|info| info.is_some_and(waits))
                    && !server.subscriptions().await.is_empty()
            };
            eventually(DEADLINE, "a process that waits", is_queued).await;
            guard.release().await?;
            waiting.await.expect("no panic")?.release().await?;
            scrapes.scrape();
        }
        scrapes.assert_fires(if are_lost { &[MESSAGES_LOST] } else { &[] });
    }
    Ok(())
}

/// No process may subscribe, or the first one may do so after its first attempt. Another one begins in each minute, which
/// is sooner than the next attempt of the first one.
#[tokio::test]
async fn a_process_that_gets_no_messages_is_an_alarm() -> Result<(), LockError> {
    for is_allowed_soon in [false, true] {
        let mut scrapes = Scrapes::of_this_test();
        let server = RedisServer::start().await;
        server.ask("ACL SETUSER default -subscribe").await;
        let mut processes = Vec::new();
        for attempts in 1..=7 {
            if !is_allowed_soon || attempts == 1 {
                let locks = patient(&server).build().await?;
                processes.push(locks.lock(attempts.to_string()).await?);
                let total = || scrapes.total("reentry_subscribe_failures_total");
                let failed = async || total() >= f64::from(attempts);
                eventually(DEADLINE, "a subscription that is rejected", failed).await;
            }
            if is_allowed_soon {
                server.ask("ACL SETUSER default +subscribe").await;
            }
            scrapes.scrape();
        }
        scrapes.scrape();
        let expected: &[Fires<'_>] = if is_allowed_soon {
            &[]
        } else {
            &[NOT_SUBSCRIBED]
        };
        scrapes.assert_fires(expected);
    }
    Ok(())
}

/// The connection is cut twice in each minute, or only in one of them.
#[tokio::test]
async fn connections_that_end_again_and_again_are_an_alarm() -> Result<(), LockError> {
    for every in [1, 20] {
        let mut scrapes = Scrapes::of_this_test();
        let rig = Rig::start().await;
        for minute in 0..14 {
            rig.locks.with_lock(KEY, async {}).await?;
            for _ in 0..if minute % every == 0 { 2 } else { 0 } {
                rig.locks.with_lock(KEY, async {}).await?;
                let before = scrapes.total("reentry_disconnects_total");
                rig.proxy.cut_all(Cut::Reset).await;
                let ended = async || scrapes.total("reentry_disconnects_total") > before;
                eventually(DEADLINE, "the end of the connection", ended).await;
            }
            scrapes.scrape();
        }
        scrapes.assert_fires(if every == 1 { &[FLAP] } else { &[] });
    }
    Ok(())
}

//! The reports that are not returned: `tracing` events with stable names and fields.

use std::time::Duration;

use crate::support::{DEADLINE, RedisServer, cycle, eventually, patient};
use crate::trace::Trace;
use futures_util::future::try_join_all;
use reentry::__admin::Ids as _;
use reentry::testing::Server;
use reentry::{Held, LockError, Locks, OnLost};

const KEY: &str = "order:42";

#[tokio::test(start_paused = true)]
async fn a_hold_has_events_from_its_acquisition_to_its_release() {
    let (events, _guard) = Trace::of_this_test();
    let locks = Locks::builder("memory:").prefix("app:").build();
    let locks = locks.await.unwrap();
    let body = async {
        // At any depth, it is renewed once every third of its TTL.
        let nested = (0..100).map(|_| locks.lock(KEY).acquire());
        let nested = try_join_all(nested).await.unwrap();
        tokio::time::sleep(Duration::from_secs(25)).await;
        drop(nested);
        let held = reentry::held(KEY).unwrap();
        (held.hold_id().to_string(), held.fencing_token().to_string())
    };
    let (hold, token) = locks.with_lock(KEY, body).await.unwrap();
    for (name, times) in [("acquired", 1), ("renewed", 2), ("released", 1)] {
        let events = events.named(name);
        assert_eq!(events.len(), times, "{name}");
        for event in events {
            assert_eq!((&*event["key"], &*event["hold"]), ("app:order:42", &*hold));
        }
    }
    assert_eq!(events.named("acquired")[0]["token"], token);
    assert!(events.named("lost").is_empty());
}

#[tokio::test(start_paused = true)]
async fn every_loss_is_reported_once_wherever_it_is_found() {
    let (events, _guard) = Trace::of_this_test();
    let locks = Locks::in_memory();
    let second = Duration::from_secs(1);

    // A nested entry finds it.
    let body = async {
        locks.admin().force_release(KEY).await.unwrap();
        let nested = locks.with_lock(KEY, async {}).await;
        assert!(nested.is_err_and(|error| error.is_lost()));
    };
    let outer = locks.with_lock(KEY, body).await;
    assert!(outer.is_err_and(|error| error.is_lost()));
    assert_eq!(events.named("lost").len(), 1);

    // The background release of a dropped guard finds it.
    let guard = locks.lock(KEY).await.unwrap();
    locks.admin().force_release(KEY).await.unwrap();
    drop(guard);
    eventually(DEADLINE, "it is told", async || {
        events.named("lost").len() == 2
    })
    .await;

    // The body lasts beyond its max_hold.
    let request = locks.lock(KEY).ttl(second).max_hold(second);
    let body = async { tokio::time::sleep(2 * second).await };
    assert!(request.run(body).await.unwrap_err().is_lost());
    assert_eq!(events.named("lost").len(), 3);
    assert_eq!(
        events.named("lost")[2]["reason"],
        "it was held for its `max_hold`"
    );

    // The release finds it, and the body's output is returned.
    let request = locks.lock(KEY).on_lost(OnLost::KeepRunning);
    let body = async { locks.admin().force_release(KEY).await };
    assert!(request.run(body).await.unwrap().unwrap());
    assert_eq!(events.named("lost").len(), 4);
}

/// There are 300 holds, a third of which are released, and 20 callers that wait. The server is unavailable for 40 s.
#[tokio::test(start_paused = true)]
async fn a_failure_of_many_holds_is_logged_rarely() -> Result<(), LockError> {
    let server = Server::new();
    let locks = server
        .builder()
        .ttl(Duration::from_secs(60))
        .outage(Duration::MAX)
        .build()
        .await?;
    let (events, _guard) = Trace::of_this_test();
    let guards = (0..300).map(|number| locks.lock(number.to_string()).acquire());
    let mut guards = try_join_all(guards).await?;
    server.stop();
    guards.truncate(200);
    let waiters = (0..20).map(|number| locks.lock(format!("other:{number}")).wait(Duration::MAX));
    let waiters = waiters.map(|waiter| tokio::spawn(waiter.acquire()));
    let waiters: Vec<_> = waiters.collect();
    tokio::time::sleep(Duration::from_secs(40)).await;
    for name in ["acquire_retried", "release_retried", "renewal_retried"] {
        let told = events.named(name);
        let warned: Vec<_> = told.iter().filter(|it| it["level"] == "WARN").collect();
        assert!((5..=8).contains(&warned.len()), "{name}: {}", warned.len());
        let left_out: usize = warned
            .iter()
            .map(|it| it["left_out"].parse::<usize>().unwrap())
            .sum();
        assert!(
            left_out > 100 && left_out < told.len(),
            "{name}: {left_out}"
        );
    }
    waiters.iter().for_each(tokio::task::JoinHandle::abort);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_deadlock_is_reported_once_with_its_cycle() {
    let (events, _guard) = Trace::of_this_test();
    let locks = Locks::in_memory();
    let error = cycle(&locks, "a", "b").await.unwrap_err();
    let told = events.named("deadlock");
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["error"], error.to_string());
    assert_eq!(Some(&*told[0]["key"]), error.key());
}

#[tokio::test]
async fn a_rejected_deadlock_search_is_reported_once() -> Result<(), LockError> {
    let server = RedisServer::start().await;
    let builder = patient(&server).__heartbeat(Duration::from_millis(40));
    let locks = builder.build().await?;
    let (events, _guard) = Trace::of_this_test();
    let wanted = locks.lock("b").await?;
    server
        .ask("ACL SETUSER default resetkeys ~a ~b ~reentry:queue:* ~reentry:entries:*")
        .await;
    let waiting = locks.try_with_lock("a", locks.with_lock("b", async {}));
    let release = async {
        let asked = async || {
            let calls = server.commandstats().await;
            calls.get("hmget").is_some_and(|calls| *calls >= 20)
        };
        eventually(DEADLINE, "ten heartbeats", asked).await;
        wanted.release().await
    };
    let (waited, released) = tokio::join!(waiting, release);
    waited.and(released)?;
    let told = events.named("deadlock_search_failed");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["key"], "b");
    Ok(())
}

/// Callers wait for a lock that another hold has, for as long as it takes them to report it.
#[tokio::test(start_paused = true)]
async fn a_long_wait_is_an_event_with_the_holder() {
    let (events, _guard) = Trace::of_this_test();
    let locks = Locks::in_memory();
    let guard = locks.lock(KEY).await.unwrap();
    let late = locks.lock(KEY).wait(Duration::from_secs(21)).await;
    let told = events.named("waiting");
    let waited: Vec<_> = told.iter().map(|event| &*event["waited"]).collect();
    assert_eq!(waited, ["5s", "10s", "20s"]);
    let held = guard.held();
    for event in &told {
        assert_eq!(event["held_by"], held.hold_id().to_string());
        assert_eq!(event["owner"], held.owner().to_string());
        assert_eq!(event["is_here"], "true");
        assert_eq!(event["held"], event["waited"]);
    }
    let timed_out = &events.named("timed_out")[0];
    assert_eq!(timed_out["held_by"], held.hold_id().to_string());
    assert_eq!(timed_out["waited"], "21s");
    let error = late.unwrap_err().to_string();
    let expected = format!("`{KEY}` is held by {}", held.hold_id());
    assert!(error.starts_with(&expected), "{error}");
    assert!(error.ends_with(": gave up after 21.0s"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_an_event_of_its_own() {
    let (events, _guard) = Trace::of_this_test();
    let server = Server::new();
    let locks = server.locks();
    server.stop();
    let wait = Duration::from_secs(2);
    for request in [locks.lock(KEY).wait(wait), locks.lock(KEY).no_wait()] {
        assert!(request.await.is_err_and(|error| error.is_unavailable()));
    }
    let told = events.named("unavailable");
    let waited: Vec<_> = told.iter().map(|event| &*event["waited"]).collect();
    assert_eq!(waited, ["2s", "0ns"]);
    for event in &told {
        assert_eq!(event["key"], KEY);
        assert!(event["error"].contains("connection refused"), "{event:?}");
    }
    assert!(events.named("timed_out").is_empty());
}

#[tokio::test]
async fn a_mistake_is_an_event_of_its_own() {
    let (events, _guard) = Trace::of_this_test();
    let server = RedisServer::start().await;
    server.ask("SET order:42 precious").await;
    let locks = patient(&server).build().await.unwrap();
    assert!(locks.lock(KEY).await.is_err_and(|error| error.is_misuse()));
    let told = &events.named("misused")[0];
    assert_eq!(told["key"], KEY);
    for said in ["something other than a lock", "WRONGTYPE"] {
        assert!(told["error"].contains(said), "{told:?}");
    }
    for other in ["timed_out", "unavailable", "acquire_retried"] {
        assert!(events.named(other).is_empty(), "{other}");
    }
}

/// This is as [`Held::remaining`] says: less 1 % for clocks that differ.
#[tokio::test(start_paused = true)]
async fn a_renewal_tells_how_long_the_lease_lasts_from_then_on() {
    let (events, _guard) = Trace::of_this_test();
    let locks = Locks::in_memory();
    let second = Duration::from_secs(1);
    let request = |key: &str, seconds| locks.lock(key).ttl(seconds * second);
    let alone = request("alone", 30).await.unwrap();
    // Its renewal does not exceed the time for which it may be held.
    let ending = request("ending", 30).max_hold(35 * second).await.unwrap();
    // A reader with a lease of its own.
    let _long = request("shared", 30).read().await.unwrap();
    let short = request("shared", 20).read().await.unwrap();
    let several = locks.lock_all(["one", "other"]).ttl(30 * second);
    let several = several.await.unwrap();
    tokio::time::sleep(Duration::from_millis(10_100)).await;
    let told = |held: &Held| {
        let id = held.hold_id().to_string();
        let mut renewals = events.named("renewed");
        renewals.retain(|event| event["hold"] == id && event["key"] == held.key());
        renewals[0]["remaining"].clone()
    };
    assert_eq!(told(alone.held()), "29.7s");
    assert_eq!(told(ending.held()), "25s");
    assert_eq!(told(short.held()), "19.8s");
    for held in several.all() {
        assert_eq!(told(held), "29.7s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_close_that_waits_reports_the_reason() {
    let (events, _guard) = Trace::of_this_test();
    let locks = Locks::builder("memory:").prefix("app:").build();
    let locks = locks.await.unwrap();
    let first = locks.lock(KEY).await.unwrap();
    let second = locks.lock("another").await.unwrap();
    let closing = tokio::spawn(async move { locks.close(Duration::MAX).await });
    let seconds = Duration::from_secs;
    tokio::time::sleep(seconds(12)).await;
    second.release().await.unwrap();
    tokio::time::sleep(seconds(68)).await;
    let told = events.named("closing");
    let waited: Vec<_> = told.iter().map(|event| &*event["waited"]).collect();
    assert_eq!(waited, ["5s", "10s", "20s", "40s"]);
    let keys: Vec<_> = told.iter().map(|event| &*event["keys"]).collect();
    let both = format!("another, {KEY}");
    assert_eq!(keys, [&*both, &both, KEY, KEY]);
    assert_eq!((&*told[3]["held"], &*told[3]["in_flight"]), ("1", "0"));
    first.release().await.unwrap();
    assert!(closing.await.unwrap().is_clean());
}

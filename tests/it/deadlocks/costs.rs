//! What the search costs a server, counted by it: nothing for waits that hold nothing.

use std::time::Duration;

use crate::support::stats::Calls;
use crate::support::turns::processes;
use crate::support::{DEADLINE, RedisServer, eventually, patient, within};
use reentry::Locks;
use tokio::task::JoinSet;

const HEARTBEAT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(600);

/// The walks of the search look into hashes, and the scripts of a lock do not.
const LOOKS: &str = "hgetall";

/// What every request for a lock that is held calls once, and no script of the search.
const ASKS: &str = "hmget";

/// How often the search takes a record back. No lock here was ever nested, so no script of one removes a field.
const TAKES_BACK: &str = "hdel";

/// A lock that waits inside of another one.
async fn nest(locks: &Locks, outer: String) {
    let inner = locks.lock("wanted").wait(LONG);
    let nested = locks.lock(outer).run_flat(inner.run(async {}));
    nested.await.unwrap();
}

#[tokio::test]
async fn waits_that_hold_nothing_cost_no_command_of_the_search() {
    let server = RedisServer::start().await;
    let [one, other] = processes(&patient(&server).heartbeat(HEARTBEAT)).await;
    let holder = one.lock("wanted").await.unwrap();
    let before = server.commandstats().await;
    let mut waiting = JoinSet::new();
    for _ in 0..50 {
        let locks = other.clone();
        waiting.spawn(async move {
            let request = locks.lock("wanted").wait(LONG);
            request.run(async {}).await.unwrap();
        });
    }
    // The first waiter asks once in every heartbeat.
    let asked = async || {
        let calls = server.calls_since(&before).await;
        calls.get(ASKS).copied().unwrap_or(0) >= 10
    };
    eventually(DEADLINE, "ten heartbeats", asked).await;
    let calls = server.calls_since(&before).await;
    assert_eq!(calls.get(LOOKS), None, "{calls:?}");
    assert_eq!(calls["evalsha"], calls[ASKS], "{calls:?}");
    holder.release().await.unwrap();
    let all = async { while waiting.join_next().await.transpose().unwrap().is_some() {} };
    within(DEADLINE, "all get in", all).await;
}

/// Four records in a heartbeat, and a walk of two looks at 1/4, 2, 4, 8 … heartbeats.
#[tokio::test]
async fn a_wait_inside_of_a_lock_costs_its_records_and_few_looks() {
    let server = RedisServer::start().await;
    let [one, other] = processes(&patient(&server).heartbeat(HEARTBEAT)).await;
    let holder = one.lock("wanted").await.unwrap();
    let before = server.commandstats().await;
    let waiting = tokio::spawn(async move { nest(&other, "outer".to_owned()).await });
    // Each request for the lock writes its place, and each record is written; so was the outer lock.
    let records = |calls: &Calls| {
        let count = |name: &str| calls.get(name).copied().unwrap_or(0);
        count("hset").saturating_sub(count(ASKS) + 1)
    };
    let published = async || records(&server.calls_since(&before).await) >= 40;
    eventually(DEADLINE, "the records", published).await;
    let calls = server.calls_since(&before).await;
    let (looks, records) = (calls[LOOKS], records(&calls));
    // Ten heartbeats, or more of them where the machine is busy.
    assert!(looks >= 8 && looks % 2 == 0, "{calls:?}");
    // The first record is refused once. Then there are the requests for both locks.
    let searches = 1 + records + looks;
    assert_eq!(calls["evalsha"], searches + 1 + calls[ASKS], "{calls:?}");
    assert_eq!(calls.get(TAKES_BACK), None);
    holder.release().await.unwrap();
    within(DEADLINE, "its turn", waiting).await.unwrap();
    let taken_back = async || {
        let calls = server.calls_since(&before).await;
        calls.get(TAKES_BACK).copied().unwrap_or(0) >= 1
    };
    eventually(DEADLINE, "its record is taken back", taken_back).await;
    let is_clean = async || server.ask("DBSIZE").await == "0";
    eventually(DEADLINE, "no key is left", is_clean).await;
}

//! Call graphs that wait for each other in a cycle. One of them gives way, and the others get their locks.

use std::time::Duration;

use super::ground::{LONG, SECOND, is_ring, nest, nest_in, one_and_two_processes, victim};
use crate::support::turns::processes;
use crate::support::{DEADLINE, RedisServer, eventually, patient, until_waiting, within};
use futures_util::future::join_all;
use reentry::__admin::{Ids as _, current_owner};
use reentry::testing::Server;
use reentry::{LockError, Locks};
use tokio::join;
use tokio::sync::Barrier;

/// Each takes its own key, and then, inside that, the key of the next one.
async fn cycle(members: &[Locks]) -> LockError {
    let key = |at: usize| format!("key:{}", at % members.len());
    let all = Barrier::new(members.len());
    let nests = members.iter().enumerate();
    let nests = nests.map(|(at, locks)| nest(locks.lock(key(at)), locks.lock(key(at + 1)), &all));
    let error = victim(join_all(nests).await);
    assert!(is_ring(&error, members.len()), "{error}");
    error
}

/// The heartbeats are those of the processes.
#[tokio::test]
async fn a_deadlock_of_processes_ends_with_one_victim() {
    let server = RedisServer::start().await;
    let builder = |heartbeat| patient(&server).__heartbeat(Duration::from_millis(heartbeat));
    let [one, other] = processes(&builder(200)).await;
    let [fast] = processes(&builder(100)).await;
    let [slow] = processes(&builder(800)).await;
    let all = [one, other, fast, slow];
    for members in [2, 3, 4, 12] {
        let members: Vec<_> = all.iter().cycle().take(members).cloned().collect();
        within(DEADLINE, "one gives way", cycle(&members)).await;
    }
    // Only the names of the victims are left, for four heartbeats.
    let is_clean = async || server.key_count().await == 0;
    eventually(DEADLINE, "no key is left", is_clean).await;
}

#[tokio::test(start_paused = true)]
async fn the_error_says_who_holds_what_and_waits_for_what() {
    let builder = Locks::builder("memory:").prefix("app:");
    let locks = builder.build().await.unwrap();
    let error = cycle(&[locks.clone(), locks]).await;
    assert!(error.is_deadlock() && !error.is_busy() && !error.is_lost());
    let LockError::Deadlock { key, cycle, .. } = &error else {
        panic!("{error:?}");
    };
    let other = if key == "key:0" { "key:1" } else { "key:0" };
    assert_ne!(cycle[0].owner, cycle[1].owner);
    let [one, next] = [&cycle[0], &cycle[1]].map(|blocked| {
        let process = blocked.process.as_ref().unwrap();
        format!("{process} ({})", blocked.owner)
    });
    let expected = format!(
        "gave up waiting for `{key}` because of a deadlock: {one} holds `{other}` and waits for `{key}`; \
         {next} holds `{key}` and waits for `{other}`"
    );
    assert_eq!(error.to_string(), expected);
}

/// The caller that would read waits behind a writer. The writer waits for the first reader, which waits for what the
/// caller holds. The writer holds nothing, and is not in a cycle.
#[tokio::test(start_paused = true)]
async fn a_reader_behind_a_writer_waits_for_those_that_the_writer_waits_for() {
    let server = Server::new();
    let [first, writer, behind] = [server.locks(), server.locks(), server.locks()];
    let reader = first.lock("shared").read().await.unwrap();
    let waiting = tokio::spawn(writer.lock("shared").wait(LONG).run(async {}));
    until_waiting(&writer, "shared", 1).await;
    let both = Barrier::new(2);
    let one = nest_in(reader, first.lock("held"), &both);
    let other = nest(behind.lock("held"), behind.lock("shared").read(), &both);
    let (one, other) = join!(one, other);
    assert!(victim([one, other]).is_deadlock());
    waiting.await.unwrap().unwrap();
}

/// Another caller of the same process, which holds nothing, is ahead of a member of the cycle.
#[tokio::test(start_paused = true)]
async fn a_waiter_behind_a_local_waiter_can_deadlock() {
    for [here, there] in one_and_two_processes() {
        let (both, waits) = (Barrier::new(2), Barrier::new(2));
        let behind = async {
            let body = async {
                both.wait().await;
                waits.wait().await;
                here.lock("b").wait(LONG).run(async {}).await
            };
            here.lock("a").try_run(body).await
        };
        let holder = async {
            let body = async {
                both.wait().await;
                let first = tokio::spawn(here.lock("b").wait(LONG).run(async {}));
                until_waiting(&here, "b", 1).await;
                let inner = there.lock("a").wait(LONG).run(async {});
                (join!(inner, waits.wait()).0, first)
            };
            let (result, first) = there.lock("b").run(body).await.unwrap();
            first.await.unwrap().unwrap();
            result
        };
        let (one, other) = join!(behind, holder);
        let error = victim([one, other]);
        assert!(is_ring(&error, 2), "{error}");
    }
}

/// The field of a later call graph of a cohort is that of the first one.
#[tokio::test(start_paused = true)]
async fn a_deadlock_through_an_in_memory_hand_off_is_found() {
    let server = Server::new();
    let other = server.locks();
    let cohort = server.builder();
    let cohort = cohort.build().await.unwrap();
    let first = cohort.lock("a").await.unwrap();
    let field = first.held().hold_id();
    let later = tokio::spawn(cohort.lock("a").acquire());
    // This is long enough for a token of its own.
    tokio::time::sleep(SECOND / 100).await;
    first.release().await.unwrap();
    let later = later.await.unwrap().unwrap();
    assert_eq!(later.held().hold_id(), field);
    let owner = later.scope(async { current_owner() }).await;
    assert_ne!(owner.unwrap(), Some(field.owner()));
    let both = Barrier::new(2);
    let one = nest_in(later, cohort.lock("b"), &both);
    let (one, other) = join!(one, nest(other.lock("b"), other.lock("a"), &both));
    let error = victim([one, other]);
    assert!(is_ring(&error, 2), "{error}");
}

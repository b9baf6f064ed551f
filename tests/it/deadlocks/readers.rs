//! Rings through locks that are shared.

use std::time::Duration;

use crate::support::turns::processes;
use crate::support::{DEADLINE, RedisServer, eventually, patient, within};
use futures_util::future::join_all;
use reentry::{LockError, Locks};
use tokio::sync::Barrier;

const HEARTBEAT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(600);

/// How many had to give way.
fn victims(results: &[Result<(), LockError>]) -> usize {
    let errors = results.iter().filter_map(|result| result.as_ref().err());
    errors.filter(|error| error.is_deadlock()).count()
}

/// Several read "shared", and one of them wants what the writer holds.
async fn a_writer_waits_for_a_reader_that_waits_for_it(readers: &Locks, writer: &Locks) {
    let all = Barrier::new(3);
    let other = async {
        let body = async {
            all.wait().await;
            Ok(())
        };
        readers.lock("shared").shared().run_flat(body).await
    };
    let reader = async {
        let body = async {
            all.wait().await;
            readers.lock("held").wait(LONG).run(async {}).await
        };
        readers.lock("shared").shared().run_flat(body).await
    };
    let writes = async {
        let body = async {
            all.wait().await;
            writer.lock("shared").wait(LONG).run(async {}).await
        };
        writer.lock("held").run_flat(body).await
    };
    let (other, reader, writes) = tokio::join!(other, reader, writes);
    assert_eq!(victims(&[other, reader, writes]), 1);
}

#[tokio::test]
async fn a_ring_through_a_reader_is_found() {
    let locks = Locks::in_memory();
    let ring = a_writer_waits_for_a_reader_that_waits_for_it(&locks, &locks);
    within(DEADLINE, "in memory", ring).await;
    let server = RedisServer::start().await;
    let [one, other] = processes(&patient(&server).heartbeat(HEARTBEAT)).await;
    let ring = a_writer_waits_for_a_reader_that_waits_for_it(&one, &other);
    within(DEADLINE, "a ring", ring).await;
}

/// The one that would read waits behind a writer, who waits for the first reader, who waits for what the one that
/// would read holds. The writer holds nothing, and is in no ring.
#[tokio::test]
async fn a_reader_behind_a_writer_waits_for_those_that_the_writer_waits_for() {
    let server = RedisServer::start().await;
    let builder = patient(&server).heartbeat(HEARTBEAT);
    let [first, writer, behind] = processes(&builder).await;
    let reader = first.lock("shared").shared().await.unwrap();
    let waiting = tokio::spawn(writer.lock("shared").wait(LONG).run(async {}));
    let stands = async || {
        let info = first.inspect("shared").await.unwrap();
        info.is_some_and(|info| info.waiting_processes == 1)
    };
    eventually(DEADLINE, "the writer waits", stands).await;
    let both = Barrier::new(2);
    let one = async {
        let body = async {
            both.wait().await;
            first.lock("held").wait(LONG).run(async {}).await
        };
        let result = reader.scope(body).await.unwrap();
        reader.release().await.unwrap();
        result
    };
    let other = async {
        let body = async {
            both.wait().await;
            let shared = behind.lock("shared").shared().wait(LONG);
            shared.run(async {}).await
        };
        behind.lock("held").run_flat(body).await
    };
    let ring = async { tokio::join!(one, other) };
    let (one, other) = within(DEADLINE, "one gives way", ring).await;
    assert_eq!(victims(&[one, other]), 1);
    let written = within(DEADLINE, "the writer's turn", waiting).await;
    written.unwrap().unwrap();
}

/// Takes the outer lock to read, and once all have theirs the inner one.
async fn reads(locks: &Locks, outer: &str, inner: &str, all: &Barrier) -> Result<(), LockError> {
    let body = async {
        all.wait().await;
        locks.lock(inner).wait(LONG).run(async {}).await
    };
    locks.lock(outer).shared().run_flat(body).await
}

/// A claim for one of the rings says nothing of the others.
#[tokio::test]
async fn rings_that_share_a_wait_end_one_after_the_other() {
    const READERS: usize = 4;
    let server = RedisServer::start().await;
    let [readers, writer] = processes(&patient(&server).heartbeat(HEARTBEAT)).await;
    let all = Barrier::new(READERS + 1);
    let reading = join_all((0..READERS).map(|_| reads(&readers, "shared", "held", &all)));
    let writes = async {
        let body = async {
            all.wait().await;
            writer.lock("shared").wait(LONG).run(async {}).await
        };
        writer.lock("held").run_flat(body).await
    };
    let rings = async { tokio::join!(reading, writes) };
    let (mut results, written) = within(DEADLINE, "all rings end", rings).await;
    results.push(written);
    assert!((1..=READERS).contains(&victims(&results)), "{results:?}");
}

/// A walk goes on where it has paused, and does not look at the same readers again.
#[tokio::test]
async fn a_ring_through_locks_with_many_readers_is_found() {
    let server = RedisServer::start().await;
    let [locks, others] = processes(&patient(&server).heartbeat(HEARTBEAT)).await;
    let keys = ["one", "other"].repeat(150);
    let inside = join_all(keys.iter().map(|key| others.lock(*key).shared().acquire()));
    let inside: Vec<_> = inside.await.into_iter().map(Result::unwrap).collect();
    let both = Barrier::new(2);
    let ring = async {
        tokio::select! {
            result = reads(&locks, "one", "other", &both) => result,
            result = reads(&locks, "other", "one", &both) => result,
        }
    };
    let first = within(DEADLINE, "one gives way", ring).await;
    assert_eq!(victims(&[first]), 1);
    drop(inside);
}

//! Any data in the keys of a lock. Every operation returns a reply, and after a forced release the lock works.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;
use tokio::runtime::Builder;

use super::{ENTRIES, LOCK, QUEUE, put, sound};
use crate::base::error::FailureClass;
use crate::base::id::InboxId;
use crate::store::contract::requests::{BESIDE, Cast};
use crate::store::contract::world::{MINUTE, World, entry_of, some_hold};
use crate::store::{AcquireReply, ForceRelease, Snapshot};

const CASES: u32 = 300;

/// The longest lease of a process in the data that may end during a case.
const OF_DATA: Duration = Duration::from_secs(1);

/// The inbox of the process that sends the request, so that the data may contain it.
const OWN: &str = "OWN";

/// One command that writes into a key.
type Write = (&'static str, Vec<Vec<u8>>);

fn word() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => "(OWN|HOLD|xodd|rodd|rHOLD|token|odd|)".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..6),
    ]
}

fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        "(0|1|-1|1\\.5|x|1000|60000|9007199254740991)",
        "(9000000000000000|9223372036854775808|99999999999999999999)",
    ]
}

/// Data that is almost what the scripts write.
fn sentence() -> impl Strategy<Value = Vec<u8>> {
    let ends = "( r| r1| r9|)";
    let entry = (number(), number(), ends);
    let entry = entry.prop_map(|(one, two, end)| format!("{one} HOLD {two}{end}"));
    let token = (number(), number()).prop_map(|(one, two)| format!("{one} {two}"));
    prop_oneof![
        entry.prop_map(String::into_bytes),
        token.prop_map(String::into_bytes),
        number().prop_map(String::into_bytes),
        word(),
    ]
}

fn string(key: &'static str) -> impl Strategy<Value = Write> {
    sentence().prop_map(move |value| ("SET", vec![key.into(), value]))
}

fn hash(key: &'static str) -> impl Strategy<Value = Write> {
    let pairs = prop::collection::vec((word(), sentence()), 1..4);
    pairs.prop_map(move |pairs| {
        let words = pairs.into_iter().flat_map(|(field, value)| [field, value]);
        ("HSET", [key.into()].into_iter().chain(words).collect())
    })
}

fn zset(key: &'static str) -> impl Strategy<Value = Write> {
    let score =
        "(0|-1\\.5|-60000|-1e17|1e300|inf|-inf|1099511627777|450359962737049[56]|9007199254740993)";
    let pairs = prop::collection::vec((score, word()), 1..4);
    pairs.prop_map(move |pairs| {
        let words = pairs
            .into_iter()
            .flat_map(|(score, member)| [score.into_bytes(), member]);
        ("ZADD", [key.into()].into_iter().chain(words).collect())
    })
}

fn list(key: &'static str) -> impl Strategy<Value = Write> {
    word().prop_map(move |value| ("RPUSH", vec![key.into(), value]))
}

/// Something in each of the keys, or nothing.
fn any_data() -> impl Strategy<Value = Vec<Write>> {
    let lock = prop_oneof![8 => hash(LOCK), 1 => string(LOCK), 1 => list(LOCK)];
    let queue = prop_oneof![6 => zset(QUEUE), 1 => string(QUEUE), 1 => list(QUEUE)];
    let entries = prop_oneof![6 => hash(ENTRIES), 1 => string(ENTRIES), 1 => zset(ENTRIES)];
    let maybe = prop::option::weighted::<BoxedStrategy<Write>>;
    let all = (
        maybe(0.6, lock.boxed()),
        maybe(0.8, queue.boxed()),
        maybe(0.8, entries.boxed()),
    );
    all.prop_map(|(lock, queue, entries)| [lock, queue, entries].into_iter().flatten().collect())
}

#[test]
fn after_any_data_a_forced_release_makes_the_lock_sound() {
    let mut config = ProptestConfig::default();
    config.cases = config.cases.max(CASES);
    config.failure_persistence = None;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let world = runtime.block_on(World::on_redis());
    let steps = prop::collection::vec(any::<Index>(), 1..9);
    let outcome = TestRunner::new(config).run(&(any_data(), steps), |(data, steps)| {
        runtime.block_on(case(&world, data, &steps))
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

async fn case(world: &World, data: Vec<Write>, steps: &[Index]) -> Result<(), TestCaseError> {
    world.server().flush().await;
    let (hold, inbox) = (some_hold(), InboxId::new());
    let names = [(OWN, inbox.to_string()), ("HOLD", hold.to_string())];
    for (command, words) in data {
        let words = words.into_iter().map(|word| match String::from_utf8(word) {
            Ok(text) => names
                .iter()
                .fold(text, |text, (name, value)| text.replace(name, value))
                .into_bytes(),
            Err(bytes) => bytes.into_bytes(),
        });
        let words: Vec<_> = words.collect();
        let _: redis::Value = put(world, command, &words).await;
    }
    let kind: String = put(world, "TYPE", &[LOCK]).await;
    let is_foreign = !["hash", "none"].contains(&&*kind);
    let cast = Cast::of(hold, entry_of(inbox));
    for step in steps {
        let mut requests = cast.requests(world);
        requests.retain(|request| !BESIDE.contains(&request.name));
        let request = requests.swap_remove(step.index(requests.len()));
        let (name, outcome) = (request.name, request.answer.await);
        match outcome {
            Ok(()) => prop_assert!(!is_foreign, "{kind}: {name}"),
            Err(error) => {
                // A hash that is not a lock is not released by force.
                let refuses = is_foreign || name == "force";
                let refused = refuses && error.failure_class() == FailureClass::Permanent;
                prop_assert!(refused, "{kind}: {name}: {error:?}");
                let after = put::<String>(world, "TYPE", &[LOCK]).await;
                prop_assert!(!is_foreign || after == kind);
            }
        }
    }
    if is_foreign {
        let _: i64 = put(world, "DEL", &[LOCK]).await;
    }
    // The processes that seem to wait have the lock in turn, and then the one that sends the request.
    for _ in 0..10 {
        let asked = world.acquire(some_hold(), MINUTE).await;
        // The lease of a process in the data may end at any time.
        let may_end = match asked {
            AcquireReply::Busy { remaining, .. } => remaining.is_some_and(|it| it <= OF_DATA),
            _ => false,
        };
        let Some(seen) = world.inspect().await.map(Snapshot::seen) else {
            prop_assert!(may_end, "{asked:?}, but the lock is free");
            continue;
        };
        let key = world.key.clone();
        match world.store.ask(ForceRelease { key, seen }).await {
            Ok(ended) => prop_assert!(may_end || !ended.is_empty()),
            // The data that was there from the beginning is not a lock.
            Err(error) => {
                prop_assert_eq!(error.failure_class(), FailureClass::Permanent);
                prop_assert_eq!(put::<i64>(world, "DEL", &[LOCK]).await, 1);
            }
        }
    }
    sound(world).await;
    let lock: i64 = put(world, "EXISTS", &[LOCK]).await;
    prop_assert_eq!(lock, 0);
    Ok(())
}

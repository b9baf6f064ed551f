//! On Redis: no script reads a whole key, because any hash may be at the name of a lock, and nobody else is served
//! while a script runs.

use std::sync::Arc;

use redis::{AsyncCommands, Script};

use super::requests::Cast;
use super::server::Server;
use super::world::{MINUTE, World, some_hold};
use crate::base::error::FailureClass;
use crate::store::redis::codec::{MAX_FIELDS_READ, waits_key};
use crate::store::verbs::inspect::MAX_HOLDERS_SHOWN;
use crate::store::{Inspect, ListHolds, ListWaits};

const BIG: u64 = 100_000;

/// Twice the limit: the server returns whole buckets of its table.
const BOUND: usize = 2 * 1_024;

const ENTRIES: &str = "reentry:entries:{app:order}:app:order";

/// The names of the fields, of which each is followed by a number.
const NAMES: [&str; 2] = ["field ", "4f0e1d2c-0000-4000-8000-000000000000:"];

async fn fill(world: &World, key: &str, name: &str, value: &str) {
    const FILL: &str = "
for n = 1, ARGV[1] do
  redis.call('HSET', KEYS[1], ARGV[2] .. n, ARGV[3])
end
redis.call('PEXPIRE', KEYS[1], 600000)";
    let script = Script::new(FILL);
    let mut filling = script.key(key);
    filling.arg(BIG).arg(name).arg(value);
    let mut connection = world.server().connection.clone();
    let () = filling.invoke_async(&mut connection).await.expect("HSET");
}

/// The calls of commands that read a whole hash, and of all commands, while every request is sent once. Nobody waits
/// for the lock, so the lock is the only hash.
async fn calls(world: &World, cast: &Cast) -> (u64, u64) {
    let process = world.server().process();
    let mut connection = world.server().connection.clone();
    let before = process.commandstats().await;
    for request in cast.requests(world) {
        let () = connection
            .del(&[world.key.queue(), ENTRIES])
            .await
            .expect("DEL");
        // A request about a hash that is no lock may be rejected.
        let _ = request.answer.await;
    }
    let calls = process.calls_since(&before).await;
    let whole = ["hgetall", "hkeys", "hvals"].map(|name| calls.get(name).copied());
    (whole.into_iter().flatten().sum(), calls.values().sum())
}

async fn world() -> World {
    World::on(Server::start().await.without_batches()).await
}

#[tokio::test]
async fn a_big_hash_at_the_lock_is_not_read_as_a_whole() {
    for name in NAMES {
        let world = world().await;
        let cast = Cast::form(&world, "free").await;
        fill(&world, world.key.as_str(), name, "1").await;
        let snapshot = world.inspect().await.expect("a held lock");
        assert!((1..=MAX_HOLDERS_SHOWN).contains(&snapshot.holders.len()));
        let key = Arc::from(world.key.as_str());
        let holds = world.send(ListHolds { key }).await;
        assert_eq!(holds.is_empty(), name == NAMES[0]);
        assert!(holds.len() <= BOUND, "{}", holds.len());
        let (whole, all) = calls(&world, &cast).await;
        assert_eq!(whole, 0, "{name}");
        assert!(all < 1_000, "{all}");

        // The permission is needed.
        let process = world.server().process();
        process.ask("ACL SETUSER default -hscan").await;
        let looked = world.store.ask(Inspect::of(&world.key)).await;
        assert_eq!(
            looked.err().map(|error| error.failure_class()),
            Some(FailureClass::PermissionMissing)
        );
    }
}

#[tokio::test]
async fn big_hashes_beside_the_lock_are_not_read_as_a_whole() {
    let world = world().await;
    world.take(some_hold(), MINUTE).await;
    let hold = some_hold();
    let entry = format!("9007199254740991 {hold} 1000");
    fill(&world, ENTRIES, NAMES[0], &entry).await;
    let waiting = world.inspect().await.expect("a held lock").waiting;
    assert!((1..=BOUND as u64).contains(&waiting), "{waiting}");
    let record = format!("1 9007199254740991 1 {hold} 1\nab");
    let waits = waits_key(hold.owner());
    fill(&world, &waits, NAMES[1], &record).await;
    let before = world.server().process().commandstats().await;
    let seen = world.send(ListWaits { hold }).await.waits.len();
    assert!((1..=BOUND).contains(&seen), "{seen}");
    let calls = world.server().process().calls_since(&before).await;
    assert!(!calls.contains_key("hgetall"), "{calls:?}");
}

/// Their process has died. Each request removes some of them.
#[tokio::test]
async fn very_many_dead_readers_are_removed_by_several_requests() {
    const READERS: u64 = 3 * MAX_FIELDS_READ;
    const DIE: &str = "
for n = 1, ARGV[1] do
  redis.call('HSET', KEYS[1], ARGV[2] .. n, 1)
  redis.call('ZADD', KEYS[2], -1000, 'r' .. ARGV[2] .. n)
end";
    let world = world().await;
    let alive = some_hold();
    world.read(&[alive], MINUTE).await;
    let script = Script::new(DIE);
    let mut dying = script.key(world.key.as_str());
    dying.key(world.key.queue()).arg(READERS).arg(NAMES[1]);
    let mut connection = world.server().connection.clone();
    let () = dying.invoke_async(&mut connection).await.expect("readers");
    for left in [2, 1, 0, 0] {
        let before = world.server().process().commandstats().await;
        world.keep(&[alive], MINUTE).await;
        let calls = world.server().process().calls_since(&before).await;
        let all: u64 = calls.values().sum();
        assert!(all < 50, "{calls:?}");
        let key = Arc::from(world.key.as_str());
        let inside = world.send(ListHolds { key }).await.len() as u64;
        let is_few = inside <= 2 * MAX_FIELDS_READ;
        assert!(is_few && (left > 0 || inside == 1), "{inside}");
    }
    let snapshot = world.send(Inspect::of(&world.key)).await;
    assert_eq!(snapshot.map(|seen| seen.holders.len()), Some(1));
}

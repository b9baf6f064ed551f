//! The information for operators: which locks exist, and which processes wait for one.

use std::collections::BTreeSet;

use redis::AsyncCommands;

use super::readers::share_request;
use super::world::{MINUTE, PLACE_LIFE, World, near, some_hold, some_waiter};
use crate::base::glob;
use crate::base::key::LockKey;
use crate::base::option_types::Mode;
use crate::store::records::{Cursor, Scan, Scanned};
use crate::store::verbs::inspect::SeenHolder;
use crate::store::verbs::list::{GLANCED, Glanced, LOOKED_AT};
use crate::store::{Acquire, Glance, Queue, QueuedProcess};
use crate::support::classic::classic_lock;

on_every_store!(
    a_scan_finds_every_lock_that_matches,
    a_scan_goes_on_where_it_was,
    a_glance_shows_what_an_inspection_shows,
    of_many_readers_some_are_shown_and_all_are_counted,
    in_a_short_queue_the_living_are_counted_and_in_a_long_one_all,
    a_queue_is_shown_in_its_order,
);

impl World {
    async fn scan(&self, pattern: &str, count: usize, from: Cursor) -> Scanned {
        let scan = Scan {
            pattern: glob::after_prefix("app:", pattern).into(),
            count,
            from,
        };
        self.store.scan(scan).await.expect("scan")
    }

    /// The names that a whole scan finds, and the number of its parts.
    async fn scan_all(&self, pattern: &str, count: usize) -> (BTreeSet<String>, usize) {
        let (mut found, mut parts, mut progress) = (BTreeSet::new(), 0, 0.0);
        let mut from = Some(Cursor::default());
        while let Some(cursor) = from {
            let scanned = self.scan(pattern, count, cursor).await;
            assert!(scanned.progress >= progress, "{scanned:?}");
            progress = scanned.progress;
            found.extend(scanned.names);
            from = scanned.next;
            parts += 1;
        }
        assert!((progress - 1.0).abs() < f64::EPSILON, "{progress}");
        (found, parts)
    }

    async fn glance(&self) -> Option<Glanced> {
        let key = self.key.clone();
        self.send(Glance { key }).await
    }

    async fn queue_behind(&self, after: Option<u64>, count: usize) -> Vec<QueuedProcess> {
        let key = self.key.clone();
        self.send(Queue { key, after, count }).await.processes
    }

    async fn take_named(&self, name: &str) {
        let key = LockKey::new("app:", name).expect("a valid key");
        let request = super::world::acquire_request(some_hold(), MINUTE);
        self.send(Acquire { key, request }).await;
    }
}

fn texts(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

async fn a_scan_finds_every_lock_that_matches(world: World) {
    for name in ["order:1", "order:2", "order:[x]", "stock:1"] {
        world.take_named(name).await;
    }
    for (pattern, found) in [
        (
            "*",
            &["app:order:1", "app:order:2", "app:order:[x]", "app:stock:1"][..],
        ),
        ("order:?", &["app:order:1", "app:order:2"]),
        ("*:1", &["app:order:1", "app:stock:1"]),
        ("order:\\[x\\]", &["app:order:[x]"]),
        ("[^o]*", &["app:stock:1"]),
        ("app:*", &[]),
    ] {
        assert_eq!(
            world.scan_all(pattern, 100).await.0,
            texts(found),
            "{pattern}"
        );
    }
}

async fn a_scan_goes_on_where_it_was(world: World) {
    let names: Vec<_> = (0..200).map(|number| format!("order:{number}")).collect();
    for name in &names {
        world.take_named(name).await;
    }
    let (found, parts) = world.scan_all("*", 10).await;
    assert_eq!(found.len(), names.len());
    assert!(parts > 5, "{parts}");
    let part = world.scan("*", 10, Cursor::default()).await;
    assert!(part.names.len() < 50, "{}", part.names.len());
}

async fn a_glance_shows_what_an_inspection_shows(world: World) {
    assert_eq!(world.glance().await, None);
    let hold = some_hold();
    world.take(hold, 5 * MINUTE).await;
    world.depth(hold, 3, 1).await;
    let (other, entry) = some_waiter();
    world.wait(other, MINUTE, entry).await;

    let glance = world.glance().await.expect("a lock");
    let seen = world.inspect().await.expect("a lock");
    assert_eq!(glance.holders, 1);
    assert_eq!(glance.snapshot.holders, seen.holders);
    assert_eq!(
        (
            glance.snapshot.mode,
            glance.snapshot.token,
            glance.snapshot.waiting
        ),
        (Mode::Exclusive, seen.token, 1)
    );
    assert!(near(
        glance.snapshot.remaining.expect("a lease"),
        5 * MINUTE
    ));
    world.release(hold).await;
    world.release(other).await;
    assert_eq!(world.glance().await, None);
}

async fn of_many_readers_some_are_shown_and_all_are_counted(world: World) {
    let readers: Vec<_> = (0..LOOKED_AT + 10).map(|_| some_hold()).collect();
    world.read(&readers[..2], 5 * MINUTE).await;
    let glance = world.glance().await.expect("a lock");
    let seen = world.inspect().await.expect("a lock");
    assert_eq!((glance.holders, glance.snapshot.mode), (2, Mode::Shared));
    let fields = |holders: &[SeenHolder]| -> BTreeSet<_> {
        holders.iter().map(|holder| holder.field.clone()).collect()
    };
    assert_eq!(fields(&glance.snapshot.holders), fields(&seen.holders));
    let lease = glance.snapshot.holders[0].remaining.expect("a lease");
    assert!(near(lease, 5 * MINUTE), "{lease:?}");

    world.read(&readers[2..], 9 * MINUTE).await;
    let glance = world.glance().await.expect("a lock");
    assert_eq!(glance.holders, readers.len() as u64);
    assert_eq!(glance.snapshot.holders.len(), GLANCED);
    for holder in glance.snapshot.holders {
        let lease = holder.remaining.expect("a lease");
        assert!(
            near(lease, 9 * MINUTE),
            "those whose leases end last: {lease:?}"
        );
    }
}

async fn in_a_short_queue_the_living_are_counted_and_in_a_long_one_all(world: World) {
    world.take(some_hold(), 90 * MINUTE).await;
    for _ in 0..LOOKED_AT - 1 {
        let (hold, entry) = some_waiter();
        world.wait(hold, MINUTE, entry).await;
    }
    world.pass(PLACE_LIFE / 2).await;
    let (hold, entry) = some_waiter();
    world.wait(hold, MINUTE, entry).await;
    let waiting = async || world.glance().await.expect("a lock").snapshot.waiting;
    assert_eq!(waiting().await, LOOKED_AT as u64);
    world.pass(PLACE_LIFE / 2).await;
    assert_eq!(waiting().await, 1);
    let (hold, entry) = some_waiter();
    world.wait(hold, MINUTE, entry).await;
    assert_eq!(waiting().await, LOOKED_AT as u64 + 1);
}

async fn a_queue_is_shown_in_its_order(world: World) {
    world.take(some_hold(), 90 * MINUTE).await;
    let waiters: Vec<_> = (0..5).map(|_| some_waiter()).collect();
    for (hold, entry) in &waiters[..4] {
        world.wait(*hold, MINUTE, *entry).await;
    }
    world.pass(PLACE_LIFE - MINUTE).await;
    // The second one repeats its request, and keeps its place.
    world.wait(waiters[1].0, MINUTE, waiters[1].1).await;
    let readers = [some_hold(), some_hold()];
    let entry = waiters[4].1;
    world
        .share_as(share_request(&readers, MINUTE, Some(entry)))
        .await;
    world.pass(2 * MINUTE).await;

    let first = world.queue_behind(None, 3).await;
    let rest = world.queue_behind(Some(first[2].order), 3).await;
    assert_eq!((first.len(), rest.len()), (3, 2));
    let all: Vec<_> = first.into_iter().chain(rest).collect();
    let inboxes: Vec<_> = all.iter().map(|process| process.inbox.clone()).collect();
    let expected = waiters
        .iter()
        .map(|(_, entry)| entry.inbox.as_bytes().to_vec());
    assert_eq!(inboxes, expected.collect::<Vec<_>>());
    assert_eq!(all[1].holds, [waiters[1].0]);
    assert_eq!(all[1].grant, entry.grant);
    assert_eq!((all[1].mode, all[4].mode), (Mode::Exclusive, Mode::Shared));
    assert_eq!(all[4].holds, readers);

    let (key, after, count) = (world.key.clone(), None, 10);
    let queued = world.send(Queue { key, after, count }).await;
    assert_eq!(queued.places, 5);
    let alive = |process: &QueuedProcess| process.deadline.is_some_and(|it| it > queued.at);
    let alive: Vec<_> = queued.processes.iter().map(alive).collect();
    assert_eq!(alive, [false, true, false, false, true]);
    assert!(world.queue_behind(Some(all[4].order), 3).await.is_empty());
}

#[tokio::test]
async fn what_does_not_look_like_a_lock_is_no_lock() {
    let world = World::on_redis().await;
    let mut connection = world.server().connection.clone();
    let field = some_hold().to_string();
    for (name, value) in [
        ("name", "Ann"),
        ("mode", "1790000000 0"),
        (&*field, "{\"json\": 1}"),
        (&*field, "1.5"),
        (&*field, ""),
        ("4f0e1d2c:1", "1"),
        ("4f0e1d2c-0000-4000-8000-000000000000", "1"),
    ] {
        let () = connection
            .hset("app:order", name, value)
            .await
            .expect("HSET");
        assert_eq!(world.glance().await, None, "{name} {value}");
        let () = connection.del("app:order").await.expect("DEL");
    }
    // Together with a field of another kind it is a holder.
    let () = connection
        .hset("app:order", "name", "Ann")
        .await
        .expect("HSET");
    let () = connection.hset("app:order", &field, 2).await.expect("HSET");
    let glance = world.glance().await.expect("a lock");
    assert_eq!((glance.holders, glance.snapshot.holders[0].depth), (1, 2));
    let () = connection.del("app:order").await.expect("DEL");
    // Only a lock of readers has this many fields.
    for number in 0..=LOOKED_AT {
        let () = connection
            .hset("app:order", some_hold().to_string(), number)
            .await
            .expect("HSET");
    }
    assert_eq!(world.glance().await, None);
    let () = connection.del("app:order").await.expect("DEL");
    let () = connection.set("app:order", "a text").await.expect("SET");
    assert_eq!(world.glance().await, None);
}

#[tokio::test]
async fn a_classic_lock_is_one() {
    let world = World::on_redis().await;
    let mut classic = world.server().connection.clone();
    let holder = "8b1c1a3e-0000-4000-8000-000000000000:17";
    classic_lock(&mut classic, "app:order", holder, 180_000).await;
    let glance = world.glance().await.expect("a lock");
    assert_eq!(glance.snapshot.holders[0].field, holder.as_bytes());
    assert_eq!(glance.snapshot.token, None);
}

#[tokio::test]
async fn a_scan_names_hashes_alone_and_other_data_disturbs_no_glance() {
    let world = World::on_redis().await;
    world.take_named("order").await;
    let mut connection = world.server().connection.clone();
    let () = connection.set("app:text", 1).await.expect("SET");
    let () = connection
        .hset(&b"app:\xff"[..], "a", 1)
        .await
        .expect("HSET");
    assert_eq!(world.scan_all("*", 10).await.0, texts(&["app:order"]));
    assert_eq!(world.scan("*", 100, Cursor::default()).await.unnamed, 1);
    // The values at the keys of its line and of the entries have other types.
    for beside in ["queue", "entries"] {
        let key = format!("reentry:{beside}:{{app:order}}:app:order");
        let () = connection.set(key, 1).await.expect("SET");
    }
    let glance = world.glance().await.expect("a lock");
    assert_eq!((glance.holders, glance.snapshot.waiting), (1, 0));
    assert_eq!(world.queue_behind(None, 10).await, []);
}

/// A cursor has no meaning in other data.
#[tokio::test]
async fn a_scan_begins_again_at_a_server_with_other_data() {
    let world = World::on_redis().await;
    for number in 0..100 {
        world.take_named(&format!("order:{number}")).await;
    }
    let part = world.scan("*", 10, Cursor::default()).await;
    let present = part.next.clone().and_then(|cursor| cursor.present);
    let mut old = present.expect("a place");
    old.replication_id = "another one".into();
    let again = world
        .scan(
            "*",
            10,
            Cursor {
                done: Vec::new(),
                present: Some(old),
            },
        )
        .await;
    assert_eq!((again.names, again.next), (part.names, part.next));
}

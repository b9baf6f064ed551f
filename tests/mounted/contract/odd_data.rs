//! On Redis: data that no script of this crate has written. Data that cannot be read counts as missing. In the keys
//! next to the lock, the script that finds it removes it.

use redis::{FromRedisValue, ToRedisArgs, cmd};

use super::world::{GRANT, MINUTE, World, some_hold, some_waiter};
use crate::base::error::FailureClass;
use crate::base::id::HoldId;
use crate::store::redis::codec::INEXACT_FROM;
use crate::store::verbs::inspect::MAX_HOLDERS_SHOWN;
use crate::store::{AcquireReply, ForceRelease, Presence, Snapshot};

mod random;

const LOCK: &str = "app:order";
const QUEUE: &str = "reentry:queue:{app:order}:app:order";
const ENTRIES: &str = "reentry:entries:{app:order}:app:order";

/// One command of the test itself, with any bytes in it.
async fn put<T: FromRedisValue>(world: &World, command: &str, args: &[impl ToRedisArgs]) -> T {
    let mut connection = world.server().connection.clone();
    let mut command = cmd(command);
    let answer = command.arg(args).query_async(&mut connection).await;
    answer.expect("an answer")
}

/// The clock of the server was set back by days, so the lock has a token that it will not reach soon.
#[tokio::test]
async fn a_token_grows_although_the_clock_was_set_back() {
    let world = World::on_redis().await;
    let time: (u64, u64) = put(&world, "TIME", &[] as &[&str]).await;
    let ahead = format!("{} 0", time.0 + 1_000_000);
    for readers_follow in [false, true] {
        let holder = some_hold();
        world.take(holder, MINUTE).await;
        let () = put(&world, "HSET", &[LOCK, "mode", &ahead]).await;
        let before = world.seen().await.token.expect("a token");
        let (next, entry) = some_waiter();
        // The usual hand-off is to a writer, and that to readers is another part of the script.
        if readers_follow {
            world.read_later(&[next], entry).await;
        } else {
            world.wait(next, MINUTE, entry).await;
        }
        world.release(holder).await;
        let seen = world.seen().await;
        assert_eq!(seen.fields, [next.to_string().into_bytes()]);
        assert!(seen.token > Some(before), "{seen:?}, {before}");
        world.server().flush().await;
    }
}

/// The lock of the reader is gone, and its lease has ended.
#[tokio::test]
async fn a_hash_with_a_mode_alone_stays_when_a_reader_beside_it_has_ended() {
    let world = World::on_redis().await;
    let () = put(&world, "HSET", &[LOCK, "mode", "dark"]).await;
    let reader = format!("r{}", some_hold());
    let () = put(&world, "ZADD", &[QUEUE, "-1", &reader]).await;
    let reply = world.acquire(some_hold(), MINUTE).await;
    assert!(matches!(reply, AcquireReply::Busy { .. }), "{reply:?}");
    let kept: Vec<String> = put(&world, "HGETALL", &[LOCK]).await;
    assert_eq!(kept, ["mode", "dark"]);
}

/// Values that are not a token.
const TOKENS: [&str; 10] = [
    "",
    "precious",
    "-5 0",
    "1.5 0",
    "+1790000000 0",
    "0 0",
    "1790000000",
    "9223372036854775808 0",
    "9007199254 740991",
    "1790000000 99999999999999999999",
];

#[tokio::test]
async fn a_token_that_cannot_be_read_counts_as_none() {
    let world = World::on_redis().await;
    for odd in TOKENS {
        let hold = some_hold();
        let before = world.take(hold, MINUTE).await;
        let () = put(&world, "HSET", &[LOCK, "mode", odd]).await;
        assert_eq!(world.seen().await.token, None, "{odd}");
        assert_eq!(world.holders().await, [(hold.to_string(), 1)], "{odd}");
        let again = world.take(hold, MINUTE).await;
        assert!(again > before && again.0 < INEXACT_FROM, "{odd}: {again}");
        assert_eq!(world.seen().await.token, Some(again), "{odd}");

        for step in ["release", "force"] {
            let () = put(&world, "HSET", &[LOCK, "mode", odd]).await;
            let holder: HoldId = world.holders().await[0].0.parse().expect("a hold");
            let (next, beside) = some_waiter();
            world.wait(next, MINUTE, beside).await;
            if step == "release" {
                world.release(holder).await;
            } else {
                assert!(world.force_release(world.seen().await).await, "{odd}");
            }
            let token = world.seen().await.token;
            assert!(
                token.is_some_and(|token| token > again && token.0 < INEXACT_FROM),
                "{odd}: {step}: {token:?}"
            );
        }
        assert!(world.force_release(world.seen().await).await, "{odd}");
    }
}

/// The hash has only that field. No script leaves it like that.
#[tokio::test]
async fn a_token_without_a_hold_is_shown_and_can_be_released_by_force() {
    let world = World::on_redis().await;
    let () = put(&world, "HSET", &[LOCK, "mode", "1790000000 0"]).await;
    assert_eq!(world.holders().await, [("mode".to_owned(), 0)]);
    let asked = world.acquire(some_hold(), MINUTE).await;
    assert!(matches!(asked, AcquireReply::Busy { .. }), "{asked:?}");
    assert!(world.force_release(world.seen().await).await);
    sound(&world).await;
}

#[tokio::test]
async fn a_sequence_number_that_is_too_great_does_not_stop_the_depth() {
    let world = World::on_redis().await;
    let hold = some_hold();
    world.take(hold, MINUTE).await;
    let field = hold.to_string();
    let () = put(&world, "HSET", &[ENTRIES, &field, "99999999999999999999"]).await;
    world.depth(hold, 2, 1).await;
    assert_eq!(world.holders().await, [(hold.to_string(), 2)]);
    world.depth(hold, 5, 1).await;
    assert_eq!(world.holders().await, [(hold.to_string(), 2)]);
}

/// Entries of a process that would be first in the queue if they could be read. `LATER` stands for a deadline in the
/// future.
const LINES: [&str; 9] = [
    "",
    "precious",
    "LATER",
    "LATER hold",
    "LATER hold 0 1000",
    "LATER hold 1000 -1",
    "LATER hold 1.5 1000",
    "LATER hold 9999999999999999 1000",
    "99999999999999999999 hold 1000 1000",
];

#[tokio::test]
async fn an_entry_that_cannot_be_read_counts_as_a_dead_one() {
    let world = World::on_redis().await;
    for line in LINES {
        for step in ["release", "force", "ask"] {
            let (holder, (head, own)) = (some_hold(), some_waiter());
            world.take(holder, MINUTE).await;
            world.wait(head, MINUTE, own).await;
            let line = line.replace("LATER", "9000000000000000");
            let () = put(&world, "ZADD", &[QUEUE, "0.5", "odd"]).await;
            let () = put(&world, "HSET", &[ENTRIES, "odd", &line]).await;
            world.wait(head, MINUTE, own).await;
            assert_eq!(world.waiting().await, 1, "{line}");
            match step {
                "release" => assert_eq!(world.release(holder).await, Presence::Present),
                "force" => assert!(world.force_release(world.seen().await).await),
                _ => {
                    let _: i64 = put(&world, "DEL", &[LOCK]).await;
                    world.acquire(some_hold(), MINUTE).await;
                }
            }
            assert!(world.is_held(head, GRANT).await, "{step}: {line}");
            assert_eq!(put::<i64>(&world, "HEXISTS", &[ENTRIES, "odd"]).await, 0);
            world.release(head).await;
            assert_eq!(world.inspect().await, None);
        }
    }
}

#[tokio::test]
async fn a_depth_that_is_none_is_shown_as_zero_and_then_set() {
    let world = World::on_redis().await;
    let odd = [
        ("", 0),
        ("text", 0),
        ("-1", 0),
        ("1.5", 0),
        ("1e3", 0),
        ("99999999999999999999", 0),
        ("9007199254740993", 9_007_199_254_740_993),
    ];
    for (depth, shown) in odd {
        let hold = some_hold();
        world.take(hold, MINUTE).await;
        let () = put(&world, "HSET", &[LOCK, &hold.to_string(), depth]).await;
        assert_eq!(world.holders().await, [(hold.to_string(), shown)]);
        world.take(hold, MINUTE).await;
        assert_eq!(world.renew(hold, MINUTE).await, Presence::Present);
        assert_eq!(world.depth(hold, 2, 1).await, Presence::Present);
        assert_eq!(world.holders().await, [(hold.to_string(), 2)], "{depth}");
        assert_eq!(world.release(hold).await, Presence::Present);
    }
}

/// Hashes of an application, which have the name of a lock by chance or by mistake.
#[tokio::test]
async fn a_hash_that_is_no_lock_is_shown_and_not_released_by_force() {
    const CLASSIC: &[u8] = b"8b1c1a3e-0000-4000-8000-000000000000:1";
    let hashes: [&[&[u8]]; 13] = [
        &[b"name", b"Ann", b"mail", b"ann@example.org"],
        &[b"visits", b"3"],
        &[b"mode", b"5f2d8a"],
        &[b"mode", b"1790000000 0", b"name", b"Ann"],
        &[CLASSIC, b"{}"],
        &[CLASSIC, b"0"],
        &[CLASSIC, b"-1"],
        &[CLASSIC, b"1.5"],
        &[CLASSIC, b"1", b"name", b"Ann"],
        &[b"", b"1"],
        &[b"\xff\xfe", b"1"],
        &[b"8b1c1a3e-0000-4000-8000-000000000000", b"1"],
        &[b"8b1c1a3e-0000-4000-8000-000000000000:1\n", b"1"],
    ];
    let world = World::on_redis().await;
    for hash in hashes {
        for expiry in ["0", "60000"] {
            let words = [&[LOCK.as_bytes()], hash].concat();
            let () = put(&world, "HSET", &words).await;
            if expiry != "0" {
                let _: i64 = put(&world, "PEXPIRE", &[LOCK, expiry]).await;
            }
            let dump: Vec<u8> = put(&world, "DUMP", &[LOCK]).await;
            let (key, seen) = (world.key.clone(), world.seen().await);
            let forced = world.store.ask(ForceRelease { key, seen }).await;
            let refused = forced.map_err(|error| error.failure_class());
            let after: Vec<u8> = put(&world, "DUMP", &[LOCK]).await;
            assert!(after == dump, "{words:?}");
            assert!(
                matches!(refused, Err(FailureClass::Permanent)),
                "{refused:?}"
            );
            let _: i64 = put(&world, "DEL", &[LOCK]).await;
        }
    }
}

#[tokio::test]
async fn of_thousands_of_fields_those_that_were_shown_are_released_by_force() {
    let world = World::on_redis().await;
    for count in [MAX_HOLDERS_SHOWN - 1, MAX_HOLDERS_SHOWN, 2_500] {
        let mut fields = vec![LOCK.to_owned()];
        fields.extend((0..count).flat_map(|_| [some_hold().to_string(), "1".to_owned()]));
        let () = put(&world, "HSET", &fields).await;
        let (next, beside) = some_waiter();
        world.wait(next, MINUTE, beside).await;
        for left in (1..=count).rev().step_by(MAX_HOLDERS_SHOWN) {
            assert!(!world.is_held(next, GRANT).await);
            assert_eq!(world.holders().await.len(), left.min(MAX_HOLDERS_SHOWN));
            assert!(world.force_release(world.seen().await).await);
        }
        assert!(world.is_held(next, GRANT).await);
        assert!(world.force_release(world.seen().await).await);
        assert_eq!(world.inspect().await, None);
    }
}

#[tokio::test]
async fn the_token_is_shown_also_where_its_hold_is_not() {
    let world = World::on_redis().await;
    let hold = some_hold();
    let token = world.take(hold, MINUTE).await;
    let mut fields = vec![LOCK.to_owned()];
    fields.extend((0..9_000).flat_map(|n| [format!("field:{n}"), "1".to_owned()]));
    let () = put(&world, "HSET", &fields).await;
    assert_eq!(world.seen().await.token, Some(token));
}

/// Every operation that reads the keys next to a lock.
#[tokio::test]
async fn a_key_of_another_type_next_to_the_lock_is_removed() {
    let world = World::on_redis().await;
    for key in [QUEUE, ENTRIES] {
        for step in ["take", "again", "depth", "wait", "release", "force"] {
            world.server().flush().await;
            let (hold, (next, beside)) = (some_hold(), some_waiter());
            if step != "take" {
                world.take(hold, MINUTE).await;
                let (other, entry) = some_waiter();
                world.wait(other, MINUTE, entry).await;
            }
            let _: i64 = put(&world, "DEL", &[key]).await;
            let _: i64 = put(&world, "RPUSH", &[key, "precious"]).await;
            world.inspect().await;
            match step {
                "take" | "again" => drop(world.take(hold, MINUTE).await),
                "depth" => assert_eq!(world.depth(hold, 2, 1).await, Presence::Present),
                "wait" => world.wait(next, MINUTE, beside).await,
                "release" => assert_eq!(world.release(hold).await, Presence::Present),
                _ => assert!(world.force_release(world.seen().await).await),
            }
            // After that it is a lock like any other.
            while let Some(seen) = world.inspect().await.map(Snapshot::seen) {
                assert!(world.force_release(seen).await, "{key}: {step}");
            }
            sound(&world).await;
            assert!(world.server().immortal().await.is_empty(), "{key}: {step}");
        }
    }
}

/// A free lock without a queue can be acquired, waited for, handed off and released.
async fn sound(world: &World) {
    let (hold, (next, beside)) = (some_hold(), some_waiter());
    let token = world.take(hold, MINUTE).await;
    assert!(token.0 < INEXACT_FROM, "{token}");
    assert_eq!(world.depth(hold, 2, 1).await, Presence::Present);
    assert_eq!(world.holders().await, [(hold.to_string(), 2)]);
    assert_eq!(world.seen().await.token, Some(token));
    world.wait(next, MINUTE, beside).await;
    assert_eq!(world.release(hold).await, Presence::Present);
    assert!(world.is_held(next, GRANT).await);
    assert!(world.seen().await.token > Some(token));
    assert_eq!(world.release(next).await, Presence::Present);
    assert_eq!(world.inspect().await, None);
}

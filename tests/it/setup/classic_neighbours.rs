//! P12: programs with the well-known lock and unlock scripts and this crate exclude each other on
//! the same key, both ways round.

use std::time::Duration;

use crate::support::classic::{Unlocked, classic_lock, classic_unlock};
use crate::support::{DEADLINE, RedisServer, connect, within};
use redis::AsyncCommands;
use reentry::{HoldId, Locks};

const KEY: &str = "order:42";
const CLASSIC: &str = "9b2d7c3e-8a5f-4d1c-9e60-2f4b8a7c6d5e:1";
const TTL_MS: u64 = 60_000;

async fn ground() -> (RedisServer, Locks) {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    (server, locks)
}

#[tokio::test]
async fn a_classic_program_stays_out_while_we_hold_at_any_depth() {
    let (server, locks) = ground().await;
    let mut other = server.connection().await;
    let outer = locks.with_lock(KEY, async {
        let inner = locks.with_lock(KEY, async {
            let left = classic_lock(&mut other, KEY, CLASSIC, TTL_MS).await;
            assert!(left.is_some_and(|ms| ms > 0), "{left:?}");
            let unlocked = classic_unlock(&mut other, KEY, CLASSIC, TTL_MS).await;
            assert_eq!(unlocked, Unlocked::NotHeld);
        });
        inner.await.unwrap();
        assert!(
            classic_lock(&mut other, KEY, CLASSIC, TTL_MS)
                .await
                .is_some()
        );
    });
    outer.await.unwrap();
    assert_eq!(classic_lock(&mut other, KEY, CLASSIC, TTL_MS).await, None);
}

#[tokio::test]
async fn we_stay_out_while_a_classic_program_holds_at_any_depth() {
    let (server, locks) = ground().await;
    let mut other = server.connection().await;
    assert_eq!(classic_lock(&mut other, KEY, CLASSIC, TTL_MS).await, None);
    assert_eq!(classic_lock(&mut other, KEY, CLASSIC, TTL_MS).await, None);
    let refused = async || locks.lock(KEY).try_acquire().await.unwrap().is_none();
    assert!(refused().await);
    let waiting = tokio::spawn(locks.with_lock(KEY, async { 1 }));
    let unlocked = classic_unlock(&mut other, KEY, CLASSIC, TTL_MS).await;
    assert_eq!(unlocked, Unlocked::StillHeld);
    assert!(refused().await && !waiting.is_finished());
    let unlocked = classic_unlock(&mut other, KEY, CLASSIC, TTL_MS).await;
    assert_eq!(
        unlocked,
        Unlocked::Freed,
        "our waiting left nothing in the lock"
    );
    let entered = within(DEADLINE, "we enter", waiting).await;
    assert_eq!(entered.unwrap().unwrap(), 1);
}

#[tokio::test]
async fn our_fields_look_like_theirs_and_count_as_theirs() {
    let (server, locks) = ground().await;
    let mut connection = server.connection().await;
    let outer = locks.with_lock(KEY, async {
        let inner = locks.with_lock(KEY, async {
            let fields: Vec<(String, String)> = connection.hgetall(KEY).await.unwrap();
            // Beside it stands its token, which no classic program looks at.
            let [(field, depth), (token, _)] = &fields[..] else {
                panic!("not one field and a token, but {fields:?}");
            };
            assert_eq!((depth.as_str(), token.as_str()), ("2", "token"));
            let (uuid, number) = field.split_once(':').unwrap();
            let uuid = uuid::Uuid::parse_str(uuid).unwrap();
            assert_eq!(uuid.get_version_num(), 4);
            assert_eq!(number.parse::<u64>().unwrap(), 1);
            let id: HoldId = field.parse().unwrap();
            assert_eq!(id, reentry::held(KEY).unwrap().hold_id());
            // Their scripts re-enter and leave our hold, given its name.
            assert_eq!(
                classic_lock(&mut connection, KEY, field, TTL_MS).await,
                None
            );
            let unlocked = classic_unlock(&mut connection, KEY, field, TTL_MS).await;
            assert_eq!(unlocked, Unlocked::StillHeld);
        });
        inner.await.unwrap();
    });
    outer.await.unwrap();
    assert!(locks.inspect(KEY).await.unwrap().is_none());
}

#[tokio::test]
async fn a_classic_holder_shows_without_a_token_even_after_one_of_ours() {
    let (server, locks) = ground().await;
    let mut other = server.connection().await;
    locks.with_lock(KEY, async {}).await.unwrap();
    assert_eq!(classic_lock(&mut other, KEY, CLASSIC, TTL_MS).await, None);
    assert_eq!(classic_lock(&mut other, KEY, CLASSIC, TTL_MS).await, None);
    let info = locks.inspect(KEY).await.unwrap().unwrap();
    assert_eq!(info.token, None);
    assert!(info.remaining.unwrap() <= Duration::from_millis(TTL_MS));
    let [holder] = &info.holders[..] else {
        panic!("not one holder, but {info:?}");
    };
    assert_eq!((holder.hold_id.as_str(), holder.depth), (CLASSIC, 2));
    let owner = holder.owner.unwrap().to_string();
    assert!(CLASSIC.starts_with(&owner));
    assert!(locks.force_release(KEY).await.unwrap());
    let unlocked = classic_unlock(&mut other, KEY, CLASSIC, TTL_MS).await;
    assert_eq!(unlocked, Unlocked::NotHeld);
}

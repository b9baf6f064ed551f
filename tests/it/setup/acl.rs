//! The exact permissions that a Redis user needs. With them everything works, and without any one of them an operation
//! is rejected immediately.

use std::time::Duration;

use crate::support::proxy::Direction::ToServer;
use crate::support::told::cause_of;
use crate::support::{Action, Cut, DEADLINE, Proxy, RedisServer, cycle, patient_at, within};
use redis::{AsyncCommands, cmd};
use reentry::{LockError, Locks};

const KEY: &str = "order:42";

/// The locks, which are named `order:…` here, and the keys of the crate next to them.
const KEYS: [&str; 2] = ["~order:*", "~reentry:*"];

/// The keys for a user that shares the server with others: only the keys next to its own locks.
const OWN_KEYS: [&str; 3] = [
    "~order:*",
    "~reentry:queue:{order:*",
    "~reentry:entries:{order:*",
];

/// The further keys that this user needs for the detection of deadlocks.
const DEADLOCK_KEYS: [&str; 2] = ["~reentry:waits:*", "~reentry:victim:*"];

/// The commands with which a script is sent: by its hash, and in full if the server does not know it.
const SENDING: [&str; 2] = ["+evalsha", "+eval"];

/// The commands that the scripts call, except HSCAN, which only big hashes need.
const SCRIPTS: &str = "+del +exists +hdel +hexists +hget +hgetall +hincrby +hlen +hmget +hset +pexpire \
                       +pexpireat +pttl +time +zadd +zrange +zrem +zremrangebyscore +zscore";

fn scripts() -> impl Iterator<Item = &'static str> {
    SCRIPTS.split(' ')
}

/// The commands without which locks work, but slower: for the message that a lock has moved to a waiter and the check of
/// its connection, in place of which the waiter sends requests, and for the short way of a release.
const HELPFUL: [&str; 5] = [
    "+publish",
    "+subscribe",
    "&reentry:inbox:*",
    "+ping",
    "+zcount",
];

// HELLO and AUTH need no permission. CLIENT SETINFO may be rejected, and the driver ignores that.

struct Ground {
    server: RedisServer,
    proxy: Proxy,
}

impl Ground {
    async fn start() -> Ground {
        let server = RedisServer::start().await;
        let proxy = Proxy::start(server.port());
        Ground { server, proxy }
    }

    /// Creates the user `locker`, which has these permissions and no others.
    async fn permit(&self, permissions: &[&str]) {
        let mut connection = self.server.connection().await;
        let mut user = cmd("ACL");
        user.arg("SETUSER").arg("locker").arg("reset");
        // Before Redis 7.0 a new user may use every channel.
        user.arg("resetchannels");
        user.arg("on").arg(">secret").arg(permissions);
        let _: () = user.query_async(&mut connection).await.unwrap();
        let _: () = connection.flushall().await.unwrap();
        let _: () = cmd("SCRIPT")
            .arg("FLUSH")
            .query_async(&mut connection)
            .await
            .unwrap();
        self.server.ask("ACL LOG RESET").await;
    }

    fn url(&self) -> String {
        format!("redis://locker:secret@127.0.0.1:{}", self.proxy.port())
    }

    async fn locks(&self) -> Result<Locks, LockError> {
        // A waiter waits for ever here. A rejected operation must not.
        patient_at(self.url()).wait(Duration::MAX).build().await
    }

    /// Every operation of the crate on a server, for the user `locker`. Returns whether the depth of a nested entry has
    /// followed: its rejection is reported to no caller.
    async fn everything(&self) -> Result<bool, LockError> {
        let locks = self.locks().await?;
        let key = "order:nested";
        let nested = locks.with_lock(key, async {
            loop {
                let info = locks.admin().inspect(key).await?;
                let has_followed = info.is_some_and(|info| info.holders[0].depth == 2);
                if has_followed || self.has_rejected_in_a_script().await {
                    return Ok::<_, LockError>(has_followed);
                }
                tokio::task::yield_now().await;
            }
        });
        let has_followed = locks.with_lock(key, nested).await???;

        let taken = locks.lock("order:taken").await?;
        assert!(locks.admin().force_release("order:taken").await?);
        drop(taken.release().await);

        self.moves(&locks, "order:moves").await?;
        self.readers(&locks, "order:readers").await?;

        // This is an acquire without a response, so that the release leaves a tombstone.
        let unanswered = Action::CutAtAnswer(Cut::Reset);
        self.proxy.on_next(ToServer, b"EVALSHA", unanswered);
        locks.with_lock("order:unanswered", async {}).await?;
        Ok(has_followed)
    }

    /// Returns whether a script was denied a command or a key since the permissions were given.
    async fn has_rejected_in_a_script(&self) -> bool {
        let denied = self.server.ask("ACL LOG").await;
        denied.lines().any(|line| line == "lua")
    }

    /// The lock moves from one process to another.
    async fn moves(&self, locks: &Locks, key: &str) -> Result<(), LockError> {
        let other = self.locks().await?;
        let guard = locks.lock(key).await?;
        let releasing = async {
            let waits = async || match locks.admin().inspect(key).await {
                Ok(info) => info.is_some_and(|info| info.waiting_processes == 1),
                Err(_) => true,
            };
            crate::support::eventually(DEADLINE, "the other waits", waits).await;
            guard.release().await
        };
        let waiting = async { other.lock(key).await?.release().await };
        tokio::try_join!(releasing, waiting).map(drop)
    }

    /// One reader, another one beside it, and one alone.
    async fn readers(&self, locks: &Locks, key: &str) -> Result<(), LockError> {
        let first = locks.lock(key).read().await?;
        let second = locks.lock(key).read().await?;
        first.release().await?;
        second.release().await?;
        locks.lock(key).read().run(async {}).await
    }

    /// Two callers that each hold what the other one wants. Returns whether one of them had to give way.
    async fn cycle(&self) -> Result<bool, LockError> {
        let builder = patient_at(self.url()).__heartbeat(Duration::from_millis(100));
        let locks = builder.wait(Duration::from_secs(1)).build().await?;
        match cycle(&locks, "order:1", "order:2").await {
            Err(error) if error.is_deadlock() => Ok(true),
            Err(LockError::Busy { .. }) => Ok(false),
            other => other.map(|()| false),
        }
    }

    /// A renewal, on a separate connection.
    async fn renewal(&self) -> Result<(), LockError> {
        let locks = self.locks().await?;
        let request = locks.lock(KEY).ttl(Duration::from_millis(1_500));
        let renewed = request.run(async {
            let held = reentry::held(KEY).unwrap();
            let (much, little) = (Duration::from_millis(1_200), Duration::from_millis(1_000));
            let passed = async || held.remaining() < little;
            crate::support::eventually(DEADLINE, "time passes", passed).await;
            let again = async || held.remaining() > much;
            crate::support::eventually(DEADLINE, "the lease is renewed", again).await;
        });
        renewed.await
    }

    /// The data that `everything` should have left in the store: a tombstone, in the line of its lock.
    async fn left_right(&self) -> bool {
        self.server.key_count().await == 1 && self.server.tombstones().await == 1
    }
}

fn all_but(missing: &str) -> Vec<&'static str> {
    let needed = KEYS.into_iter().chain(SENDING).chain(scripts());
    let all = needed.chain(HELPFUL);
    all.filter(|permission| *permission != missing).collect()
}

#[tokio::test]
async fn everything_works_with_the_documented_permissions() {
    let ground = Ground::start().await;
    ground.permit(&all_but("nothing")).await;
    let has_followed = within(DEADLINE, "everything", ground.everything()).await;
    assert!(has_followed.unwrap() && ground.left_right().await);
    within(DEADLINE, "a renewal", ground.renewal())
        .await
        .unwrap();
}

#[tokio::test]
async fn without_any_one_of_them_something_is_refused_at_once() {
    let ground = Ground::start().await;
    for missing in KEYS.into_iter().chain(SENDING).chain(scripts()) {
        ground.permit(&all_but(missing)).await;
        let refused = within(DEADLINE, missing, ground.everything()).await;
        ground.proxy.clear_rules();
        match refused {
            Err(error) if error.is_misuse() => {
                let cause = cause_of(&error);
                let refusal = ["NOPERM", "permission", "can't run this command"];
                let told = refusal.iter().any(|words| cause.contains(words));
                assert!(told, "{missing}: {cause}");
            }
            // A rejected change of the depth is reported to no caller, nor is a rejected release, because the body's
            // result is kept (P13).
            Ok(has_followed) => {
                assert!(
                    ["+hdel", "+del", "+hincrby", "+zremrangebyscore"].contains(&missing),
                    "{missing} is not needed"
                );
                let is_right = has_followed && ground.left_right().await;
                assert!(!is_right, "{missing} is not needed");
            }
            Err(other) => panic!("without {missing}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_user_with_a_prefix_of_its_own_has_no_part_in_the_locks_of_others() {
    let ground = Ground::start().await;
    let others = SENDING.into_iter().chain(scripts()).chain(HELPFUL);
    let own: Vec<_> = OWN_KEYS.into_iter().chain(others).collect();
    ground.permit(&own).await;
    let has_followed = within(DEADLINE, "everything", ground.everything()).await;
    assert!(has_followed.unwrap() && ground.left_right().await);

    let locks = ground.locks().await.unwrap();
    let key = "stock:7";
    for refused in [
        locks.with_lock(key, async {}).await,
        locks.admin().inspect(key).await.map(drop),
        locks.admin().force_release(key).await.map(drop),
    ] {
        assert!(refused.unwrap_err().is_misuse());
    }
    // These keys contain the names of inboxes and holds, without which nothing can be forged.
    let client = redis::Client::open(ground.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    for (command, key) in [
        ("ZRANGE", "reentry:queue:{stock:7}:stock:7 0 -1"),
        ("HGETALL", "reentry:entries:{stock:7}:stock:7"),
        ("HGETALL", "stock:7"),
        ("PUBSUB", "CHANNELS"),
        ("PSUBSCRIBE", "reentry:inbox:*"),
        ("MONITOR", ""),
    ] {
        let words = key.split_whitespace().collect::<Vec<_>>();
        let answer = cmd(command).arg(words).exec_async(&mut connection).await;
        let refusal = answer.unwrap_err().to_string();
        let told = ["NoPerm", "NOPERM", "permission"];
        assert!(told.iter().any(|word| refusal.contains(word)), "{refusal}");
    }
}

/// Without them the waits continue as if no caller searched.
#[tokio::test]
async fn a_deadlock_is_found_by_a_user_with_the_keys_for_it() {
    let ground = Ground::start().await;
    let others = SENDING.into_iter().chain(scripts()).chain(HELPFUL);
    let own: Vec<_> = OWN_KEYS.into_iter().chain(others).collect();
    let all: Vec<_> = own.iter().copied().chain(DEADLOCK_KEYS).collect();
    let without: Vec<_> = own.iter().copied().chain([DEADLOCK_KEYS[0]]).collect();
    for (permissions, is_found) in [
        (all_but("nothing"), true),
        (all, true),
        (own, false),
        (without, false),
    ] {
        ground.permit(&permissions).await;
        let found = within(DEADLINE, "an end", ground.cycle()).await.unwrap();
        assert_eq!(found, is_found, "{permissions:?}");
    }
}

#[tokio::test]
async fn a_refused_release_is_made_when_the_user_may_again() {
    let ground = Ground::start().await;
    ground.permit(&all_but("+del")).await;
    let locks = ground.locks().await.unwrap();
    let guard = locks.lock(KEY).ttl(10 * DEADLINE).await.unwrap();
    let error = guard.release().await.unwrap_err();
    assert!(matches!(error, LockError::Misuse { .. }), "{error:?}");
    assert_eq!(error.key(), Some(KEY));
    ground.server.ask("ACL SETUSER locker +del").await;
    let released = async || ground.server.key_count().await == 0;
    crate::support::eventually(DEADLINE, "it is released", released).await;
}

//! The example `migration`: programs that hold both locks beside old ones, which are the scripts of `support::classic` and
//! plain SET NX, and beside new ones, which hold the new lock alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, ExistenceCheck, SetExpiry, SetOptions};
use reentry::Locks;
use tokio::task::JoinSet;

use crate::support::classic::{Unlocked, classic_lock, classic_unlock};
use crate::support::redisson::Redisson;
use crate::support::rig::KEY;
use crate::support::{DEADLINE, RedisServer, Section, eventually, patient, within};
use example::{HASH, OldLocks, SET_NX, with_both};

#[path = "../../../examples/migration.rs"]
#[allow(dead_code, reason = "its `main` is not run here")]
mod example;

const OWNER: &str = "9b2d7c3e-8a5f-4d1c-9e60-2f4b8a7c6d5e:1";
const TTL_MS: u64 = 60_000;
const INTERVAL: Duration = Duration::from_millis(10);

/// An old program, written separately.
struct OldProgram {
    redis: MultiplexedConnection,
    owner: String,
    stores_a_hash: bool,
}

impl OldProgram {
    async fn has_acquired(&mut self) -> bool {
        if self.stores_a_hash {
            let busy = classic_lock(&mut self.redis, KEY, &self.owner, TTL_MS).await;
            return busy.is_none();
        }
        let once = SetOptions::default().conditional_set(ExistenceCheck::NX);
        let once = once.with_expiration(SetExpiry::PX(TTL_MS));
        let set: Option<String> = self
            .redis
            .set_options(KEY, &self.owner, once)
            .await
            .unwrap();
        set.is_some()
    }

    async fn acquire(&mut self) {
        let acquired = async {
            while !self.has_acquired().await {
                tokio::time::sleep(INTERVAL).await;
            }
        };
        within(DEADLINE, "a turn of the old program", acquired).await;
    }

    async fn release(&mut self) {
        if self.stores_a_hash {
            let unlocked = classic_unlock(&mut self.redis, KEY, &self.owner, TTL_MS).await;
            return assert_eq!(unlocked, Unlocked::Freed);
        }
        let owner: String = self.redis.get(KEY).await.unwrap();
        assert_eq!(owner, self.owner);
        let _: u32 = self.redis.del(KEY).await.unwrap();
    }
}

/// A server, for old programs that store a hash or a string.
struct Migration {
    server: RedisServer,
    stores_a_hash: bool,
}

impl Migration {
    async fn of(stores_a_hash: bool) -> Self {
        let server = RedisServer::start().await;
        Self {
            server,
            stores_a_hash,
        }
    }

    async fn old(&self, number: u32) -> OldProgram {
        OldProgram {
            redis: self.server.connection().await,
            owner: format!("{OWNER}{number}"),
            stores_a_hash: self.stores_a_hash,
        }
    }

    /// The locks of a new program.
    async fn new_locks(&self) -> Locks {
        let builder = patient(&self.server).prefix("new:");
        builder.build().await.unwrap()
    }

    /// The old locks in a program that holds both.
    async fn old_locks(&self) -> OldLocks {
        OldLocks {
            redis: self.server.connection().await,
            scheme: if self.stores_a_hash { HASH } else { SET_NX },
            ttl: Duration::from_millis(TTL_MS),
            interval: INTERVAL,
            wait: DEADLINE,
        }
    }

    /// Whether neither lock is held.
    async fn is_free(&self) -> bool {
        self.server.key_count().await == 0
    }
}

const BOTH_KINDS: [bool; 2] = [false, true];
const TURNS: u32 = 10;

#[tokio::test]
async fn old_programs_and_those_with_both_locks_exclude_each_other() {
    for stores_a_hash in BOTH_KINDS {
        let migration = Migration::of(stores_a_hash).await;
        let section = Arc::<Section>::default();
        let mut programs = JoinSet::new();
        for number in 0..2 {
            let (mut old, section) = (migration.old(number).await, Arc::clone(&section));
            programs.spawn(async move {
                for _ in 0..TURNS {
                    old.acquire().await;
                    section.visit().await;
                    old.release().await;
                    tokio::time::sleep(INTERVAL / 10).await;
                }
            });
        }
        for _ in 0..2 {
            let (locks, old) = (migration.new_locks().await, migration.old_locks().await);
            let section = Arc::clone(&section);
            programs.spawn(async move {
                for _ in 0..TURNS {
                    with_both(&locks, &old, KEY, section.visit()).await.unwrap();
                }
            });
        }
        within(2 * DEADLINE, "all have their turns", programs.join_all()).await;
        assert_eq!(section.visits(), 4 * TURNS);
        eventually(DEADLINE, "nothing is left", async || {
            migration.is_free().await
        })
        .await;
    }
}

/// New programs that never pause leave the old lock free between two turns.
#[tokio::test]
async fn an_old_program_gets_in_beside_contending_programs_with_both() {
    for stores_a_hash in BOTH_KINDS {
        let migration = Migration::of(stores_a_hash).await;
        let stop = Arc::<AtomicBool>::default();
        let mut programs = JoinSet::new();
        for _ in 0..3 {
            let (locks, old) = (migration.new_locks().await, migration.old_locks().await);
            let stop = Arc::clone(&stop);
            programs.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let body = tokio::time::sleep(INTERVAL / 10);
                    with_both(&locks, &old, KEY, body).await.unwrap();
                }
            });
        }
        let mut old = migration.old(1).await;
        for _ in 0..3 {
            old.acquire().await;
            old.release().await;
        }
        stop.store(true, Ordering::Relaxed);
        within(DEADLINE, "their ends", programs.join_all()).await;
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_frees_both_locks() {
    for stores_a_hash in BOTH_KINDS {
        let migration = Migration::of(stores_a_hash).await;
        let (locks, old) = (migration.new_locks().await, migration.old_locks().await);
        let (entered, has_entered) = tokio::sync::oneshot::channel();
        let body = async {
            entered.send(()).unwrap();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            _ = with_both(&locks, &old, KEY, body) => panic!("it never ends"),
            entered = has_entered => entered.unwrap(),
        }
        eventually(DEADLINE, "both are free", async || {
            migration.is_free().await
        })
        .await;
    }
}

#[tokio::test]
async fn a_body_ends_when_its_old_lock_is_lost() {
    for stores_a_hash in BOTH_KINDS {
        let migration = Migration::of(stores_a_hash).await;
        let locks = migration.new_locks().await;
        let old = OldLocks {
            ttl: Duration::from_millis(600),
            ..migration.old_locks().await
        };
        let body = async {
            assert_eq!(migration.server.ask(&format!("DEL {KEY}")).await, "1");
            std::future::pending::<()>().await;
        };
        let ended = within(DEADLINE, "its end", with_both(&locks, &old, KEY, body)).await;
        let lost = ended.unwrap_err().to_string();
        assert!(lost.contains("is lost"), "{lost}");
    }
}

#[tokio::test]
async fn redisson_is_told_of_the_release_by_a_program_with_both() {
    let migration = Migration::of(true).await;
    let (locks, old) = (migration.new_locks().await, migration.old_locks().await);
    let mut theirs = Redisson::start(&migration.server, KEY, OWNER).await;
    let body = async { theirs.ask(TTL_MS).await };
    let busy = with_both(&locks, &old, KEY, body).await.unwrap();
    assert!(busy.is_some());
    assert_eq!(within(DEADLINE, "a message", theirs.told()).await, "0");
    assert_eq!(theirs.ask(TTL_MS).await, None);
    theirs.unlock(TTL_MS).await;
}

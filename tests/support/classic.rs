//! The well-known reentrant lock on a Redis hash, as other programs use it.
//!
//! A hash under the lock's name maps a holder (`<uuid>:<thread>`) to its depth. The hash's expiry is the lease. These
//! scripts were written separately for the tests, so that the tests check against a second implementation.

use redis::aio::ConnectionLike;
use redis::cmd;

/// KEYS: lock. ARGV: holder, TTL in ms. Returns nil if the lock was taken or re-entered, otherwise the remaining lease
/// in ms.
const LOCK: &str = "
local lock, holder, ttl = KEYS[1], ARGV[1], ARGV[2]
local free = redis.call('EXISTS', lock) == 0
if free or redis.call('HEXISTS', lock, holder) == 1 then
  redis.call('HINCRBY', lock, holder, 1)
  redis.call('PEXPIRE', lock, ttl)
  return false
end
return redis.call('PTTL', lock)
";

/// KEYS: lock. ARGV: holder, TTL in ms. Returns nil if it is not the holder, 0 if the lock is still held, 1 if it was
/// freed.
const UNLOCK: &str = "
local lock, holder, ttl = KEYS[1], ARGV[1], ARGV[2]
if redis.call('HEXISTS', lock, holder) == 0 then
  return false
end
if redis.call('HINCRBY', lock, holder, -1) > 0 then
  redis.call('PEXPIRE', lock, ttl)
  return 0
end
redis.call('DEL', lock)
return 1
";

/// The result of [`classic_unlock`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unlocked {
    /// The holder did not have the lock. Nothing was changed.
    NotHeld,
    /// There is one entry less. The lock is still held.
    StillHeld,
    /// That was the last entry. The lock is gone.
    Freed,
}

/// Takes or re-enters the lock, and returns `None`. If another program holds it, returns its remaining lease in ms.
///
/// The remaining lease is -1 for a lock without expiry, as in PTTL.
pub async fn classic_lock(
    connection: &mut impl ConnectionLike,
    key: &str,
    holder: &str,
    ttl_ms: u64,
) -> Option<i64> {
    let mut eval = cmd("EVAL");
    eval.arg(LOCK).arg(1).arg(key).arg(holder).arg(ttl_ms);
    eval.query_async(connection)
        .await
        .expect("the classic lock script")
}

/// Leaves the lock once. The last exit deletes it.
pub async fn classic_unlock(
    connection: &mut impl ConnectionLike,
    key: &str,
    holder: &str,
    ttl_ms: u64,
) -> Unlocked {
    let mut eval = cmd("EVAL");
    eval.arg(UNLOCK).arg(1).arg(key).arg(holder).arg(ttl_ms);
    let answer: Option<i64> = eval
        .query_async(connection)
        .await
        .expect("the classic unlock script");
    match answer {
        None => Unlocked::NotHeld,
        Some(0) => Unlocked::StillHeld,
        Some(_) => Unlocked::Freed,
    }
}

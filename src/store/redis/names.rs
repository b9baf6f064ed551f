//! The Redis keys of a lock. All of them lie in one slot of a Redis Cluster.

use std::io::Write;

use deadpool_redis::redis::{RedisWrite, ToRedisArgs};

use crate::base::{
    id::HoldId,
    key::{LockKey, RESERVED},
};

#[cfg(any(test, fuzzing))]
#[path = "../../../tests/properties/names.rs"]
pub(super) mod properties;

/// A key beside that of the lock, in its slot. Injective: the kind holds no colon, and the tag no
/// closing brace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sibling<'k> {
    kind: &'static str,
    key: &'k LockKey,
    hold: Option<HoldId>,
}

/// The string of the lock's fencing token, the hold that it was given to, and the last depth change.
pub(super) fn meta(key: &LockKey) -> Sibling<'_> {
    sibling("meta", key)
}

/// The sorted set of the processes that wait, by their inboxes.
pub(super) fn queue(key: &LockKey) -> Sibling<'_> {
    sibling("queue", key)
}

/// The hash of what each of them waits for.
pub(super) fn entries(key: &LockKey) -> Sibling<'_> {
    sibling("entries", key)
}

/// The string that says that a hold has ended.
pub(super) fn tombstone(key: &LockKey, hold: HoldId) -> Sibling<'_> {
    let hold = Some(hold);
    Sibling {
        hold,
        ..sibling("gone", key)
    }
}

fn sibling<'k>(kind: &'static str, key: &'k LockKey) -> Sibling<'k> {
    let hold = None;
    Sibling { kind, key, hold }
}

impl Sibling<'_> {
    fn write_to(self, out: &mut impl Write) -> std::io::Result<()> {
        let Self { kind, key, hold } = self;
        let pieces = [RESERVED, kind, ":{", key.hash_tag(), "}:", key.as_str()];
        for piece in pieces {
            out.write_all(piece.as_bytes())?;
        }
        if let Some(hold) = hold {
            out.write_all(b":")?;
            hold.write_to(out)?;
        }
        Ok(())
    }
}

/// Written into the command itself, without a string of its own.
impl ToRedisArgs for Sibling<'_> {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        // Into memory it cannot fail.
        let _ = self.write_to(&mut out.writer_for_next_arg());
    }
}

/// A hold id as it stands in the hash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field(pub(super) HoldId);

impl ToRedisArgs for Field {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        // Into memory it cannot fail.
        let _ = self.0.write_to(&mut out.writer_for_next_arg());
    }
}

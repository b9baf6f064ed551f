//! The Redis keys of a lock, and the forms of their values. All keys of a lock are in one slot of a Redis Cluster. The
//! keys of the search for deadlocks are also here. Each of these is used alone.

use std::io::Write;

use redis::{RedisWrite, ToRedisArgs};

use crate::base::id::{HoldId, OwnerId};
use crate::base::key::{LockKey, slot_of};

#[cfg(any(test, fuzzing))]
#[path = "../../../tests/properties/names.rs"]
pub(crate) mod properties;

/// The channel of the messages to all processes.
pub(crate) const TO_ALL: &str = "reentry:inbox:all";

/// The key of the hash with the entry of each process in the queue, and the last depth changes. The key of the queue
/// itself is [`LockKey::queue`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entries<'k>(pub(crate) &'k LockKey);

/// The key is written into the command itself, without a string of its own.
impl ToRedisArgs for Entries<'_> {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        let mut out = out.writer_for_next_arg();
        // Writing to memory cannot fail.
        let _ = out.write_all(b"reentry:entries:");
        let _ = out.write_all(self.0.suffix().as_bytes());
    }
}

/// The argument that names several holds, joined by commas.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'h>(pub(crate) &'h [HoldId]);

impl ToRedisArgs for Fields<'_> {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        let mut out = out.writer_for_next_arg();
        for (at, hold) in self.0.iter().enumerate() {
            // Writing to memory cannot fail.
            let _ = if at > 0 { out.write_all(b",") } else { Ok(()) };
            let _ = hold.write_to(&mut out);
        }
    }
}

/// The field of a hold in the hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field(pub(crate) HoldId);

impl ToRedisArgs for Field {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        // Writing to memory cannot fail.
        let _ = self.0.write_to(&mut out.writer_for_next_arg());
    }
}

/// The key of the hash of the waits inside the holds of an owner.
pub(crate) fn waits_of(owner: OwnerId) -> String {
    format!("reentry:waits:{{{owner}}}")
}

/// The slot of that key in a cluster.
pub(crate) fn slot_of_waits(owner: OwnerId) -> u16 {
    slot_of(waits_of(owner).as_bytes())
}

/// The key of the victim of a cycle, by its least wait.
pub(crate) fn victim(least: HoldId) -> String {
    format!("reentry:victim:{least}")
}

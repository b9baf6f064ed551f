//! The Redis keys of a lock. All of them lie in one slot of a Redis Cluster.

use std::io::Write;

use deadpool_redis::redis::{RedisWrite, ToRedisArgs};

use crate::{
    id::HoldId,
    key::{LockKey, RESERVED},
};

/// A key beside that of the lock, in its slot. Injective: the kind holds no colon, and the tag no
/// closing brace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sibling<'k> {
    kind: &'static str,
    key: &'k LockKey,
    hold: Option<HoldId>,
}

/// The string of the lock's fencing token, whom it was given to, and the last depth change.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::id::Owner;

    fn text(sibling: Sibling<'_>) -> String {
        let args = sibling.to_redis_args();
        assert_eq!(args.len(), 1);
        String::from_utf8_lossy(&args[0]).into_owned()
    }

    /// CRC16 as the cluster specification defines it (XMODEM), modulo the number of slots.
    fn slot(key: &str) -> u16 {
        let tag = key
            .split_once('{')
            .and_then(|(_, rest)| rest.split_once('}'))
            .map(|(tag, _)| tag)
            .filter(|tag| !tag.is_empty())
            .unwrap_or(key);
        let crc = tag.bytes().fold(0u16, |crc, byte| {
            (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
                if crc & 0x8000 == 0 {
                    crc << 1
                } else {
                    (crc << 1) ^ 0x1021
                }
            })
        });
        crc % 16384
    }

    #[test]
    fn the_slot_is_that_of_the_cluster_specification() {
        assert_eq!(slot("123456789"), 0x31C3);
        assert_eq!(slot("{user1000}.following"), slot("user1000"));
    }

    proptest! {
        #[test]
        fn siblings_lie_in_the_slot_of_their_lock(name in "[a-c:{}é]{1,12}") {
            if let Ok(key) = LockKey::new("", &name) {
                for sibling in [meta(&key), queue(&key), entries(&key)] {
                    prop_assert_eq!(slot(&text(sibling)), slot(&name));
                }
                prop_assert_eq!(slot(&text(tombstone(&key, Owner::new().next_hold()))), slot(&name));
            }
        }

        #[test]
        fn siblings_are_injective(one in "[a-b:{}]{1,9}", other in "[a-b:{}]{1,9}") {
            let hold = Owner::new().next_hold();
            if let (Ok(a), Ok(b)) = (LockKey::new("", &one), LockKey::new("", &other)) {
                prop_assert_eq!(text(meta(&a)) == text(meta(&b)), one == other);
                prop_assert_eq!(text(queue(&a)) == text(queue(&b)), one == other);
                prop_assert_ne!(text(queue(&a)), text(entries(&b)));
                prop_assert_eq!(text(tombstone(&a, hold)) == text(tombstone(&b, hold)), one == other);
                prop_assert_ne!(text(meta(&a)), text(tombstone(&b, hold)));
            }
        }
    }
}

//! The Redis keys of a lock. All of them lie in one slot of a Redis Cluster.

use crate::{
    id::HoldId,
    key::{LockKey, RESERVED},
};

/// The string of the lock's fencing token, whom it was given to, and the last depth change.
pub(super) fn meta(key: &LockKey) -> String {
    sibling("meta", key)
}

/// The sorted set of the processes that wait, by their inboxes.
pub(super) fn queue(key: &LockKey) -> String {
    sibling("queue", key)
}

/// The hash of what each of them waits for.
pub(super) fn entries(key: &LockKey) -> String {
    sibling("entries", key)
}

/// The string that says that a hold has ended.
pub(super) fn tombstone(key: &LockKey, hold: HoldId) -> String {
    let mut name = sibling("gone", key);
    name.reserve_exact(64);
    name.push(':');
    hold.write_to(&mut name);
    name
}

/// Injective: the kind holds no colon, and the tag no closing brace.
fn sibling(kind: &str, key: &LockKey) -> String {
    [RESERVED, kind, ":{", key.hash_tag(), "}:", key.as_str()].concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::id::Owner;

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
                    prop_assert_eq!(slot(&sibling), slot(&name));
                }
                prop_assert_eq!(slot(&tombstone(&key, Owner::new().next_hold())), slot(&name));
            }
        }

        #[test]
        fn siblings_are_injective(one in "[a-b:{}]{1,9}", other in "[a-b:{}]{1,9}") {
            let hold = Owner::new().next_hold();
            if let (Ok(a), Ok(b)) = (LockKey::new("", &one), LockKey::new("", &other)) {
                prop_assert_eq!(meta(&a) == meta(&b), one == other);
                prop_assert_eq!(queue(&a) == queue(&b), one == other);
                prop_assert_ne!(queue(&a), entries(&b));
                prop_assert_eq!(tombstone(&a, hold) == tombstone(&b, hold), one == other);
                prop_assert_ne!(meta(&a), tombstone(&b, hold));
            }
        }
    }
}

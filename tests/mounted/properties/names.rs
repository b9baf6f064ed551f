//! The properties of the keys of every lock, according to the cluster specification.
//!
//! Mounted by `src/store/redis/codec.rs`.

use redis::ToRedisArgs;

use super::EntriesKey;
use crate::base::error::LockError;
use crate::base::key::{LockKey, RESERVED_PREFIX};
use crate::base::sanitize::Sanitized;

/// A name is accepted if and only if the keys next to the lock can be in its slot. Then they are, and no other lock has
/// any of them. A prefix after which some name is accepted is accepted.
pub(crate) fn key(prefix: &str, name: &str, other: &str) {
    let Some(one) = accepted(prefix, name) else {
        return;
    };
    let siblings = siblings(&one);
    for (at, sibling) in siblings.iter().enumerate() {
        assert_eq!(slot(sibling), slot(one.as_str()), "{sibling}");
        assert!(!siblings[..at].contains(sibling), "{sibling} twice");
        // So no lock has the name of a key next to another lock.
        assert!(LockKey::new("", sibling).is_err(), "{sibling}");
    }
    if let Some(other) = accepted(prefix, other) {
        let shared = self::siblings(&other)
            .iter()
            .filter(|sibling| siblings.contains(sibling))
            .count();
        let same = if one == other { siblings.len() } else { 0 };
        assert_eq!(shared, same, "{one:?} and {other:?}");
    }
}

/// The lock of this name, if it can have one. The error names the name.
fn accepted(prefix: &str, name: &str) -> Option<LockKey> {
    let full = format!("{prefix}{name}");
    let valid =
        !name.is_empty() && !full.starts_with(RESERVED_PREFIX) && !tag(&full).contains(&b'}');
    match LockKey::new(prefix, name) {
        Ok(key) => {
            assert!(valid, "{full:?} was accepted");
            assert_eq!(LockKey::refusal_of(prefix), None, "{full:?}");
            assert_eq!((key.name(), key.as_str()), (name, &*full));
            assert_eq!(tag(key.queue()), tag(&full));
            Some(key)
        }
        Err(error) => {
            assert!(!valid, "{full:?} was refused: {error}");
            assert!(matches!(error, LockError::Misuse { .. }));
            assert_eq!(error.key(), Some(name));
            assert!(
                error
                    .to_string()
                    .contains(&format!("`{}`", Sanitized(name)))
            );
            None
        }
    }
}

fn siblings(key: &LockKey) -> [String; 2] {
    let args = EntriesKey(key).to_redis_args();
    assert_eq!(args.len(), 1);
    let entries = String::from_utf8_lossy(&args[0]).into_owned();
    [key.queue().to_owned(), entries]
}

/// The bytes that Redis Cluster hashes. They are those between the first `{` and the first `}` after it, or all of them
/// if there are none.
fn tag(key: &str) -> &[u8] {
    let key = key.as_bytes();
    let position = |from: usize, byte| (from..key.len()).find(|&at| key[at] == byte);
    let open = position(0, b'{');
    let pair = open.and_then(|open| Some((open + 1, position(open, b'}')?)));
    match pair {
        Some((begin, end)) if begin < end => &key[begin..end],
        _ => key,
    }
}

/// CRC16 as the cluster specification defines it (XMODEM), modulo the number of slots.
fn slot(key: &str) -> u16 {
    let crc = tag(key).iter().fold(0u16, |crc, &byte| {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_slot_is_that_of_the_cluster_specification() {
        assert_eq!(slot("123456789"), 0x31C3);
        assert_eq!(slot("{user1000}.following"), slot("user1000"));
        assert_eq!(slot("foo{}{bar}"), crc_of_whole("foo{}{bar}"));
        assert_eq!(slot("foo{{bar}}zap"), slot("{bar"));
    }

    /// The slot of a key without a tag.
    fn crc_of_whole(key: &str) -> u16 {
        assert_eq!(tag(key), key.as_bytes());
        slot(key)
    }

    proptest! {
        /// There are few letters, so that two keys are often equal, or nearly.
        #[test]
        fn the_keys_of_a_lock_lie_in_its_slot_and_are_its_own(
            prefix in "[a:{}]{0,3}",
            name in "[a-b:{}]{0,9}",
            other in "[a-b:{}]{0,9}",
        ) {
            key(&prefix, &name, &other);
        }

        #[test]
        fn any_text_is_accepted_or_named(
            prefix in "(reentry:?|\\PC{0,8})",
            name in "(\\PC|[{}:]|\\s){0,24}",
        ) {
            key(&prefix, &name, &name);
        }
    }
}

//! The names of locks: the keys in a request, their validation, and the slot of a Redis Cluster that contains a key.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use crate::base::error::LockError;
use crate::base::metrics::Class;

/// The prefix of the crate's own keys. No key of a lock may begin with it.
pub(crate) const RESERVED_PREFIX: &str = "reentry:";

/// The prefix of the key of a lock's queue in Redis, up to the brace of the hash tag.
const QUEUE_PREFIX: &str = "reentry:queue:";

/// A valid lock name, together with the prefix of its `Locks`. Two are equal if they are the same key in the store.
#[derive(Clone)]
pub(crate) struct LockKey {
    /// The key of the lock's queue in Redis, which ends with the lock's own key. It consists of [`QUEUE_PREFIX`], the hash tag
    /// in braces, a colon, the prefix and the name.
    queue: Arc<str>,
    /// The offset of the prefix in `queue`.
    full: u32,
    /// The offset of the name in `queue`.
    name: u32,
    /// The class under which the metrics count the key.
    class: Class,
}

impl LockKey {
    /// Checks the name of a lock.
    ///
    /// The hash tag determines the slot of a key in a Redis Cluster
    /// ([cluster specification](https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags)).
    /// The lock's companion keys repeat its tag in braces, so the tag itself must not contain `}`.
    pub(crate) fn new(prefix: &str, name: &str) -> Result<Self, LockError> {
        Self::parse(prefix, name)
            .map_err(|reason| LockError::misuse(name, format!("invalid key `{name}`: {reason}")))
    }

    fn parse(prefix: &str, name: &str) -> Result<Self, &'static str> {
        if name.is_empty() {
            return Err("a key must not be empty");
        }
        // Most programs set no prefix. Then nothing is copied here.
        let full = match prefix {
            "" => Cow::Borrowed(name),
            _ => Cow::Owned([prefix, name].concat()),
        };
        // Such a key could be the queue of another lock.
        if full.starts_with(RESERVED_PREFIX) {
            return Err("keys that begin with `reentry:` are reserved for the crate");
        }
        let tag = full.get(hash_tag(full.as_bytes())).unwrap_or(&full);
        // The companion keys put the tag into braces. It would end at the first `}` there: they would be in another
        // slot, or be the companions of another lock.
        if tag.contains('}') {
            return Err("a key without a hash tag must not contain `}`");
        }
        let queue = [QUEUE_PREFIX, "{", tag, "}:", &full].concat();
        let begins = |tail: &str| u32::try_from(queue.len() - tail.len());
        let (Ok(full), Ok(name)) = (begins(&full), begins(name)) else {
            return Err("a key must be shorter than 2 GiB");
        };
        Ok(Self {
            full,
            name,
            queue: queue.into(),
            class: Class::default(),
        })
    }

    /// Sets the class under which the metrics count the key.
    pub(crate) fn set_class(&mut self, class: Class) {
        self.class = class;
    }

    pub(crate) fn class(&self) -> &Class {
        &self.class
    }

    /// Returns the reason why no name is valid with this prefix, or `None` if some names are valid.
    pub(crate) fn refusal_of(prefix: &str) -> Option<&'static str> {
        // A name with a hash tag is valid whenever any name is. It provides the tag if the prefix has none, completes
        // the tag that the prefix begins, and has no effect otherwise.
        Self::parse(prefix, "{tag}").err()
    }

    /// The key as the caller wrote it, without the prefix.
    pub(crate) fn name(&self) -> &str {
        self.tail(self.name)
    }

    /// The key in the store.
    pub(crate) fn as_str(&self) -> &str {
        self.tail(self.full)
    }

    fn tail(&self, begins: u32) -> &str {
        let begins = usize::try_from(begins).unwrap_or(usize::MAX);
        self.queue.get(begins..).unwrap_or_default()
    }

    /// The key of the lock's queue in Redis, in the slot of the lock. No two locks share it, because a hash tag
    /// contains no closing brace.
    pub(crate) fn queue(&self) -> &str {
        &self.queue
    }

    /// The slot of a Redis Cluster that contains all keys of the lock.
    pub(crate) fn slot(&self) -> u16 {
        slot_of(self.as_str().as_bytes())
    }

    /// The order in which several keys are acquired together. It is the same in every process.
    pub(crate) fn order(&self) -> impl Ord {
        // By slot first, so that keys whose requests may travel together in a cluster follow each other.
        (self.slot(), self.as_str())
    }

    /// The end that all companion keys of the lock have in common, after their kind.
    pub(crate) fn suffix(&self) -> &str {
        self.queue.get(QUEUE_PREFIX.len()..).unwrap_or_default()
    }
}

/// The range of a key that Redis Cluster hashes. It is between the first `{` and the next `}`. It is the whole key if
/// there is no such pair, or no text between.
fn hash_tag(key: &[u8]) -> Range<usize> {
    let position = |byte, from: usize| {
        let rest = key.get(from..)?;
        Some(from + rest.iter().position(|&other| other == byte)?)
    };
    let tag = position(b'{', 0).and_then(|open| Some(open + 1..position(b'}', open + 1)?));
    tag.filter(|tag| !tag.is_empty()).unwrap_or(0..key.len())
}

impl PartialEq for LockKey {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for LockKey {}

impl Hash for LockKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

/// A map of keys can be searched by the key in the store.
impl Borrow<str> for LockKey {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Debug for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// The number of slots of a cluster.
pub(crate) const SLOTS: u16 = 1 << 14;

/// The slot of a key.
pub(crate) fn slot_of(key: &[u8]) -> u16 {
    slot_of_tag(key.get(hash_tag(key)).unwrap_or(key))
}

/// The slot of the keys with this hash tag, as the
/// [cluster specification](https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/) defines it.
fn slot_of_tag(tag: &[u8]) -> u16 {
    tag.iter().copied().fold(0, crc16) % SLOTS
}

/// CRC-16/XMODEM.
fn crc16(crc: u16, byte: u8) -> u16 {
    (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
        let carries = crc & 0x8000 != 0;
        (crc << 1) ^ if carries { 0x1021 } else { 0 }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_refused_where_every_name_is() {
        for prefix in ["reentry:", "reentry:app:", "{}", "app:{}", "}{}", "{}{tag}"] {
            assert!(LockKey::refusal_of(prefix).is_some(), "{prefix}");
        }
        for prefix in ["", "app:", "reentry", "{tag}", "{tag}{}", "{", "}", "}{"] {
            assert_eq!(LockKey::refusal_of(prefix), None, "{prefix}");
        }
    }

    #[test]
    fn several_keys_are_ordered_by_slot_and_then_by_their_bytes() {
        let names = ["foo", "123456789", "bar", "{bar}:2", "{bar}:10"];
        let keys = names.map(|name| LockKey::new("", name));
        let mut keys: Vec<_> = keys.into_iter().filter_map(Result::ok).collect();
        keys.sort_by(|one, other| one.order().cmp(&other.order()));
        let ordered: Vec<_> = keys.iter().map(LockKey::name).collect();
        assert_eq!(ordered, ["bar", "{bar}:10", "{bar}:2", "foo", "123456789"]);
    }

    #[test]
    fn the_name_leaves_out_the_prefix() {
        let key = LockKey::new("app:", "order:42").ok();
        assert_eq!(key.as_ref().map(LockKey::name), Some("order:42"));
        assert_eq!(key.as_ref().map(LockKey::as_str), Some("app:order:42"));
    }

    /// The result of `CLUSTER KEYSLOT`.
    #[test]
    fn the_slot_is_that_of_redis_cluster() {
        for (tag, slot) in [
            ("", 0),
            ("123456789", 12_739),
            ("foo", 12_182),
            ("bar", 5_061),
        ] {
            assert_eq!(slot_of_tag(tag.as_bytes()), slot, "{tag}");
        }
    }

    #[test]
    fn the_first_hash_tag_decides_the_slot() {
        for (key, tag) in [
            ("order:{foo}", "foo"),
            ("{foo}{bar}", "foo"),
            ("{}foo", "{}foo"),
            ("{foo", "{foo"),
            ("{{foo}}", "{foo"),
        ] {
            assert_eq!(
                slot_of(key.as_bytes()),
                slot_of_tag(tag.as_bytes()),
                "{key}"
            );
        }
    }
}

//! The identities of holders: the owner of a call graph, its holds, and the fencing token of each hold.

use std::fmt;
use std::io::{self, Write};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::process::ProcessId;

#[cfg(any(test, fuzzing))]
#[path = "../../tests/mounted/properties/id.rs"]
pub(crate) mod properties;

/// The identity of one call graph: a random UUID (version 4). All ids of one process begin with the same 48 bits, which
/// identify the process, and have 74 random bits of their own. These come from the operating system, so no fork makes
/// them twice.
///
/// It is created when a call graph acquires its first lock. Every lock that is acquired further down in this call graph
/// has the same owner in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerId(Uuid);

impl OwnerId {
    /// The process of the call graph.
    pub(crate) fn process(self) -> ProcessId {
        ProcessId::from_uuid(self.0)
    }

    /// Returns the owner in a field of the lock's hash, `<uuid>:<integer>`, or `None` for any other text.
    ///
    /// The classic implementations also write fields of this form.
    pub(crate) fn parse_field(field: &str) -> Option<Self> {
        let (owner, number) = field.split_once(':')?;
        number.parse::<u64>().ok()?;
        Uuid::try_parse(owner).ok().map(Self)
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The identity of one hold, that is, of one outermost acquisition: `<owner>:<number>`.
///
/// It is unique for ever, and is the field of the hold in the Redis hash. Parsing accepts only the text that
/// [`Display`](fmt::Display) prints.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HoldId {
    owner: OwnerId,
    number: u64,
}

impl HoldId {
    /// No hold is before it, and none is it.
    pub(crate) const LEAST: Self = Self {
        owner: OwnerId(Uuid::nil()),
        number: 0,
    };

    /// Returns the call graph that the hold belongs to.
    #[must_use]
    pub const fn owner(&self) -> OwnerId {
        self.owner
    }

    /// The number of the hold among the holds of its owner, counted from 1.
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// Writes the text of the id without allocating a string.
    pub(crate) fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        // Each request contains the id, so it is written in one piece, from the stack.
        let mut number = itoa::Buffer::new();
        let number = number.format(self.number).as_bytes();
        let mut text = [b':'; Hyphenated::LENGTH + 1 + u64::MAX.ilog10() as usize + 1];
        self.owner.0.hyphenated().encode_lower(&mut text);
        let text = &mut text[..Hyphenated::LENGTH + 1 + number.len()];
        text[Hyphenated::LENGTH + 1..].copy_from_slice(number);
        out.write_all(text)
    }
}

impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.owner, self.number)
    }
}

impl fmt::Debug for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The error of parsing a text that does not have the form `<uuid>:<integer>` of a [`HoldId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a hold id must have the form `<uuid>:<integer>`")]
pub struct ParseHoldIdError(());

impl FromStr for HoldId {
    type Err = ParseHoldIdError;

    fn from_str(text: &str) -> Result<Self, ParseHoldIdError> {
        let parse = || {
            // `parse_field` also accepts the spellings of other programs.
            let owner = OwnerId::parse_field(text)?;
            let (_, number) = text.split_once(':')?;
            let number = number.parse().ok()?;
            Some(Self { owner, number })
        };
        // A different spelling of the number, for example `+1`, is a different field.
        parse()
            .filter(|hold| hold.to_string() == text)
            .ok_or(ParseHoldIdError(()))
    }
}

/// The name of the channel on which a `Locks` receives the message that a lock has moved to it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct InboxId([u8; Self::LENGTH]);

impl InboxId {
    const PREFIX: &str = "reentry:inbox:";
    const LENGTH: usize = Self::PREFIX.len() + Hyphenated::LENGTH;

    pub(crate) fn new() -> Self {
        // An array, so that the entries that contain it are copied without an allocation.
        let mut name = [0; Self::LENGTH];
        let (prefix, id) = name.split_at_mut(Self::PREFIX.len());
        prefix.copy_from_slice(Self::PREFIX.as_bytes());
        ProcessId::new_uuid().hyphenated().encode_lower(id);
        Self(name)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The part of the name that is different for each inbox.
    pub(crate) fn id(&self) -> &[u8] {
        self.0.split_at(Self::PREFIX.len()).1
    }
}

impl fmt::Display for InboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for InboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A number that increases with every outermost acquisition of a key.
///
/// Pass it to the resource that the lock protects, and let the resource reject every write whose token is smaller than
/// the greatest that it has seen. This keeps out a stale holder even when the lock cannot: after a pause, after a
/// failover, or when a server has lost its data. See Martin Kleppmann,
/// [*How to do distributed locking*](https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html).
///
/// A token is the server's time in microseconds. When the lock moves from one hold to the next, the new token is at
/// least one more than the last. So tokens increase across expiry, `FLUSHALL`, and a restart that lost the data, on one
/// condition. The server's clock must not be set back by more than the time since the last acquisition in the store,
/// less 1 µs for each later hand-off in memory. If several servers may serve the key one after another (failover, moved
/// slot), their clocks must differ by less than that time.
///
/// After a lease has expired, an old holder may still write. In this case the token increases without that condition,
/// because the lock expires by the clock that created its token. A token is less than 2^53 until the year 2255, so it
/// fits an `i64`, and a number in JSON.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), reentry::LockError> {
/// let locks = reentry::Locks::in_memory();
/// let mut seen = None; // stored by the resource
/// for _ in 0..2 {
///     let guard = locks.lock("order:42").acquire().await?;
///     let token = guard.held().fencing_token();
///     assert!(seen.is_none_or(|seen| seen < token));
///     seen = Some(token);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FencingToken(pub(crate) u64);

impl FencingToken {
    /// Returns the token as a signed 64-bit integer, for databases. No token of a store is too great for it. A greater
    /// number becomes `i64::MAX`.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let guard = locks.lock("order:42").await?;
    /// let token = guard.held().fencing_token();
    /// assert_eq!(u64::try_from(token.as_i64()), Ok(u64::from(token)));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn as_i64(self) -> i64 {
        i64::try_from(self.0).unwrap_or(i64::MAX)
    }
}

/// A token that the resource has stored.
impl From<u64> for FencingToken {
    fn from(token: u64) -> Self {
        Self(token)
    }
}

impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> Self {
        token.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A call graph that has acquired at least one lock: its id, and the counter of its holds.
#[derive(Debug)]
pub(crate) struct Owner {
    id: OwnerId,
    holds: AtomicU64,
}

impl Owner {
    pub(crate) fn new() -> Self {
        Self {
            id: OwnerId(ProcessId::new_uuid()),
            holds: AtomicU64::new(0),
        }
    }

    pub(crate) fn id(&self) -> OwnerId {
        self.id
    }

    pub(crate) fn next_hold(&self) -> HoldId {
        // Only that no number is given twice matters, not the order in which threads get them.
        let number = self.holds.fetch_add(1, Ordering::Relaxed) + 1;
        HoldId {
            owner: self.id,
            number,
        }
    }
}

//! The form of everything that goes to Redis and comes back, as `docs/wire.md` describes it: keys, arguments, the values
//! of a reply, and messages. The verbs share these values and the limits of the scripts with the store in memory.
//!
//! All keys of a lock are in one slot of a Redis Cluster. The keys of the search for deadlocks are used alone.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use redis::{RedisWrite, ToRedisArgs, Value};

use crate::base::id::{FencingToken, HoldId, InboxId, OwnerId};
use crate::base::key::{LockKey, slot_of};
use crate::base::lease_times::StoreTime;

#[cfg(any(test, fuzzing))]
#[path = "../../../tests/mounted/properties/names.rs"]
pub(crate) mod properties;

/// The least score of a tombstone. No place has such a high order.
pub(crate) const TOMBSTONES_FROM: u64 = 1 << 52;

/// The least number from which on neither Lua nor JSON represents every integer exactly. No clock gives such a token
/// before the year 2255.
pub(crate) const INEXACT_FROM: u64 = 1 << 53;

/// The time for which an ended hold is remembered, and so the maximum delay of a request.
pub(crate) const TOMBSTONE_LIFE: Duration = Duration::from_secs(600);

/// The maximum time for which a depth change is remembered after the last one of its lock. The minimum is half of it.
pub(crate) const SEQ_LIFE: Duration = TOMBSTONE_LIFE.saturating_mul(2);

/// The number of fields from which on a script reads only a part of a hash, and the number of expired readers that it
/// removes. Any hash may be at the key of a lock, and the server does nothing else while a script runs. It is enough for
/// all [holders that are shown](crate::store::verbs::inspect::MAX_HOLDERS_SHOWN).
pub(crate) const MAX_FIELDS_READ: u64 = 1_024;

/// The limits with their names in the scripts. A life is in ms.
pub(crate) fn limits_in_scripts() -> [(&'static str, u128); 5] {
    [
        ("TOMBSTONES_FROM", TOMBSTONES_FROM.into()),
        ("INEXACT_FROM", INEXACT_FROM.into()),
        ("TOMBSTONE_LIFE", TOMBSTONE_LIFE.as_millis()),
        ("SEQ_LIFE", SEQ_LIFE.as_millis()),
        ("MAX_FIELDS_READ", MAX_FIELDS_READ.into()),
    ]
}

/// The channel of the messages to all processes.
pub(crate) const TO_ALL: &str = "reentry:inbox:all";

/// The key of the hash with the entry of each process in the queue, and the last depth changes. The key of the queue
/// itself is [`LockKey::queue`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntriesKey<'k>(pub(crate) &'k LockKey);

/// The key is written into the command itself, without a string of its own.
impl ToRedisArgs for EntriesKey<'_> {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        let mut out = out.writer_for_next_arg();
        // Writing to memory cannot fail.
        let _ = out.write_all(b"reentry:entries:");
        let _ = out.write_all(self.0.suffix().as_bytes());
    }
}

/// The argument that names holds, joined by commas. One hold is the field in the hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HoldsArg<H>(pub(crate) H);

impl<H: IntoIterator<Item = HoldId> + Clone> ToRedisArgs for HoldsArg<H> {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        let mut out = out.writer_for_next_arg();
        for (at, hold) in self.0.clone().into_iter().enumerate() {
            // Writing to memory cannot fail.
            let _ = if at > 0 { out.write_all(b",") } else { Ok(()) };
            let _ = hold.write_to(&mut out);
        }
    }
}

/// The key of the hash of the waits inside the holds of an owner.
pub(crate) fn waits_key(owner: OwnerId) -> String {
    format!("reentry:waits:{{{owner}}}")
}

/// The slot of that key in a cluster.
pub(crate) fn waits_slot(owner: OwnerId) -> u16 {
    slot_of(waits_key(owner).as_bytes())
}

/// The key of the victim of a cycle, by its least wait.
pub(crate) fn victim_key(least: HoldId) -> String {
    format!("reentry:victim:{least}")
}

pub(crate) fn read_array(reply: &Value) -> Option<&[Value]> {
    match reply {
        Value::Array(values) => Some(values),
        _ => None,
    }
}

/// The values of an array of integers. The driver's own conversion would also truncate a float.
pub(crate) fn read_integers(reply: &Value) -> Option<Vec<i64>> {
    let integer = |value: &Value| match value {
        Value::Int(integer) => Some(*integer),
        _ => None,
    };
    read_array(reply)?.iter().map(integer).collect()
}

pub(crate) fn read_millis(millis: i64) -> Option<Duration> {
    u64::try_from(millis).ok().map(Duration::from_millis)
}

pub(crate) fn read_micros(micros: i64) -> Option<StoreTime> {
    let micros = u64::try_from(micros).ok()?;
    Some(StoreTime { micros })
}

/// A token; 0 means none.
pub(crate) fn read_token(token: i64) -> Option<Option<FencingToken>> {
    // A script could not have read a greater one exactly.
    let token = u64::try_from(token).ok().filter(|it| *it < INEXACT_FROM)?;
    Some((token > 0).then_some(FencingToken(token)))
}

pub(crate) fn read_hold(value: &Value) -> Option<HoldId> {
    match value {
        Value::BulkString(bytes) => str::from_utf8(bytes).ok()?.parse().ok(),
        _ => None,
    }
}

pub(crate) fn read_flag(reply: &Value) -> Option<bool> {
    match reply {
        Value::Int(1) => Some(true),
        Value::Int(0) => Some(false),
        _ => None,
    }
}

/// The way in which a process waits in the queue of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct QueueEntry {
    pub(crate) inbox: InboxId,
    /// The lease of a lock that moves to the process.
    pub(crate) grant: Duration,
    /// The time for which its place is kept after the last request.
    pub(crate) life: Duration,
}

/// The message that a lock has moved to holds that were waiting.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HandoffMessage {
    /// The key in the store.
    pub(crate) key: String,
    /// One hold, or the holds of several readers.
    pub(crate) holds: Vec<HoldId>,
    pub(crate) token: FencingToken,
    /// The time at which it has moved.
    pub(crate) at: StoreTime,
    /// The lease, counted from that time.
    pub(crate) lease: Duration,
}

/// The message, to all processes, that holds were ended by force.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ForcedMessage {
    /// The key in the store.
    pub(crate) key: String,
    pub(crate) holds: Vec<HoldId>,
}

/// The receiver of the messages that go to all processes.
pub(crate) trait ForcedReleaseListener: Send + Sync {
    /// Holds were ended by force. The list also has holds of other processes and of other `Locks`.
    fn forced(&self, message: ForcedMessage);
}

/// The receiver of the messages that a lock has moved.
pub(crate) trait MessageListener: Send + Sync {
    /// A lock has moved to holds of this process.
    fn handoff(&self, message: HandoffMessage);

    /// Another process has begun to wait for a lock that this process holds.
    fn contended(&self, _key: &str) {}

    /// Messages may have been missed up to now, or may be missed from now on. The inbox is open, or broken.
    fn missed(&self);
}

/// An acquisition that waits while holds enclose it. It is published, so that processes that wait for each other can
/// find each other. The record says who waits, for which lock, and which holds cannot end before the wait does.
///
/// A record is stored for a short time with the owner of each hold that encloses the wait. No record decides who has a
/// lock. A record that is lost, late or forged can only delay the search for deadlocks, or cause an unnecessary victim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EnclosedWait {
    /// The id of the hold that it will have.
    pub(crate) id: HoldId,
    /// The key in the store that it waits for.
    pub(crate) key: Arc<str>,
    /// The holds that end after it, each with its key.
    pub(crate) enclosing: Vec<OuterHold>,
}

/// A hold that encloses a wait.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OuterHold {
    pub(crate) hold: HoldId,
    /// The key in the store that it holds.
    pub(crate) key: Arc<str>,
}

impl EnclosedWait {
    /// Returns whether it is inside this hold.
    pub(crate) fn is_enclosed_by(&self, hold: HoldId) -> bool {
        self.enclosing
            .iter()
            .any(|enclosing| enclosing.hold == hold)
    }
}

/// The result of a change of the published waits, with the time of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpdateWaitReply {
    Done(StoreTime),
    /// The record has taken too long to arrive, and is not stored.
    Late(StoreTime),
}

/// The delay after which a publication is rejected if its record has this lifetime.
pub(crate) fn lateness(life: Duration) -> Duration {
    life / 4
}

/// The records that existed at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedWaits {
    pub(crate) at: StoreTime,
    pub(crate) waits: Vec<ListedWait>,
}

/// A record of a published wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedWait {
    pub(crate) wait: EnclosedWait,
    /// The time of the last publication.
    pub(crate) stamp: StoreTime,
    /// The lifetime of the record, counted from then.
    pub(crate) life: Duration,
}
/// Reads which holds were ended by force: the holds, joined by commas, and the key. Holders of other programs may be
/// among them, and are omitted.
pub(super) fn read_forced(text: &str) -> Option<ForcedMessage> {
    let (holds, key) = text.split_once(' ')?;
    // A program of the classic scheme has fields of another form.
    let holds = holds.split(',').filter_map(|hold| hold.parse().ok());
    Some(ForcedMessage {
        key: key.to_owned(),
        holds: holds.collect(),
    })
}

/// Reads that a lock has moved: the holds, joined by commas, the token, the time in µs, the lease in ms, and the key.
pub(crate) fn read_handoff(text: &str) -> Option<HandoffMessage> {
    // The key comes last, because it may contain spaces.
    let mut words = text.splitn(5, ' ');
    let mut word = || words.next();
    let holds = word()?.split(',').map(|hold| hold.parse().ok());
    // A lock moves only to holds of this crate, so any other id shows that this is no message of it.
    let holds = holds.collect::<Option<_>>()?;
    let [token, at, lease] = [word()?, word()?, word()?].map(|word| word.parse().ok());
    Some(HandoffMessage {
        holds,
        token: read_token(token?)??,
        at: read_micros(at?)?,
        lease: read_millis(lease?)?,
        key: word()?.to_owned(),
    })
}

//! One call that executes many short requests.

use std::cmp::Ordering;
use std::time::Duration;

use redis::Value;

use super::codec::{EntriesKey, HoldArg, HoldsArg};
use super::lua::script;
use crate::base::id::{HoldId, InboxId};
use crate::base::key::LockKey;
use crate::base::options::Mode;
use crate::base::write_signal::WriteSignal;
use crate::redis::{Call, Script};

/// A request in the form in which it travels with others. It is an acquire of a lock that is free, or a release of a
/// lock that no process waits for.
#[derive(Clone, Debug)]
pub(crate) struct BatchItem {
    pub(crate) key: LockKey,
    pub(crate) hold: HoldId,
    pub(crate) verb: BatchedVerb,
    /// The signal that it was written, if its caller waits for no more.
    pub(crate) written: Option<WriteSignal>,
}

/// The purpose of a short request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BatchedVerb {
    /// The acquire of a lock that is free and that no process waits for.
    Acquire {
        ttl: Duration,
        /// The inbox that gets a message when another process begins to wait.
        contended_inbox: Option<InboxId>,
    },
    /// The end of a hold, if no process waits for its lock. The hold has left nothing but its field in the store, and
    /// its lease if it is a reader.
    Release {
        /// Whether the hold shares the lock.
        mode: Mode,
    },
}

impl BatchItem {
    /// Returns whether it ends a hold.
    pub(crate) fn is_release(&self) -> bool {
        matches!(self.verb, BatchedVerb::Release { .. })
    }
}

/// The maximum number of requests of one call, so that no script keeps the server busy for long.
pub(crate) const MAX_BATCH_ITEMS: usize = 32;

/// The kind of a request. The script executes one kind after the other, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ItemKind {
    Release,
    ReaderRelease,
    Acquire,
}

pub(crate) fn kind(request: &BatchItem) -> ItemKind {
    match request.verb {
        BatchedVerb::Release { mode: Mode::Shared } => ItemKind::ReaderRelease,
        BatchedVerb::Release { .. } => ItemKind::Release,
        BatchedVerb::Acquire { .. } => ItemKind::Acquire,
    }
}

/// The terms that the requests of one call have in common.
pub(crate) type AcquireTerms = (Duration, Option<InboxId>);

pub(crate) fn script() -> &'static Script {
    script!("batch")
}

/// The terms with which a request takes a lock. A release has no terms in common with other requests.
pub(crate) fn terms(request: &BatchItem) -> Option<AcquireTerms> {
    match request.verb {
        BatchedVerb::Acquire {
            ttl,
            contended_inbox,
        } => Some((ttl, contended_inbox)),
        BatchedVerb::Release { .. } => None,
    }
}

/// Puts requests into the order in which [`call`] needs them: by their [kinds](ItemKind), and the readers of a lock one
/// after the other, because these leave it together.
pub(crate) fn order(one: &BatchItem, other: &BatchItem) -> Ordering {
    let by_kind = kind(one).cmp(&kind(other));
    by_kind.then_with(|| match kind(one) {
        ItemKind::ReaderRelease => one.key.as_str().cmp(other.key.as_str()),
        ItemKind::Release | ItemKind::Acquire => Ordering::Equal,
    })
}

/// Returns whether both are readers that leave the same lock.
fn leave_together(one: &&BatchItem, other: &&BatchItem) -> bool {
    kind(one) == ItemKind::ReaderRelease && kind(other) == kind(one) && one.key == other.key
}

/// The call that executes these requests. They are in their [order], and the acquires have the same terms.
pub(crate) fn call(requests: &[&BatchItem]) -> Call {
    let steps = || requests.chunk_by(leave_together);
    let count = |its| steps().filter(|step| kind(step[0]) == its).count();
    let (releases, shared) = (count(ItemKind::Release), count(ItemKind::ReaderRelease));
    let call = script().call(2 * steps().count() + releases + shared);
    let call = steps().fold(call, |call, step| {
        let BatchItem { key, verb, .. } = step[0];
        let call = call.arg(key.as_str()).arg(key.queue());
        match verb {
            BatchedVerb::Release { .. } => call.arg(EntriesKey(key)),
            BatchedVerb::Acquire { .. } => call,
        }
    });
    let (ttl, contended_inbox) = requests.iter().find_map(|it| terms(it)).unwrap_or_default();
    let call = call.arg(releases).arg(shared).millis(ttl);
    let call = match contended_inbox {
        Some(inbox) => call.arg(inbox.id()),
        None => call.arg(""),
    };
    steps().fold(call, |call, step| match step {
        [one] => call.arg(HoldArg(one.hold)),
        readers => {
            let holds: Vec<_> = readers.iter().map(|it| it.hold).collect();
            call.arg(HoldsArg(&holds))
        }
    })
}

/// The reply to a release that is done, but that must be sent alone to let the next ones in.
pub(crate) const RELEASED: i64 = 2;

/// The replies to these requests, each as if its request had been sent alone, or [`RELEASED`]. A request whose reply is 0
/// has changed nothing, and must be sent alone. `None` if this is not a reply of the script.
pub(crate) fn replies(reply: &Value, requests: usize, releases: usize) -> Option<Vec<i64>> {
    let Value::Array(parts) = reply else {
        return None;
    };
    let [Value::Int(token), Value::BulkString(done)] = &parts[..] else {
        return None;
    };
    let reply = |(at, done): (usize, &u8)| match done {
        b'0' => Some(0),
        b'1' if at < releases => Some(1),
        b'2' if at < releases => Some(RELEASED),
        b'1' => Some(*token),
        _ => None,
    };
    let replies = done.iter().enumerate().map(reply).collect();
    (done.len() == requests).then_some(replies).flatten()
}

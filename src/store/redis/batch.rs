//! One call that executes many short requests.

use std::cmp::Ordering;
use std::time::Duration;

use redis::Value;

use super::codec::{EntriesKey, HoldsArg, read_array};
use super::lua;
use crate::base::background::WriteSignal;
use crate::base::id::{HoldId, InboxId};
use crate::base::key::LockKey;
use crate::redis::Call;

/// A request in the form in which it travels with others.
#[derive(Clone, Debug)]
pub(crate) struct BatchItem {
    pub(crate) key: LockKey,
    pub(crate) hold: HoldId,
    pub(crate) kind: ItemKind,
    /// The terms of an acquire. A release has none.
    pub(crate) terms: Option<AcquireTerms>,
    /// The signal that it was written, if its caller waits for no more.
    pub(crate) written: Option<WriteSignal>,
}

/// The kind of a request. The script executes one kind after the other, in this order.
///
/// A release is the end of a hold, if no process waits for its lock. The hold has left nothing but its field in the
/// store, and its lease if it is a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ItemKind {
    ReaderRelease,
    Release,
    /// The acquire of a lock that is free and that no process waits for.
    Acquire,
}

/// The terms that the acquires of one call have in common: the TTL, and the inbox that gets a message when another
/// process begins to wait.
pub(crate) type AcquireTerms = (Duration, Option<InboxId>);

/// The maximum number of requests of one call, so that no script keeps the server busy for long.
pub(crate) const MAX_BATCH_ITEMS: usize = 32;

impl BatchItem {
    pub(crate) fn is_release(&self) -> bool {
        self.kind != ItemKind::Acquire
    }
}

/// The order in which the script executes requests: by their [kinds](ItemKind), and the readers of a lock one after the
/// other, because these leave it together.
fn compare(one: &BatchItem, other: &BatchItem) -> Ordering {
    let by_kind = one.kind.cmp(&other.kind);
    by_kind.then_with(|| match one.kind {
        ItemKind::ReaderRelease => one.key.as_str().cmp(other.key.as_str()),
        ItemKind::Release | ItemKind::Acquire => Ordering::Equal,
    })
}

/// Returns whether both are readers that leave the same lock.
fn leave_together(one: &BatchItem, other: &BatchItem) -> bool {
    one.kind == ItemKind::ReaderRelease && other.kind == one.kind && one.key == other.key
}

/// The call that executes these requests, whose acquires have the same terms, and the positions of the requests in the
/// order of its replies.
pub(crate) fn call(requests: &[impl AsRef<BatchItem>]) -> (Call, Vec<usize>) {
    let request = |at: &usize| requests[*at].as_ref();
    let mut order = Vec::from_iter(0..requests.len());
    order.sort_by(|one, other| compare(request(one), request(other)));
    // Readers who leave one lock together are one step of the script, which names the keys once.
    let mut steps = Vec::with_capacity(requests.len());
    steps.extend(order.chunk_by(|one, other| leave_together(request(one), request(other))));
    let of_kind = |kind| {
        let kinds = steps.iter().map(|step| request(&step[0]).kind);
        kinds.filter(|it| *it == kind).count()
    };
    let (shared, releases) = (of_kind(ItemKind::ReaderRelease), of_kind(ItemKind::Release));
    let call = lua::BATCH.call(2 * steps.len() + shared + releases);
    // First come the keys: all locks, their queues, and the entries of those that are released. An acquire needs no
    // entries: it is done only if no process waits.
    let keys = || steps.iter().map(|step| &request(&step[0]).key);
    let call = call.args(keys().map(LockKey::as_str));
    let call = call.args(keys().map(LockKey::queue));
    let released = keys().take(shared + releases);
    let call = call.args(released.map(EntriesKey));
    // A call without an acquire has no terms, and its script does not read them.
    let (ttl, contended_inbox) = requests
        .iter()
        .find_map(|it| it.as_ref().terms)
        .unwrap_or_default();
    let call = call.arg(shared).arg(releases).millis(ttl);
    let call = match contended_inbox {
        Some(inbox) => call.arg(inbox.id()),
        None => call.arg(""),
    };
    let holds = steps
        .iter()
        .map(|step| step.iter().map(|at| request(at).hold));
    (call.args(holds.map(HoldsArg)), order)
}

/// The reply to a release that is done, but that must be sent alone to let the next ones in.
pub(crate) const RELEASED: i64 = 2;

/// The replies to the requests of a call, each as if its request had been sent alone, or [`RELEASED`]. A request whose reply
/// is 0 has changed nothing, and must be sent alone. `None` if this is not a reply of the script.
pub(crate) fn replies(reply: &Value, order: &[usize], releases: usize) -> Option<Vec<i64>> {
    let [Value::Int(token), Value::BulkString(done)] = read_array(reply)? else {
        return None;
    };
    if done.len() != order.len() {
        return None;
    }
    let mut replies = vec![0; done.len()];
    for (at, (done, request)) in done.iter().zip(order).enumerate() {
        // The releases come first. Only a release can be done in part, and only an acquire has a token.
        replies[*request] = match done {
            b'0' => 0,
            b'1' if at < releases => 1,
            b'2' if at < releases => RELEASED,
            b'1' => *token,
            _ => return None,
        };
    }
    Some(replies)
}

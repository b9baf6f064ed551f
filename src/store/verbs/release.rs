//! The end of a hold.

use redis::Value;
use tokio::time::Instant;

use super::{Presence, Verb};
use crate::base::background::WriteSignal;
use crate::base::id::{HoldId, InboxId};
use crate::base::key::LockKey;
use crate::base::options::Mode;
use crate::redis::{Call, Script};
use crate::store::memory::State;
use crate::store::redis::batch::{BatchItem, ItemKind};
use crate::store::redis::codec::{HoldsArg, read_flag};
use crate::store::redis::lua;
#[cfg(test)]
use crate::store::{PendingReply, Store};

/// Ends a hold, whether it is in the lock or in the queue, or an unanswered acquire may still put it there. The first in
/// the queue enter if there is room now.
#[derive(Clone, Debug)]
pub(crate) struct Release {
    pub(crate) key: LockKey,
    pub(crate) request: ReleaseRequest,
    /// The signal that it was written, if its caller waits for no more.
    pub(crate) written: Option<WriteSignal>,
}

/// The request that ends a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReleaseRequest {
    pub(crate) hold: HoldId,
    /// Whether the hold shares the lock, or wants to share it.
    pub(crate) mode: Mode,
    /// The inbox of the process that has the hold.
    pub(crate) inbox: InboxId,
    pub(crate) end: ReleaseKind,
    /// Whether other holds end with it, so that it waits for their requests.
    pub(crate) with_others: bool,
}

/// The way in which a hold ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReleaseKind {
    /// Only the field of the hold can be in the store, and the lease of a reader.
    Short,
    /// A place in the queue may remain as well.
    Full(Residue),
}

/// The data that a hold that ends may have left in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Residue {
    /// Whether an acquire of the hold is unanswered. It may still arrive, and is then rejected because of a tombstone.
    pub(crate) unanswered: bool,
    /// Whether the depth of the hold may have changed. The number of its last change is removed.
    pub(crate) nested: bool,
}

impl Verb for Release {
    type Reply = Presence;

    fn script() -> &'static Script {
        &lua::RELEASE
    }

    fn call(&self) -> Call {
        let ReleaseRequest {
            hold, mode, inbox, ..
        } = self.request;
        let call = Self::script().call_on_lock(&self.key).arg(HoldsArg([hold]));
        let Residue { unanswered, nested } = match (self.request.end, mode) {
            // It has no word, so that it costs no argument.
            (ReleaseKind::Short, Mode::Exclusive) => return call,
            (ReleaseKind::Short, Mode::Shared) => return call.arg("reader"),
            (ReleaseKind::Full(residue), _) => residue,
        };
        // One argument, in this order, because the script compares the whole text for the frequent ends.
        let words = [
            (mode == Mode::Shared, "reader "),
            (true, "full"),
            (unanswered, " unanswered"),
            (nested, " nested"),
        ];
        let said = words.iter().filter(|(is_said, _)| *is_said);
        let ends: String = said.map(|(_, word)| *word).collect();
        call.arg(ends).arg(inbox.as_bytes())
    }

    fn goes_with_others(&self) -> bool {
        self.request.with_others
    }

    fn batch_item(&self) -> Option<BatchItem> {
        let ReleaseRequest {
            hold, mode, end, ..
        } = self.request;
        // Only a short end may travel: its hold has left nothing that the script of a batch would not remove.
        (end == ReleaseKind::Short).then(|| BatchItem {
            key: self.key.clone(),
            hold,
            kind: match mode {
                Mode::Exclusive => ItemKind::Release,
                Mode::Shared => ItemKind::ReaderRelease,
            },
            terms: None,
            written: self.written.clone(),
        })
    }

    fn written(&self) -> Option<&WriteSignal> {
        self.written.as_ref()
    }

    fn decode(&self, reply: &Value) -> Option<Presence> {
        read_flag(reply).map(Presence::from)
    }

    fn apply(self, state: &mut State, now: Instant) -> Presence {
        let mut view = state.view(&self.key, now);
        let ReleaseRequest {
            hold,
            mode,
            inbox,
            end,
            ..
        } = self.request;
        // First the hold leaves the lock.
        let token = view.remove_hold(hold, mode);
        view.queue(|queue| {
            queue.forget_reader(hold);
            if let ReleaseKind::Full(Residue { unanswered, nested }) = end {
                if unanswered {
                    queue.add_tombstone(now, hold);
                }
                if nested {
                    queue.forget_changes(hold);
                }
                // A hold that was in the lock has left the queue when it entered.
                if token.is_none() {
                    queue.stop_waiting(inbox, hold);
                }
            }
        });
        // Also if the hold was not in the lock: a writer that leaves the queue may have kept readers behind it out.
        view.admit_after_exit(token.unwrap_or(0));
        Presence::from(token.is_some())
    }
}

#[cfg(any(test, fuzzing))]
impl Release {
    /// A release whose caller waits for the answer.
    pub(crate) fn new(key: LockKey, request: ReleaseRequest) -> Self {
        let written = None;
        Self {
            key,
            request,
            written,
        }
    }
}

#[cfg(test)]
impl Store {
    pub(crate) fn release(&self, key: &LockKey, request: ReleaseRequest) -> PendingReply<Release> {
        self.ask(Release::new(key.clone(), request))
    }
}

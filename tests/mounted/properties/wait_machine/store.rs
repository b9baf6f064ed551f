//! The in-memory store with one lock, and two other processes that want it too: one to write, and one to read.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::request::Request;
use crate::base::id::{HoldId, InboxId, Owner};
use crate::base::key::LockKey;
use crate::base::options::Mode;
use crate::base::sync::Mutex;
use crate::store::{
    Acquire, AcquireReply, AcquireRequest, AcquireShared, AcquireSharedRequest, ForceRelease,
    HandoffMessage, Inspect, MemoryStore, MessageListener, QueueEntry, Release, ReleaseKind,
    ReleaseRequest, Residue, Snapshot, Verb,
};

/// The lease of another process. It keeps its place for longer than any case lasts.
const LEASE_OF_ANOTHER: Duration = Duration::from_secs(2);
const LIFE_OF_ANOTHER: Duration = Duration::from_secs(1_000_000);

/// The messages on their way to this process.
#[derive(Debug, Default)]
struct Inbox(Mutex<Vec<HandoffMessage>>);

impl MessageListener for Inbox {
    fn handoff(&self, message: HandoffMessage) {
        self.0.lock().push(message);
    }

    fn missed(&self) {}
}

pub(super) struct Store {
    memory: MemoryStore,
    key: LockKey,
    inbox: Arc<Inbox>,
    writer: (HoldId, QueueEntry),
    reader: (HoldId, QueueEntry),
    /// The holds of this process that were released, and whether they have left a tombstone.
    ended: BTreeMap<HoldId, bool>,
}

impl Store {
    pub(super) fn new(inbox: InboxId) -> Self {
        let (memory, messages) = (MemoryStore::new(), Arc::<Inbox>::default());
        let listener: Weak<dyn MessageListener> = Arc::downgrade(&messages) as Weak<_>;
        memory.listen(inbox, listener);
        Self {
            memory,
            key: LockKey::new("", "order:42").unwrap(),
            inbox: messages,
            writer: another(),
            reader: another(),
            ended: BTreeMap::new(),
        }
    }

    /// Executes a verb at this time, which is that of the case.
    fn apply<V: Verb>(&self, verb: V, now: Instant) -> V::Reply {
        self.memory.execute(|state, _| verb.apply(state, now))
    }

    /// The reply for each waiter of the request. A request for a hold that has ended must meet a tombstone.
    pub(super) fn execute(&self, request: &Request, now: Instant) -> Vec<AcquireReply> {
        for hold in request.waiters() {
            let comes_back = self.ended.get(&hold) == Some(&false);
            assert!(!comes_back, "{hold} comes back: {self:?}");
        }
        let key = self.key.clone();
        match request.clone() {
            Request::Acquire(request) => vec![self.apply(Acquire { key, request }, now)],
            Request::Share(request) => self.apply(AcquireShared { key, request }, now),
        }
    }

    pub(super) fn release(&mut self, request: ReleaseRequest, now: Instant) {
        let residue = match request.end {
            ReleaseKind::Short => Residue::default(),
            ReleaseKind::Full(residue) => residue,
        };
        self.ended.insert(request.hold, residue.unanswered);
        self.end(request, now);
    }

    fn end(&self, request: ReleaseRequest, now: Instant) {
        self.apply(Release::new(self.key.clone(), request), now);
    }

    /// Makes another process take the lock, or wait for it.
    pub(super) fn another_comes(&self, reads: bool, now: Instant) {
        let key = self.key.clone();
        if reads {
            let (hold, entry) = self.reader;
            let request = AcquireSharedRequest {
                holds: vec![hold],
                ttl: LEASE_OF_ANOTHER,
                limit: None,
                entry: Some(entry),
            };
            self.apply(AcquireShared { key, request }, now);
        } else {
            let (hold, entry) = self.writer;
            let request = AcquireRequest {
                hold,
                ttl: LEASE_OF_ANOTHER,
                entry: Some(entry),
                with_others: false,
            };
            self.apply(Acquire { key, request }, now);
        }
    }

    /// Makes the other processes release the lock, or stop waiting for it.
    pub(super) fn another_goes(&self, now: Instant) {
        for (mode, (hold, entry)) in [(Mode::Exclusive, self.writer), (Mode::Shared, self.reader)] {
            let request = ReleaseRequest {
                hold,
                mode,
                inbox: entry.inbox,
                end: ReleaseKind::Full(Residue::default()),
                with_others: false,
            };
            self.end(request, now);
        }
    }

    /// Takes the lock from its holders. Returns them.
    pub(super) fn lose(&self, now: Instant) -> Vec<HoldId> {
        let key = self.key.clone();
        let holds = self
            .memory
            .execute(|state, _| state.holds(key.as_str(), now));
        if let Some(seen) = self.apply(Inspect::of(&key), now).map(Snapshot::seen) {
            self.apply(ForceRelease { key, seen }, now);
        }
        holds
    }

    /// Takes one of the messages.
    pub(super) fn message(&self, at: usize) -> Option<HandoffMessage> {
        let mut messages = self.inbox.0.lock();
        let at = at.checked_rem(messages.len())?;
        Some(messages.remove(at))
    }
}

fn another() -> (HoldId, QueueEntry) {
    let entry = QueueEntry {
        inbox: InboxId::new(),
        grant: LEASE_OF_ANOTHER,
        life: LIFE_OF_ANOTHER,
    };
    (Owner::new().next_hold(), entry)
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}, ended {:?}", self.inbox, self.ended)
    }
}

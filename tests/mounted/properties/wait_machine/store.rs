//! A minimal store with one lock. It has the holds that have the lock, exclusively or as readers, the processes that
//! wait, one after the other, and tombstones.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::base::id::{FencingToken, HoldId};
use crate::base::options::Mode;
use crate::queue::machine::HoldEnd;
use crate::store::{
    AcquireReply, AcquireRequest, AcquireSharedRequest, HandoffMessage, QueueEntry, StoreTime,
};

const LEASE_OF_ANOTHER: Duration = Duration::from_secs(2);

/// A process that has the lock, or is in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Process {
    /// This process, for some of its holds, with the way in which it waits.
    Ours(Vec<HoldId>, QueueEntry),
    Another,
}

#[derive(Clone, Debug)]
struct Inside {
    /// `None` for the hold of another process.
    hold: Option<HoldId>,
    mode: Mode,
    until: Instant,
}

#[derive(Debug)]
pub(super) struct Store {
    began: Instant,
    /// The holders, which have one mode.
    inside: Vec<Inside>,
    queue: VecDeque<(Process, Mode)>,
    tombstones: BTreeSet<HoldId>,
    ended: BTreeSet<HoldId>,
    /// The messages on their way to this process.
    pub(super) messages: Vec<HandoffMessage>,
}

impl Store {
    pub(super) fn new(began: Instant) -> Self {
        Self {
            began,
            inside: Vec::new(),
            queue: VecDeque::new(),
            tombstones: BTreeSet::new(),
            ended: BTreeSet::new(),
            messages: Vec::new(),
        }
    }

    pub(super) fn acquire(&mut self, request: AcquireRequest, now: Instant) -> AcquireReply {
        let AcquireRequest {
            hold, ttl, entry, ..
        } = request;
        if self.tombstones.contains(&hold) {
            return AcquireReply::Ended;
        }
        assert!(!self.ended.contains(&hold), "{hold} comes back: {self:?}");
        self.expire(now);
        if self.is_in(hold) || self.inside.is_empty() && self.is_next() {
            return self.take(hold, Mode::Exclusive, ttl, now);
        }
        if let Some(entry) = entry {
            self.stand(vec![hold], Mode::Exclusive, entry);
        }
        self.admit(now);
        self.busy(now)
    }

    /// The reply for each of the readers.
    pub(super) fn share(
        &mut self,
        request: &AcquireSharedRequest,
        now: Instant,
    ) -> Vec<AcquireReply> {
        let AcquireSharedRequest {
            holds, ttl, entry, ..
        } = request;
        let buried = |hold: &&HoldId| self.tombstones.contains(hold);
        let left: Vec<_> = holds.iter().filter(|hold| !buried(hold)).copied().collect();
        if left.is_empty() {
            return vec![AcquireReply::Ended; holds.len()];
        }
        assert!(
            left.iter().all(|hold| !self.ended.contains(hold)),
            "{left:?} come back: {self:?}"
        );
        self.expire(now);
        let (mut inside, outside): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|hold| self.is_in(*hold));
        if self.is_open() && self.is_next() {
            inside.extend(&outside);
        } else if let Some(entry) = entry.filter(|_| !outside.is_empty()) {
            self.stand(outside.clone(), Mode::Shared, entry);
            let told = self.messages.len();
            self.admit(now);
            let admitted = |hold: &HoldId| self.is_in(*hold);
            if outside.iter().any(admitted) {
                // The response informs them.
                self.messages.truncate(told);
                inside.extend(&outside);
            }
        }
        for hold in &inside {
            self.take(*hold, Mode::Shared, *ttl, now);
        }
        let reply = |hold: &HoldId| match inside.contains(hold) {
            true => self.held(*ttl, now),
            false => self.busy(now),
        };
        holds.iter().map(reply).collect()
    }

    pub(super) fn release(&mut self, release: HoldEnd, now: Instant) {
        let hold = release.hold;
        self.ended.insert(hold);
        if release.unanswered {
            self.tombstones.insert(hold);
        }
        self.expire(now);
        if self.is_in(hold) {
            self.inside.retain(|inside| inside.hold != Some(hold));
            self.admit(now);
        } else {
            self.depart(hold, now);
        }
    }

    /// The hold may only have waited.
    fn depart(&mut self, hold: HoldId, now: Instant) {
        let waits = |(process, _): &(Process, Mode)| match process {
            Process::Ours(holds, _) => holds.contains(&hold),
            Process::Another => false,
        };
        let Some(at) = self.queue.iter().position(waits) else {
            return;
        };
        if let (Process::Ours(holds, _), _) = &mut self.queue[at] {
            holds.retain(|other| *other != hold);
            if holds.is_empty() {
                self.queue.remove(at);
            }
        }
        if !self.inside.is_empty() {
            self.admit(now);
        }
    }

    /// Makes another process take the lock, or wait for it.
    pub(super) fn another_comes(&mut self, reads: bool, now: Instant) {
        let mode = if reads { Mode::Shared } else { Mode::Exclusive };
        self.expire(now);
        if self.queue.iter().all(|(it, _)| *it != Process::Another) {
            self.queue.push_back((Process::Another, mode));
        }
        self.admit(now);
    }

    /// Makes another process release the lock, or stop waiting for it.
    pub(super) fn another_goes(&mut self, now: Instant) {
        self.expire(now);
        let before = self.inside.len();
        self.inside.retain(|inside| inside.hold.is_some());
        let was_in = self.inside.len() < before;
        if !was_in {
            self.queue
                .retain(|(process, _)| *process != Process::Another);
        }
        if was_in || !self.inside.is_empty() {
            self.admit(now);
        }
    }

    /// Deletes the lock. Returns the holds of this process that had it.
    pub(super) fn lose(&mut self) -> Vec<HoldId> {
        let inside = std::mem::take(&mut self.inside);
        inside
            .into_iter()
            .filter_map(|inside| inside.hold)
            .collect()
    }

    fn expire(&mut self, now: Instant) {
        self.inside.retain(|inside| now < inside.until);
    }

    fn is_in(&self, hold: HoldId) -> bool {
        self.inside.iter().any(|inside| inside.hold == Some(hold))
    }

    /// Returns whether readers may enter, as far as those inside are concerned.
    fn is_open(&self) -> bool {
        self.inside.iter().all(|inside| inside.mode == Mode::Shared)
    }

    /// Returns whether no other process is ahead of this one.
    fn is_next(&self) -> bool {
        let first = self.queue.front();
        first.is_none_or(|(process, _)| *process != Process::Another)
    }

    /// Sets the holds of this process's place in the queue.
    fn stand(&mut self, holds: Vec<HoldId>, mode: Mode, entry: QueueEntry) {
        let mut queue = self.queue.iter_mut();
        let ours = queue.find(|(process, _)| *process != Process::Another);
        let waits = (Process::Ours(holds, entry), mode);
        match ours {
            Some(place) => *place = waits,
            None => self.queue.push_back(waits),
        }
    }

    fn take(&mut self, hold: HoldId, mode: Mode, lease: Duration, now: Instant) -> AcquireReply {
        self.queue
            .retain(|(process, _)| *process == Process::Another);
        self.enter(Some(hold), mode, lease, now);
        self.held(lease, now)
    }

    fn enter(&mut self, hold: Option<HoldId>, mode: Mode, lease: Duration, now: Instant) {
        let until = now + lease;
        match self.inside.iter_mut().find(|inside| inside.hold == hold) {
            Some(inside) => inside.until = inside.until.max(until),
            None => self.inside.push(Inside { hold, mode, until }),
        }
    }

    /// Lets in the first of the queue: all readers, or one writer if the lock is free.
    fn admit(&mut self, now: Instant) {
        while let Some((process, mode)) = self.queue.front().cloned() {
            let fits = match mode {
                Mode::Exclusive => self.inside.is_empty(),
                Mode::Shared => self.is_open(),
            };
            if !fits {
                return;
            }
            self.queue.pop_front();
            match process {
                Process::Another => self.enter(None, mode, LEASE_OF_ANOTHER, now),
                Process::Ours(holds, QueueEntry { grant, .. }) => {
                    for hold in &holds {
                        self.enter(Some(*hold), mode, grant, now);
                    }
                    self.messages.push(HandoffMessage {
                        key: "order:42".to_owned(),
                        holds,
                        token: TOKEN,
                        at: self.time(now),
                        lease: grant,
                    });
                }
            }
        }
    }

    fn held(&self, lease: Duration, now: Instant) -> AcquireReply {
        AcquireReply::Held {
            token: TOKEN,
            lease,
            at: self.time(now),
            is_contended: true,
        }
    }

    fn busy(&self, now: Instant) -> AcquireReply {
        let ends = self.inside.iter().map(|inside| inside.until).max();
        AcquireReply::Busy {
            remaining: Some(ends.map_or(Duration::ZERO, |until| until - now)),
            now: self.time(now),
        }
    }

    fn time(&self, now: Instant) -> StoreTime {
        let passed = u64::try_from((now - self.began).as_micros());
        StoreTime {
            micros: 1_700_000_000_000_000 + passed.unwrap(),
        }
    }
}

const TOKEN: FencingToken = FencingToken(1);

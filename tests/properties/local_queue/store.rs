//! A store with one lock, as simple as can be: holds that wait, one after the other, and tombstones.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    base::id::{FencingToken, HoldId},
    queue::step::{Release, Reply},
    store::{
        AcquireReply, AcquireRequest, HandoffMessage, Order, QueueEntry, StoreTime, Successor,
    },
};

const LEASE_OF_ANOTHER: Duration = Duration::from_secs(2);

/// Who stands in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiter {
    /// This process, for one of its holds.
    Ours(HoldId, QueueEntry),
    Another,
}

#[derive(Debug)]
pub(super) struct Store {
    began: Instant,
    /// A hold, or that of another process, and when its lease ends.
    holder: Option<(Option<HoldId>, Instant)>,
    queue: VecDeque<Waiter>,
    tombstones: BTreeSet<HoldId>,
    ended: BTreeSet<HoldId>,
    /// On their way to this process.
    pub(super) messages: Vec<HandoffMessage>,
}

impl Store {
    pub(super) fn new(began: Instant) -> Self {
        Self {
            began,
            holder: None,
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
        let may_take = match self.holder(now) {
            Some(holder) => holder == Some(hold),
            None => self.queue.front() != Some(&Waiter::Another),
        };
        if may_take {
            return self.take(hold, ttl, now);
        }
        if let Some(entry) = entry {
            self.stand(hold, entry);
        }
        self.busy(now)
    }

    /// Ends a hold, and tells what the successor has then.
    pub(super) fn release(
        &mut self,
        release: Release,
        successor: Option<Successor>,
        now: Instant,
    ) -> Reply {
        self.ended.insert(release.hold);
        if release.tombstone {
            self.tombstones.insert(release.hold);
        }
        let reply = match successor {
            _ if self.holder(now) == Some(Some(release.hold)) => self.move_on(successor, now),
            Some(next) if self.place_of(release.hold).is_some() => {
                self.stand(next.hold, next.entry);
                Some(self.busy(now))
            }
            _ => None,
        };
        if let Some(at) = self.place_of(release.hold) {
            self.queue.remove(at);
        }
        reply.map_or(Reply::Unsure(None), Reply::Acquire)
    }

    /// Another process takes the lock, or waits for it.
    pub(super) fn another_comes(&mut self, now: Instant) {
        if self.holder(now).is_none() && self.queue.is_empty() {
            self.holder = Some((None, now + LEASE_OF_ANOTHER));
        } else if !self.queue.contains(&Waiter::Another) {
            self.queue.push_back(Waiter::Another);
        }
    }

    /// Another process releases the lock. Else it waits no longer.
    pub(super) fn another_goes(&mut self, now: Instant) {
        if self.holder(now) == Some(None) {
            self.move_on(None, now);
        } else {
            self.queue.retain(|waiter| *waiter != Waiter::Another);
        }
    }

    /// The lock is deleted.
    pub(super) fn lose(&mut self) {
        self.holder = None;
    }

    fn holder(&mut self, now: Instant) -> Option<Option<HoldId>> {
        self.holder = self.holder.filter(|(_, until)| now < *until);
        self.holder.map(|(holder, _)| holder)
    }

    fn place_of(&self, hold: HoldId) -> Option<usize> {
        let is_its = |waiter: &Waiter| matches!(waiter, Waiter::Ours(it, _) if *it == hold);
        self.queue.iter().position(is_its)
    }

    /// The place of this process in the queue is for this hold.
    fn stand(&mut self, hold: HoldId, entry: QueueEntry) {
        let ours = self
            .queue
            .iter_mut()
            .find(|waiter| **waiter != Waiter::Another);
        match ours {
            Some(place) => *place = Waiter::Ours(hold, entry),
            None => self.queue.push_back(Waiter::Ours(hold, entry)),
        }
    }

    fn take(&mut self, hold: HoldId, lease: Duration, now: Instant) -> AcquireReply {
        self.queue.retain(|waiter| *waiter == Waiter::Another);
        self.holder = Some((Some(hold), now + lease));
        let (token, at) = (TOKEN, self.time(now));
        AcquireReply::Held {
            token,
            lease,
            at,
            is_contended: true,
        }
    }

    /// The lock goes to the next hold.
    fn move_on(&mut self, successor: Option<Successor>, now: Instant) -> Option<AcquireReply> {
        self.holder = None;
        let queue_first = successor.is_none_or(|next| next.order == Order::QueueFirst);
        match (self.queue.front().copied(), successor) {
            (Some(Waiter::Another), _) if queue_first => {
                self.queue.pop_front();
                self.holder = Some((None, now + LEASE_OF_ANOTHER));
                let next = successor?;
                self.stand(next.hold, next.entry);
                Some(self.busy(now))
            }
            (_, Some(next)) => Some(self.take(next.hold, next.ttl, now)),
            (Some(Waiter::Ours(hold, entry)), None) => {
                self.take(hold, entry.grant, now);
                self.messages.push(HandoffMessage {
                    key: "order:42".to_owned(),
                    holds: vec![hold],
                    token: TOKEN,
                    at: self.time(now),
                    lease: entry.grant,
                });
                None
            }
            (_, None) => None,
        }
    }

    fn busy(&self, now: Instant) -> AcquireReply {
        let remaining = self.holder.map_or(Duration::ZERO, |(_, until)| until - now);
        AcquireReply::Busy {
            remaining: Some(remaining),
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

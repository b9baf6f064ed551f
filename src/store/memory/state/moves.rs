//! How a lock goes from one hold to the next in the in-memory store.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use super::{
    super::queue::{Process, Queue},
    Lock, Meta, State,
};
use crate::{
    base::{
        id::{FencingToken, HoldId, InboxId},
        key::LockKey,
    },
    store::{AcquireReply, HandoffMessage, Order, Successor, meta_life},
};

impl State {
    /// A free lock moves: to the successor, or to the process that has waited longest.
    pub(super) fn move_on(
        &mut self,
        key: &LockKey,
        inbox: InboxId,
        successor: Option<Successor>,
        now: Instant,
    ) -> Option<AcquireReply> {
        let ahead = if successor.is_none_or(|successor| successor.order == Order::QueueFirst) {
            self.queue(key, now, |queue| queue.head(now))
        } else {
            None
        };
        match (ahead, successor) {
            (Some(ahead), None) => {
                self.grant(key, ahead, now);
                None
            }
            (Some(ahead), Some(successor)) if ahead.inbox != inbox => {
                self.stand(key, successor, now);
                let remaining = Some(self.grant(key, ahead, now));
                let now = self.clock.at(now);
                Some(AcquireReply::Busy { remaining, now })
            }
            (_, Some(successor)) => {
                let Successor { hold, ttl, .. } = successor;
                self.queue(key, now, |queue| queue.leave(inbox));
                Some(self.take(key, hold, ttl, meta_life(ttl), now))
            }
            (None, None) => None,
        }
    }

    /// A hold that may have waited only leaves its place in the queue to the successor.
    pub(super) fn give_up(
        &mut self,
        key: &LockKey,
        hold: HoldId,
        inbox: InboxId,
        successor: Option<Successor>,
        now: Instant,
    ) -> Option<AcquireReply> {
        if !self.queue(key, now, |queue| queue.names(inbox, hold)) {
            return None;
        }
        // Requests may overtake each other: a successor that has the lock by now would get it once
        // more after its own release.
        let waits = |successor: &Successor| self.held(key, successor.hold, now).is_none();
        let Some(successor) = successor.filter(waits) else {
            self.queue(key, now, |queue| queue.leave(inbox));
            return None;
        };
        self.stand(key, successor, now);
        let lock = self.live_lock(key, now);
        let remaining = Some(lock.map_or(Duration::ZERO, |lock| lock.expires - now));
        let now = self.clock.at(now);
        Some(AcquireReply::Busy { remaining, now })
    }

    /// Works on the queue of a lock, which begins with its first process and ends with its last.
    pub(super) fn queue<T>(
        &mut self,
        key: &LockKey,
        now: Instant,
        work: impl FnOnce(&mut Queue) -> T,
    ) -> T {
        let mut none = Queue::default();
        let queue = self.queues.get_mut(key);
        let queue = queue
            .filter(|queue| !queue.is_over(now))
            .unwrap_or(&mut none);
        let output = work(queue);
        let ended = queue.is_empty();
        if !none.is_empty() {
            self.queues.insert(key.clone(), none);
        } else if ended {
            self.queues.remove(key);
        }
        output
    }

    fn stand(&mut self, key: &LockKey, successor: Successor, now: Instant) {
        let Successor {
            hold, ttl, entry, ..
        } = successor;
        self.queue(key, now, |queue| queue.stand(now, hold, ttl, entry));
    }

    /// Gives a free lock to a hold.
    pub(super) fn take(
        &mut self,
        key: &LockKey,
        hold: HoldId,
        lease: Duration,
        meta_life: Duration,
        now: Instant,
    ) -> AcquireReply {
        let at = self.clock.at(now);
        let previous = self.live_meta(key, now).map(|meta| meta.token);
        let least = previous.map_or(0, |token| token.saturating_add(1));
        let token = at.micros.max(least);
        let meta = Meta {
            token,
            hold,
            seq: 0,
            expires: now + meta_life,
        };
        let lock = Lock {
            holders: BTreeMap::from([(hold, 1)]),
            expires: now + lease,
        };
        self.metas.insert(key.clone(), meta);
        self.locks.insert(key.clone(), lock);
        let token = FencingToken(token);
        AcquireReply::Held { token, lease, at }
    }

    /// Moves a free lock to the head of its queue. Returns the lease it has.
    pub(super) fn grant(&mut self, key: &LockKey, ahead: Process, now: Instant) -> Duration {
        self.queue(key, now, |queue| queue.leave(ahead.inbox));
        let Process {
            hold,
            grant,
            meta_life,
            ..
        } = ahead;
        if let AcquireReply::Held { token, lease, at } = self.take(key, hold, grant, meta_life, now)
        {
            let message = HandoffMessage {
                key: key.as_str().to_owned(),
                hold,
                token,
                at,
                lease,
            };
            self.messages.push((ahead.inbox, message));
        }
        grant
    }
}

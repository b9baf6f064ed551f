//! How a lock goes from one hold to the next in the in-memory store.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    super::line::{Line, Want},
    Lock, Message, State,
};
use crate::{
    base::{
        id::{FencingToken, HoldId, InboxId},
        key::LockKey,
    },
    store::{AcquireReply, Order, ReleaseRequest, StoreTime, Successor},
};

impl State {
    /// A lock stands until it was held for so long. False if it was already, or the hold is not in it.
    pub(super) fn retain(
        &mut self,
        key: &LockKey,
        ReleaseRequest {
            hold,
            tombstone,
            nested,
            ..
        }: ReleaseRequest,
        min_hold: Duration,
        now: Instant,
    ) -> bool {
        let time = self.clock.at(now);
        let lock = self.live_lock(key, now).filter(|lock| lock.names(hold));
        let Some(lock) = lock else {
            return false;
        };
        let token = StoreTime { micros: lock.token };
        let held_for = time.since(token).unwrap_or_default();
        let left = min_hold.saturating_sub(held_for);
        if left.is_zero() {
            return false;
        }
        lock.expires = now + left;
        lock.is_kept = true;
        lock.set_depth(hold, 1);
        if nested {
            self.line(key, now, |line| line.forget_changes(hold));
        }
        if tombstone {
            self.line(key, now, |line| line.bury(now, hold));
        }
        true
    }

    /// A free lock moves: to the successor, or to the process that has waited longest.
    pub(super) fn move_on(
        &mut self,
        key: &LockKey,
        inbox: Option<InboxId>,
        successor: Option<Successor>,
        token: u64,
        (is_general, now): (bool, Instant),
    ) -> Option<AcquireReply> {
        let is_general = is_general || self.clock.at(now).micros <= token;
        let token = Some(token);
        let ahead = if successor.is_none_or(|successor| successor.order == Order::QueueFirst) {
            self.head(key, now)
        } else {
            None
        };
        match (ahead, successor) {
            (Some(_), None) => {
                self.admit(key, token, None, now);
                None
            }
            (Some(ahead), Some(successor)) if Some(ahead.inbox) != inbox => {
                self.stand(key, successor, now);
                let remaining = self.admit(key, token, None, now);
                let now = self.clock.at(now);
                Some(AcquireReply::Busy { remaining, now })
            }
            (_, Some(successor)) => {
                let Successor {
                    hold, ttl, entry, ..
                } = successor;
                let told = entry.tells.then_some(entry.inbox);
                if let Some(inbox) = inbox {
                    self.line(key, now, |line| line.leave(inbox));
                }
                Some(self.take(key, hold, (ttl, told), token, (is_general, now)))
            }
            (None, None) => None,
        }
    }

    /// A hold that may have waited only leaves its place in the line to the successor.
    pub(super) fn give_up(
        &mut self,
        key: &LockKey,
        hold: HoldId,
        inbox: InboxId,
        successor: Option<Successor>,
        now: Instant,
    ) -> Option<AcquireReply> {
        let (is_its, is_forgotten) = self.line(key, now, |line| {
            (line.names(inbox, hold), line.is_forgotten(inbox))
        });
        if !is_its && (!is_forgotten || successor.is_some()) {
            return None;
        }
        // Requests may overtake each other: a successor that has the lock by now would get it once
        // more after its own release.
        let waits = |successor: &Successor| self.held(key, successor.hold, now).is_none();
        let Some(successor) = successor.filter(waits) else {
            self.line(key, now, |line| line.leave(inbox));
            if self.tidy(key, now) {
                self.admit(key, None, None, now);
            }
            return None;
        };
        self.stand(key, successor, now);
        let lock = self.live_lock(key, now);
        let remaining = Some(lock.map_or(Duration::ZERO, |lock| lock.expires - now));
        let now = self.clock.at(now);
        Some(AcquireReply::Busy { remaining, now })
    }

    /// Works on the line of a lock, which begins with what is put there and ends with the last of it.
    pub(super) fn line<T>(
        &mut self,
        key: &LockKey,
        now: Instant,
        work: impl FnOnce(&mut Line) -> T,
    ) -> T {
        if let Some(line) = self.lines.get_mut(key) {
            line.prune(now);
            let output = work(line);
            line.prune(now);
            if line.is_empty() {
                self.lines.remove(key);
            }
            return output;
        }
        let mut line = Line::default();
        let output = work(&mut line);
        if !line.is_empty() {
            self.lines.insert(key.clone(), line);
        }
        output
    }

    fn stand(&mut self, key: &LockKey, successor: Successor, now: Instant) {
        let Successor { hold, entry, .. } = successor;
        let want = Want::Alone { tells: entry.tells };
        self.line(key, now, |line| {
            line.stand(now, vec![hold], want, entry, None)
        });
    }

    /// Gives a free lock to a hold.
    pub(super) fn take(
        &mut self,
        key: &LockKey,
        hold: HoldId,
        lease: (Duration, Option<InboxId>),
        before: Option<u64>,
        (is_contended, now): (bool, Instant),
    ) -> AcquireReply {
        let at = self.clock.at(now);
        let token = self.open(key, &[hold], lease, before, now);
        AcquireReply::Held {
            token: FencingToken(token),
            lease: lease.0,
            at,
            is_contended,
        }
    }

    /// A free lock begins anew with these holders. Its token is greater than the one before, if that is known.
    pub(super) fn open(
        &mut self,
        key: &LockKey,
        holds: &[HoldId],
        (lease, told): (Duration, Option<InboxId>),
        before: Option<u64>,
        now: Instant,
    ) -> u64 {
        let at = self.clock.at(now);
        let least = before.map_or(0, |token| token.saturating_add(1));
        let token = self.clock.token(at).max(least);
        let lock = Lock {
            fields: holds.iter().map(|hold| (*hold, 1)).collect(),
            told,
            token,
            expires: now + lease,
            is_kept: false,
        };
        self.locks.insert(key.clone(), lock);
        token
    }

    /// The holder is told of the first other process that comes to wait.
    pub(super) fn tell_holder(
        &mut self,
        key: &LockKey,
        holder: Option<InboxId>,
        is_first: bool,
        inbox: InboxId,
    ) {
        if let Some(holder) = holder.filter(|holder| is_first && *holder != inbox) {
            let message = Message::Contended(holder, key.as_str().to_owned());
            self.messages.push(message);
        }
    }
}

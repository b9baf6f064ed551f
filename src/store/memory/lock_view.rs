//! The present state of one lock of the in-memory store, with the operations of the scripts: who is inside, who is
//! first in the queue, and who enters. See `lua/parts/readers.lua`.

use std::time::Duration;

use tokio::time::Instant;

use super::state::{AddressedMessage, Lock, State};
use super::stored_queue::{StoredQueue, WaitMode, WaitingProcess};
use crate::base::id::{FencingToken, HoldId, InboxId};
use crate::base::key::LockKey;
use crate::base::lease_times::StoreTime;
use crate::base::options::Mode;
use crate::store::redis::codec::{HandoffMessage, QueueEntry};

/// A lock, its queue and its entries, at one moment.
pub(crate) struct LockView<'a> {
    state: &'a mut State,
    key: &'a LockKey,
    now: Instant,
}

/// The process whose readers send the request, and the lease that they get without a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AskingProcess {
    pub(crate) inbox: InboxId,
    pub(crate) ttl: Duration,
}

impl State {
    /// The present state of the lock of this key.
    pub(crate) fn view<'a>(&'a mut self, key: &'a LockKey, now: Instant) -> LockView<'a> {
        LockView {
            state: self,
            key,
            now,
        }
    }
}

impl LockView<'_> {
    pub(crate) fn time(&self) -> StoreTime {
        self.state.time(self.now)
    }

    /// The lock, unless it is free.
    pub(crate) fn lock(&mut self) -> Option<&mut Lock> {
        let lock = self.state.locks.get_mut(self.key);
        lock.filter(|lock| self.now < lock.expires)
    }

    /// The lock, if the hold is in it.
    pub(crate) fn held(&mut self, hold: HoldId) -> Option<&mut Lock> {
        self.lock().filter(|lock| lock.has(hold))
    }

    /// Works on the queue of the lock. The queue is created with the first thing in it, and removed with the last.
    pub(crate) fn queue<T>(&mut self, work: impl FnOnce(&mut StoredQueue) -> T) -> T {
        let Self { state, key, now } = self;
        if let Some(queue) = state.queues.get_mut(*key) {
            // Before the work, because what has expired must not be seen; and after it, because the last member takes
            // the queue with it.
            queue.prune(*now);
            let output = work(queue);
            queue.prune(*now);
            if queue.is_empty() {
                state.queues.remove(*key);
            }
            return output;
        }
        let mut queue = StoredQueue::default();
        let output = work(&mut queue);
        if !queue.is_empty() {
            state.queues.insert(key.clone(), queue);
        }
        output
    }

    /// Takes a free lock for these holds. Its token is greater than the previous one, if that is known. Returns the
    /// token.
    pub(crate) fn take_lock(
        &mut self,
        holds: &[HoldId],
        lease: Duration,
        contended_inbox: Option<InboxId>,
        before: Option<u64>,
    ) -> u64 {
        // A lock that moves has a greater token than before, even if the clock was set back since.
        let least = before.map_or(0, |token| token.saturating_add(1));
        let time = self.time();
        let token = self.state.clock.token(time).max(least);
        let lock = Lock {
            fields: holds.iter().map(|hold| (*hold, 1)).collect(),
            contended_inbox,
            token,
            expires: self.now + lease,
        };
        self.state.locks.insert(self.key.clone(), lock);
        token
    }

    pub(crate) fn free(&mut self) {
        self.state.locks.remove(self.key);
    }

    /// Removes a hold from the lock, which is free when the last one has gone, or its writer. Returns the token, if the
    /// hold was in the lock.
    pub(crate) fn remove_hold(&mut self, hold: HoldId, mode: Mode) -> Option<u64> {
        let lock = self.held(hold)?;
        let token = lock.token;
        // A writer is alone in its lock.
        if mode == Mode::Exclusive || lock.remove_holds(&[hold]) {
            self.free();
        }
        Some(token)
    }

    /// Enters the queue, or keeps the place in it. The holder gets a message about the first other process that begins
    /// to wait.
    pub(crate) fn enqueue(
        &mut self,
        holds: Vec<HoldId>,
        mode: WaitMode,
        entry: QueueEntry,
        holder: Option<InboxId>,
    ) {
        let now = self.now;
        let is_first = self.queue(|queue| queue.enqueue(now, holds, mode, entry, holder));
        // One message is enough: from then on, the process of the holder counts its turns.
        if let Some(holder) = holder.filter(|holder| is_first && *holder != entry.inbox) {
            let message = AddressedMessage::Contended(holder, self.key.as_str().to_owned());
            self.state.messages.push(message);
        }
    }

    /// The reader whose lease expires last; `None` unless the lock is shared.
    pub(crate) fn latest_reader(&mut self) -> Option<(HoldId, Instant)> {
        let (hold, lasts) = self.queue(|queue| queue.latest_reader())?;
        // If the reader is not in the hash, the lock was deleted, and another program may hold it now.
        self.held(hold).map(|_| (hold, lasts))
    }

    /// Removes the readers whose leases have expired. Returns whether the lock is shared.
    pub(crate) fn remove_expired_readers(&mut self) -> bool {
        let now = self.now;
        for hold in self.queue(|queue| queue.take_expired_readers(now)) {
            self.remove_hold(hold, Mode::Shared);
        }
        self.latest_reader().is_some()
    }

    /// Makes a shared lock last as long as the readers inside.
    pub(crate) fn reset_expiry(&mut self) {
        if let Some((hold, lasts)) = self.latest_reader()
            && let Some(lock) = self.held(hold)
        {
            // Maybe earlier than before: the reader with the longest lease may have left.
            lock.expires = lasts;
        }
    }

    /// Handles the exit of a holder. The lock lasts as long as the readers inside, and the first in the queue enter.
    pub(crate) fn admit_after_exit(&mut self, before: u64) {
        // Shared: the one who has left may have had the longest lease, and readers that wait may have room now.
        if self.remove_expired_readers() {
            self.reset_expiry();
            self.admit(None, None);
        // Free: it moves to the first in the queue, with a greater token than that of the hold that has left.
        } else if self.lock().is_none() {
            self.admit(Some(before), None);
        }
    }

    /// Makes holds readers of the lock, whose leases last at least this long from now.
    pub(crate) fn renew_readers(&mut self, holds: &[HoldId], lease: Duration) {
        let now = self.now;
        if let Some(lock) = self.lock() {
            lock.lengthen(now, lease);
        }
        self.queue(|queue| {
            holds
                .iter()
                .for_each(|hold| queue.renew_reader(*hold, now + lease));
        });
    }

    /// Lets readers into a lock that is shared or free. The token of a free lock is greater than the previous one.
    /// Returns the token.
    pub(crate) fn let_readers_in(
        &mut self,
        holds: &[HoldId],
        lease: Duration,
        before: Option<u64>,
    ) -> u64 {
        // Readers who enter a lock that is shared have the token of those who are inside.
        let token = if let Some(lock) = self.lock() {
            holds.iter().for_each(|hold| lock.insert_reader(*hold));
            lock.token
        } else {
            self.take_lock(holds, lease, None, before)
        };
        self.renew_readers(holds, lease);
        token
    }

    fn may_enter(&mut self, process: &WaitingProcess) -> bool {
        let is_free = self.lock().is_none();
        is_free
            || match process.mode {
                WaitMode::Exclusive => false,
                WaitMode::Shared { limit } => self.has_room(process.holds.len(), limit),
            }
    }

    pub(crate) fn has_room(&mut self, count: usize, limit: Option<u32>) -> bool {
        let inside = self.lock().map_or(0, |lock| lock.fields.len());
        limit.is_none_or(|limit| (inside + count) as u64 <= limit.into())
    }

    /// The holds that are in the lock, and those that are not.
    pub(crate) fn inside_and_outside(&mut self, holds: &[HoldId]) -> (Vec<HoldId>, Vec<HoldId>) {
        let lock = self.lock();
        let is_in = |hold: &HoldId| lock.as_ref().is_some_and(|lock| lock.has(*hold));
        holds.iter().partition(|hold| is_in(hold))
    }

    /// Returns the first live process in the queue. Readers whose lock is gone are removed.
    pub(crate) fn first_in_queue(&mut self) -> Option<WaitingProcess> {
        let now = self.now;
        let is_free = self.lock().is_none();
        self.queue(|queue| {
            // They are not in the hash any more, so their leases protect nothing.
            if is_free {
                queue.forget_readers();
            }
            queue.first(now)
        })
    }

    /// Lets the first in the queue into a lock that is free or shared. These are all readers at its head, or one process
    /// that wants a free lock exclusively. Returns the longest lease that was given.
    pub(crate) fn admit(
        &mut self,
        before: Option<u64>,
        asking: Option<AskingProcess>,
    ) -> Option<Duration> {
        let mut longest = None;
        while let Some(process) = self.first_in_queue()
            && self.may_enter(&process)
        {
            let is_exclusive = matches!(process.mode, WaitMode::Exclusive);
            // Only the first one may find the lock free, and gets a token greater than the one before. Readers behind
            // it share that token.
            longest = longest.max(Some(self.enter_process(process, before, asking)));
            // No other process enters beside a writer.
            if is_exclusive {
                break;
            }
        }
        longest
    }

    /// Lets a process in. Sends it a message unless it is the process that sent the request. Returns its lease.
    fn enter_process(
        &mut self,
        process: WaitingProcess,
        before: Option<u64>,
        asking: Option<AskingProcess>,
    ) -> Duration {
        let WaitingProcess { inbox, holds, .. } = process;
        self.queue(|queue| queue.leave(inbox));
        // The process that sends the request learns of its holds from the reply: it needs no message, and gets its
        // whole TTL. All others have a short lease until they renew it.
        let own = asking.filter(|own| own.inbox == inbox);
        let lease = own.map_or(process.grant, |own| own.ttl);
        let token = match process.mode {
            WaitMode::Exclusive => self.take_lock(&holds, lease, Some(inbox), before),
            WaitMode::Shared { .. } => self.let_readers_in(&holds, lease, before),
        };
        if own.is_none() {
            let message = HandoffMessage {
                key: self.key.as_str().to_owned(),
                holds,
                token: FencingToken(token),
                at: self.time(),
                lease,
            };
            let message = AddressedMessage::Handoff(inbox, message);
            self.state.messages.push(message);
        }
        lease
    }
}

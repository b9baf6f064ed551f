//! The local queue: first come, first served among the waiters of one process, and only the first
//! of them talks to the store, where it stands in line for the whole process.
//!
//! A waiter alone in its line asks by itself, so that a free lock costs no task. As soon as anybody
//! has to wait, a driver task asks for whoever stands first; it does so even for a first waiter
//! that nobody polls, so that it cannot block those behind it. While this process holds the lock
//! nobody has to ask: the release hands it to the first in line.
//!
//! Whoever takes a waiter out of its line owns the answer to that waiter's attempt: the waiter that
//! enters, whoever serves it, or the waiter's drop, which undoes the attempt.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::{
    runtime::{self, Handle},
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use self::{
    attempt::{Heard, Refusal, Won},
    line::{Line, Pulse, Signal},
    place::Place,
    unclaimed::Unclaimed,
    waiter::Waiter,
};
use crate::{
    base::{
        deadline::deadline,
        error::LockError,
        id::{HoldId, InboxId},
        key::LockKey,
        mutex::Mutex,
        options::{Queueing, Wait, Wake},
        timer::timeout_at,
    },
    store::{AcquireRequest, HandoffMessage, Listener, QueueEntry, Store},
};

mod attempt;
mod cohort;
mod driver;
mod grant;
mod line;
mod notice;
mod place;
mod release;
mod unclaimed;
mod waiter;

#[cfg(test)]
mod tests;

pub(crate) use self::{cohort::Turn, grant::Grant, release::Release};

/// The lines of all keys that anybody in this process holds or waits for through one `Locks`.
pub(crate) struct Queue {
    store: Arc<dyn Store>,
    queueing: Queueing,
    inbox: InboxId,
    lines: Mutex<HashMap<LockKey, Line>>,
    /// A server that is too slow to answer in time must not be kept so by those who ask it again. Those on
    /// a runtime that stands still keep their turns, and no release on another one waits for these.
    repetitions: Mutex<HashMap<runtime::Id, Arc<Semaphore>>>,
    unclaimed: Mutex<Unclaimed>,
    /// Signalled when no lock is held or waited for any more.
    idle: Arc<Notify>,
    this: Weak<Self>,
}

/// How many releases may be repeated at a time on one runtime.
const REPETITIONS: usize = 8;

/// What somebody wants, and for how long.
#[derive(Debug)]
pub(crate) struct Want {
    pub(crate) key: LockKey,
    pub(crate) hold: HoldId,
    pub(crate) ttl: Duration,
    /// Whether it may go on with the hold of another one.
    pub(crate) inherits: bool,
    pub(crate) wait: Wait,
    /// When the waiting began.
    pub(crate) since: Instant,
    /// Where the work goes that outlives the waiter.
    pub(crate) runtime: Handle,
}

impl Queue {
    pub(crate) fn new(store: Arc<dyn Store>, queueing: Queueing) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            store,
            queueing,
            inbox: InboxId::new(),
            lines: Mutex::default(),
            repetitions: Mutex::default(),
            unclaimed: Mutex::default(),
            idle: Arc::default(),
            this: Weak::clone(this),
        })
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Takes the lock, or waits for it in line. Dropping the future leaves the line and undoes
    /// whatever the store may have granted by then.
    ///
    /// `None` if the lock was granted and not entered in time: it has gone to the next one, and the
    /// caller asks again as another hold.
    pub(crate) async fn acquire(self: &Arc<Self>, want: Want) -> Result<Option<Grant>, LockError> {
        let Want {
            key,
            hold,
            ttl,
            inherits,
            wait,
            since,
            runtime,
        } = want;
        let name = key.clone();
        let name = || name.name().to_owned();
        let claim = AcquireRequest {
            hold,
            ttl,
            tokens: if inherits { self.queueing.tokens() } else { 1 },
            entry: (wait != Wait::Never).then(|| self.entry(ttl)).flatten(),
        };
        let place = Place::join(self, Waiter::new(key, claim, runtime, wait == Wait::Never));
        let answer = match wait {
            Wait::Never => place.try_once().await,
            Wait::Forever => place.turn().await,
            // The limit is part of the wait, so an instant too far to represent is no limit.
            Wait::AtMost(wait) => match since.checked_add(wait) {
                Some(limit) => timeout_at(limit, place.turn())
                    .await
                    .unwrap_or(Err(Refusal::Late)),
                None => place.turn().await,
            },
        };
        match answer {
            // Dropping it gives back what is left of its lease.
            Ok(grant) => Ok(grant.is_live().then_some(grant)),
            Err(Refusal::PassedOver) => Ok(None),
            Err(Refusal::Busy) => Err(LockError::Busy { key: name() }),
            Err(Refusal::Failed(source)) => Err(LockError::Store {
                key: Some(name()),
                source,
            }),
            Err(Refusal::Late) => Err(LockError::Timeout {
                key: name(),
                waited: since.elapsed(),
                source: place.failure(),
            }),
        }
    }

    /// How many wait in this process, besides the one that holds the lock.
    pub(crate) fn len(&self, key: &LockKey) -> usize {
        self.lines.lock().get(key).map_or(0, Line::len)
    }

    /// How a waiter with this TTL stands in the store's queue; `None` if it asks too rarely to keep
    /// a place there.
    ///
    /// A lock that moves to it has a short lease until it is renewed, and a place has a short life,
    /// so that a process which has died delays the others by two heartbeats and no more.
    fn entry(&self, ttl: Duration) -> Option<QueueEntry> {
        let heartbeat = self.queueing.heartbeat(ttl);
        let asks = match self.queueing.wake {
            Wake::Poll { interval, .. } => interval,
            Wake::Notify | Wake::Backoff => Duration::ZERO,
        };
        (asks <= heartbeat).then(|| QueueEntry {
            inbox: self.inbox,
            grant: (2 * heartbeat).min(ttl),
            life: 2 * heartbeat,
        })
    }

    /// Waits for a turn to repeat a release.
    async fn repetition(&self) -> Option<OwnedSemaphorePermit> {
        let turns = {
            let mut all = self.repetitions.lock();
            all.retain(|_, turns| Arc::strong_count(turns) > 1);
            let turns = all.entry(Handle::current().id());
            Arc::clone(turns.or_insert_with(|| Arc::new(Semaphore::new(REPETITIONS))))
        };
        turns.acquire_owned().await.ok()
    }

    /// Opens the inbox, unless it is open. False while waiters have to ask; they are woken when that
    /// changes.
    fn listen(&self) -> bool {
        let listener = Weak::clone(&self.this);
        self.queueing.wake == Wake::Notify && self.store.listen(self.inbox, listener)
    }

    /// The hold has lost its lock: it is not by its release that the first in line will get it.
    pub(crate) fn lost(&self, key: &LockKey, hold: HoldId) {
        self.with_line(key, |line| {
            line.pass(hold, None);
            line.kick();
        });
    }

    /// The hold has a watchdog from now on.
    pub(crate) fn guarded(&self, key: &LockKey, hold: HoldId) {
        self.with_line(key, |line| line.counts_until(hold, None));
    }

    /// The lock may be free: the first in line asks at once.
    fn kick(&self, key: &LockKey) {
        self.with_line(key, Line::kick);
    }

    /// Works on a line that is there already, and then gives the signals that this has called for: a
    /// waker may run code of its own, which may come back here.
    fn with_line<T>(&self, key: &LockKey, work: impl FnOnce(&mut Line) -> T) -> Option<T> {
        let is_idle;
        let (output, signals) = {
            let mut lines = self.lines.lock();
            let line = lines.get_mut(key)?;
            let output = work(line);
            let signals = line.take_signals();
            if line.is_over() {
                lines.remove(key);
            }
            is_idle = lines.is_empty();
            (output, signals)
        };
        if is_idle {
            self.idle.notify_one();
        }
        signals.into_iter().for_each(Signal::give);
        Some(output)
    }

    /// Puts a waiter at the end of its line. Returns whether it may ask at once: no other one stands
    /// before it, and no release in this process will hand it the lock.
    fn join(&self, waiter: &Arc<Waiter>) -> bool {
        let mut lines = self.lines.lock();
        let line = lines.entry(waiter.key().clone()).or_default();
        line.join(waiter) && self.asks_at_once(line)
    }

    /// The first in line, if that is another waiter.
    fn ahead(&self, waiter: &Arc<Waiter>) -> Option<Arc<Waiter>> {
        let lines = self.lines.lock();
        let first = lines.get(waiter.key())?.first()?;
        (!Arc::ptr_eq(first, waiter)).then(|| Arc::clone(first))
    }

    /// Whether a release in this process is to bring this waiter the lock.
    fn is_named(&self, waiter: &Waiter) -> bool {
        let lines = self.lines.lock();
        let line = lines.get(waiter.key());
        line.is_some_and(|line| line.holder() == Some(waiter.hold()))
    }

    /// What the store told last about the lock.
    fn heard(&self, key: &LockKey) -> Heard {
        let lines = self.lines.lock();
        lines
            .get(key)
            .map_or(Heard::Nothing, |line| line.heard().clone())
    }

    /// Whether the first in line asks although nothing has happened.
    fn asks_at_once(&self, line: &Line) -> bool {
        // In strict order it takes its place in the store's queue when it comes, not when the lock
        // is released.
        !line.is_held()
            || self.queueing.local_handoffs == 0
            || matches!(self.queueing.wake, Wake::Poll { .. })
    }

    /// Takes a waiter that gets the lock out of its line. Answers whether it still stood there: then
    /// the answer to its attempt belongs to the caller.
    fn enter(&self, waiter: &Waiter, won: &Won) -> bool {
        let until = Some(deadline(won.sent, won.lease));
        let entered = self.with_line(waiter.key(), |line| {
            line.remove(waiter).is_some_and(|_| {
                line.hold(waiter.hold(), won.how, until);
                if self.queueing.local_handoffs == 0 {
                    // In strict order the next one takes its place in the store's queue now.
                    line.kick();
                }
                true
            })
        });
        entered == Some(true)
    }

    /// Takes a waiter that does not get the lock out of its line. Answers where it stood, if it still
    /// did: then the answer to its attempt belongs to the caller.
    fn leave(&self, waiter: &Waiter) -> Option<usize> {
        self.with_line(waiter.key(), |line| line.remove(waiter))?
    }

    /// Starts a driver for the line unless it has one, on the runtime that polls the caller: it is
    /// alive, which the one that polled it first may be no longer. `busy` is what the caller has just
    /// learnt for the first in line, so that the driver need not ask again at once.
    fn drive(self: &Arc<Self>, waiter: &Waiter, busy: Option<Duration>) {
        let Some(Some(pulse)) = self.with_line(waiter.key(), Line::drive) else {
            return;
        };
        let driver = driver::Driver::new(self, waiter.key(), pulse);
        let runtime = Handle::try_current().unwrap_or_else(|_| waiter.runtime().clone());
        drop(runtime.spawn(driver.run(busy)));
    }

    /// Takes the line away from a driver that has made no turn since `seen`: its runtime stands
    /// still. Should it ever go on, it finds that the line is no longer its own. Answers the turns
    /// seen now.
    fn relieve(&self, key: &LockKey, seen: Option<u64>) -> Option<u64> {
        self.with_line(key, |line| line.relieve(seen))?
    }

    /// The first in the line that has this pulse, and whether it asks although nothing has happened;
    /// `None` if the line has ended.
    fn first(&self, key: &LockKey, pulse: &Arc<Pulse>) -> Option<(Arc<Waiter>, bool)> {
        let lines = self.lines.lock();
        let line = lines.get(key).filter(|line| line.has(pulse))?;
        Some((Arc::clone(line.first()?), self.asks_at_once(line)))
    }

    /// The driver is gone although somebody waits: its runtime was shut down. The waiters are woken,
    /// and one of them starts another.
    fn abandon(&self, key: &LockKey, pulse: &Arc<Pulse>) {
        self.with_line(key, |line| line.abandon(pulse));
    }
}

/// How a waiter comes by its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entering {
    /// From the store.
    Afresh,
    /// From a holder in the same process, and how many times in a row that has happened now.
    HandedOver(u32),
}

impl Listener for Queue {
    fn moved(&self, moved: HandoffMessage) {
        let Some(queue) = self.this.upgrade() else {
            return;
        };
        let waiter = {
            let lines = self.lines.lock();
            let line = lines.get(moved.key.as_str());
            line.and_then(|line| line.find(moved.hold))
        };
        // A hold that has entered already, or waits no longer, has no use for the news.
        if let Some(waiter) = waiter {
            waiter.told(&queue, moved);
        }
    }

    fn is_idle(&self) -> bool {
        self.lines.lock().values().all(|line| line.len() == 0)
    }

    fn missed(&self) {
        let mut keys: Vec<_> = self.lines.lock().keys().cloned().collect();
        // In an order that does not depend on chance, so that a simulation repeats itself.
        keys.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
        keys.iter().for_each(|key| self.kick(key));
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("store", &self.store)
            .field("queueing", &self.queueing)
            .field("inbox", &self.inbox)
            .finish_non_exhaustive()
    }
}

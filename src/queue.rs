//! The local queue: first come, first served among the waiters of one process, and only the first
//! of them talks to the store.
//!
//! A waiter alone in its line asks by itself, so that a free lock costs no task. As soon as anybody
//! has to wait, a driver task asks for whoever stands first; it does so even for a first waiter
//! that nobody polls, so that it cannot block those behind it.
//!
//! Whoever takes a waiter out of its line owns the answer to that waiter's attempt: the waiter that
//! enters, the driver that serves it, or the waiter's drop, which undoes the attempt.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::Notify,
    time::{Instant, timeout_at},
};

use self::{
    driver::Driver,
    place::Place,
    waiter::{Refusal, Waiter},
};
use crate::{
    error::LockError,
    key::LockKey,
    mutex::Mutex,
    options::{Wait, Wake},
    store::{Claim, Store},
};

mod driver;
mod grant;
mod place;
mod release;
mod waiter;

pub(crate) use self::{grant::Grant, release::Release};

/// The lines of all keys that anybody in this process waits for through one `Locks`.
#[derive(Debug)]
pub(crate) struct Queue {
    store: Arc<dyn Store>,
    wake: Wake,
    lines: Mutex<HashMap<LockKey, Line>>,
}

/// Those who want one key, in the order in which they came. It ends when the last of them leaves.
#[derive(Debug, Default)]
struct Line {
    waiters: VecDeque<Arc<Waiter>>,
    /// Whether a driver task asks for the first of them.
    driven: bool,
    /// Tells the driver that the lock may be free, or that the first waiter has left. Tells a line
    /// from the next one of its key, too.
    kick: Arc<Notify>,
    /// How many turns the driver has made.
    turns: Arc<AtomicU64>,
}

/// What somebody wants, and for how long.
#[derive(Debug)]
pub(crate) struct Want {
    pub(crate) key: LockKey,
    pub(crate) claim: Claim,
    pub(crate) wait: Wait,
    /// When the waiting began.
    pub(crate) since: Instant,
    /// Where the work goes that outlives the waiter.
    pub(crate) runtime: Handle,
}

impl Queue {
    pub(crate) fn new(store: Arc<dyn Store>, wake: Wake) -> Arc<Self> {
        Arc::new(Self {
            store,
            wake,
            lines: Mutex::default(),
        })
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Takes the lock, or waits for it in line. Dropping the future leaves the line and undoes
    /// whatever the store may have granted by then.
    pub(crate) async fn acquire(self: &Arc<Self>, want: Want) -> Result<Grant, LockError> {
        let Want {
            key,
            claim,
            wait,
            since,
            runtime,
        } = want;
        let name = key.name().to_owned();
        let place = Place::join(self, Waiter::new(key, claim, runtime));
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
        answer.map_err(|refusal| match refusal {
            Refusal::Busy => LockError::Busy { key: name },
            Refusal::Failed(source) => LockError::Store {
                key: Some(name),
                source,
            },
            Refusal::Late => {
                let source = place.last_error();
                LockError::Timeout {
                    key: name,
                    waited: since.elapsed(),
                    source,
                }
            }
        })
    }

    /// How many wait in this process, besides the one that holds the lock.
    pub(crate) fn len(&self, key: &LockKey) -> usize {
        self.lines
            .lock()
            .get(key)
            .map_or(0, |line| line.waiters.len())
    }

    /// The lock may be free: the first in line asks at once.
    fn kick(&self, key: &LockKey) {
        if let Some(line) = self.lines.lock().get(key) {
            line.kick.notify_one();
        }
    }

    /// Puts a waiter at the end of its line. Answers whether nobody stands before it.
    fn join(&self, waiter: &Arc<Waiter>) -> bool {
        let mut lines = self.lines.lock();
        let line = lines.entry(waiter.key().clone()).or_default();
        line.waiters.push_back(Arc::clone(waiter));
        line.waiters.len() == 1
    }

    /// Takes a waiter out of its line. Answers whether it still stood there: then the answer to its
    /// attempt belongs to the caller.
    fn claim(&self, waiter: &Arc<Waiter>) -> bool {
        self.remove(waiter).is_some()
    }

    /// The same for a waiter that gives up; the next in line takes over at once.
    fn leave(&self, waiter: &Arc<Waiter>) -> bool {
        let at = self.remove(waiter);
        if at == Some(0) {
            self.kick(waiter.key());
        }
        at.is_some()
    }

    fn remove(&self, waiter: &Arc<Waiter>) -> Option<usize> {
        let mut lines = self.lines.lock();
        let Entry::Occupied(mut entry) = lines.entry(waiter.key().clone()) else {
            return None;
        };
        let line = entry.get_mut();
        let at = line
            .waiters
            .iter()
            .position(|other| Arc::ptr_eq(other, waiter))?;
        drop(line.waiters.remove(at));
        if line.waiters.is_empty() {
            // The line ends here and not with its driver, whose runtime may stand still: whoever
            // comes next must not wait for it.
            line.kick.notify_one();
            drop(entry.remove());
        }
        Some(at)
    }

    /// Starts a driver for the line unless it has one, on the runtime that polls the caller: it is
    /// alive, which the one that polled it first may be no longer. `busy` is what the caller has just
    /// learnt for the first in line, so that the driver need not ask again at once.
    fn drive(self: &Arc<Self>, waiter: &Waiter, busy: Option<Duration>) {
        let key = waiter.key();
        let mut lines = self.lines.lock();
        let Some(line) = lines.get_mut(key) else {
            return;
        };
        if !line.driven {
            line.driven = true;
            let (kick, turns) = (Arc::clone(&line.kick), Arc::clone(&line.turns));
            let driver = Driver::new(self, key, kick, turns);
            drop(lines);
            let runtime = Handle::try_current().unwrap_or_else(|_| waiter.runtime().clone());
            drop(runtime.spawn(driver.run(busy)));
        }
    }

    /// Takes the line away from a driver that has made no turn since `seen`: its runtime stands
    /// still. Should it ever go on, it finds that the line is no longer its own. Answers the turns
    /// seen now.
    fn relieve(&self, key: &LockKey, seen: Option<u64>) -> Option<u64> {
        let mut lines = self.lines.lock();
        let line = lines.get_mut(key)?;
        let turns = line.turns.load(Ordering::Relaxed);
        if line.driven && seen == Some(turns) {
            line.driven = false;
            line.kick = Arc::default();
            line.turns = Arc::default();
            return None;
        }
        Some(turns)
    }

    /// The first in the line that has this `kick`; `None` if it has ended.
    fn first(&self, key: &LockKey, kick: &Arc<Notify>) -> Option<Arc<Waiter>> {
        let lines = self.lines.lock();
        let line = lines.get(key).filter(|line| Arc::ptr_eq(&line.kick, kick));
        line?.waiters.front().cloned()
    }

    /// The driver is gone although somebody waits: its runtime was shut down. The waiters are woken,
    /// and one of them starts another.
    fn abandon(&self, key: &LockKey, kick: &Arc<Notify>) {
        let mut lines = self.lines.lock();
        if let Some(line) = lines.get_mut(key)
            && Arc::ptr_eq(&line.kick, kick)
        {
            line.driven = false;
            line.waiters.iter().for_each(|waiter| waiter.nudge());
        }
    }
}

//! The value that is kept for each key that is held or waited for.

use std::collections::HashMap;
use std::mem;
use std::task::Waker;

use foldhash::fast::RandomState;
use smallvec::SmallVec;
use tokio::runtime;
use tokio::time::Instant;

use super::callers::Caller;
use super::line::Effects;
use super::line::{Line, NextRequest};
use super::local_queue::LocalQueue;
use super::request::Acquiring;
use super::step::Action;
use super::waiter::Waiter;
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::options::{Mode, QueueOptions};

/// The local queues of all keys that are held or waited for.
pub(super) struct Lines {
    queueing: QueueOptions,
    pub(super) of: HashMap<LockKey, Slot, RandomState>,
    /// The actions of one step at a time.
    actions: Vec<Action>,
}

/// The value that is kept for one key.
pub(super) enum Slot {
    Alone(Alone),
    /// Boxed, because a map allocates more entries than it contains.
    Line(Box<Line>),
}

impl Lines {
    pub(super) fn new(queueing: QueueOptions) -> Self {
        Self {
            queueing,
            of: HashMap::default(),
            actions: Vec::new(),
        }
    }

    /// Works on the local queue of a key, if there is one.
    pub(super) fn change<T>(
        &mut self,
        key: &LockKey,
        effects: &mut Effects,
        work: impl FnOnce(&mut Line, &mut Effects) -> T,
    ) -> Option<T> {
        let slot = self.of.get_mut(key)?;
        let Slot::Line(line) = slot else {
            return None;
        };
        let output = work_on(line, &mut self.actions, effects, work);
        slot.shrink();
        if slot.is_over() {
            self.of.remove(key);
        }
        Some(output)
    }

    /// Works on the local queue of a key, and creates it if there is none. What it wants of its driver afterwards is
    /// one of the effects.
    pub(super) fn work<T>(
        &mut self,
        key: &LockKey,
        effects: &mut Effects,
        work: impl FnOnce(&mut Line, &mut Effects) -> T,
    ) -> T {
        let queueing = self.queueing;
        let vacant = || Slot::Line(Box::new(Line::new(LocalQueue::new(queueing))));
        let slot = self.of.entry(key.clone()).or_insert_with(vacant);
        let output = match slot {
            Slot::Line(line) => work_on(line, &mut self.actions, effects, work),
            Slot::Alone(alone) => {
                let mut line = Box::new(alone.line(queueing, effects));
                let output = work_on(&mut line, &mut self.actions, effects, work);
                *slot = Slot::Line(line);
                output
            }
        };
        slot.shrink();
        if slot.is_over() {
            self.of.remove(key);
        }
        output
    }

    /// Notes that messages were missed: other processes may wait for the locks that no caller waits for.
    pub(super) fn missed(&mut self) {
        for slot in self.of.values_mut() {
            if let Slot::Alone(Alone::Held { is_contended, .. }) = slot {
                *is_contended = true;
            }
        }
    }

    /// The keys that callers wait for. Their order does not depend on chance, so that a simulation repeats itself.
    pub(super) fn waited_for(&self) -> Vec<LockKey> {
        let slots = self.of.iter();
        let waited_for = slots.filter(|(_, slot)| slot.len() > 0 || matches!(slot, Slot::Line(_)));
        let mut keys: Vec<_> = waited_for.map(|(key, _)| key.clone()).collect();
        keys.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
        keys
    }

    /// The local queue of a key, if there is one.
    pub(super) fn line(&mut self, key: &LockKey) -> Option<&mut Line> {
        match self.of.get_mut(key)? {
            Slot::Line(line) => Some(line),
            Slot::Alone(_) => None,
        }
    }

    /// The caller that requests a key, if it is alone.
    pub(super) fn asking(&mut self, key: &LockKey, hold: HoldId) -> Option<&mut LoneCaller> {
        match self.of.get_mut(key)? {
            Slot::Alone(Alone::Asking(asking)) if asking.waiter.request.hold == hold => {
                Some(asking)
            }
            _ => None,
        }
    }
}

/// Works on a local queue, and then says what it wants of its driver.
fn work_on<T>(
    line: &mut Line,
    actions: &mut Vec<Action>,
    effects: &mut Effects,
    work: impl FnOnce(&mut Line, &mut Effects) -> T,
) -> T {
    mem::swap(actions, &mut effects.actions);
    let output = work(line, effects);
    mem::swap(actions, &mut effects.actions);
    line.direct_driver(effects);
    output
}

impl Slot {
    /// Returns whether the key is neither held nor waited for.
    pub(super) fn is_over(&self) -> bool {
        matches!(self, Self::Line(line) if line.is_over())
    }

    /// Frees memory, because a lock that is held for long must not keep the memory of earlier waiters.
    pub(super) fn shrink(&mut self) {
        if let Self::Line(line) = self
            && let Some(alone) = Alone::of(line)
        {
            *self = Self::Alone(alone);
        }
    }

    /// Returns whether this hold has the lock in this process.
    pub(super) fn is_held_by(&self, hold: HoldId) -> bool {
        match self {
            Self::Alone(alone) => alone.is_held_by(hold),
            Self::Line(line) => line.queue.is_held_by(hold),
        }
    }

    /// The callers that wait for the first request of a release.
    pub(super) fn tries(self) -> impl Iterator<Item = Waker> {
        let tries = match self {
            Self::Alone(Alone::Held { tries, .. } | Alone::Releasing { tries, .. }) => tries,
            _ => None,
        };
        tries.into_iter().flat_map(|tries| *tries)
    }

    /// Returns whether a caller waits until a holder in this process leaves.
    pub(super) fn is_wanted(&self, now: Instant) -> bool {
        matches!(self, Self::Line(line) if line.queue.is_wanted(now))
    }

    /// The number of callers that wait.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Alone(Alone::Held { .. } | Alone::Releasing { .. }) => 0,
            Self::Alone(Alone::Asking(_)) => 1,
            Self::Line(line) => line.queue.len(),
        }
    }
}

/// The state of a lock that only one hold of this process wants.
pub(super) enum Alone {
    /// Boxed, because most locks are held for longer than they are requested.
    Asking(Box<LoneCaller>),
    Held {
        hold: HoldId,
        mode: Mode,
        /// The number of times in a row that the lock was handed off inside this process.
        handoffs: u32,
        /// Whether another process may wait for the lock.
        is_contended: bool,
        /// Whether the hold has ended, and its release is on its way.
        is_ending: bool,
        tries: Tries,
    },
    /// The first request of a release is in flight. A caller that waits may send its own request meanwhile. One that
    /// makes only one attempt is woken when the release is answered.
    Releasing { hold: HoldId, tries: Tries },
}

/// The callers that make only one attempt, and wait for a release. Boxed, because there rarely is one.
pub(super) type Tries = Option<Box<SmallVec<[Waker; 1]>>>;

/// A caller that requests a lock, while no other caller wants it.
pub(super) struct LoneCaller {
    pub(super) waiter: Waiter,
    /// The runtime on which the caller was polled first.
    pub(super) runtime: runtime::Id,
    /// The request; `None` while the caller polls it.
    pub(super) acquiring: Option<Acquiring>,
    /// The waker of the caller, after the request has been polled.
    pub(super) waker: Option<Waker>,
}

impl Alone {
    /// The remaining state of the local queue if a hold has the lock and no caller wants it.
    fn of(line: &Line) -> Option<Self> {
        let is_idle = line.callers.is_empty() && line.driver.is_none();
        let (holder, handoffs, is_contended) = line.queue.held_alone().filter(|_| is_idle)?;
        let (hold, mode) = holder;
        Some(Self::Held {
            hold,
            mode,
            handoffs,
            is_contended,
            is_ending: false,
            tries: None,
        })
    }

    /// Notes that the first request of the release of this hold is sent. Returns false if it does not have the lock.
    pub(super) fn release(&mut self, ended: HoldId) -> bool {
        match self {
            Self::Held { hold, tries, .. } if *hold == ended => {
                let (hold, tries) = (ended, tries.take());
                *self = Self::Releasing { hold, tries };
                true
            }
            _ => false,
        }
    }

    pub(super) fn is_held_by(&self, hold: HoldId) -> bool {
        matches!(self, Self::Held { hold: holder, .. } if *holder == hold)
    }

    /// Returns the local queue for the time after another caller joins. The driver continues with the request in
    /// flight. The caller that has sent it is woken: from now on it waits like any other.
    fn line(&mut self, queueing: QueueOptions, effects: &mut Effects) -> Line {
        match self {
            Self::Held {
                hold,
                mode,
                handoffs,
                is_contended,
                tries,
                ..
            } => {
                let tries = tries.take().into_iter().flat_map(|it| *it);
                effects.wakers.extend(tries);
                let holder = (*hold, *mode);
                let queue = LocalQueue::held(queueing, holder, *handoffs, *is_contended);
                Line::new(queue)
            }
            Self::Releasing { tries, .. } => {
                effects
                    .wakers
                    .extend(tries.take().into_iter().flat_map(|it| *it));
                Line::new(LocalQueue::new(queueing))
            }
            Self::Asking(asking) => {
                let queue = LocalQueue::asking(queueing, asking.waiter.clone());
                let mut line = Line::new(queue);
                effects.wakers.extend(asking.waker.take());
                let caller = Caller {
                    waker: None,
                    runtime: Some(asking.runtime),
                    answer: None,
                    // The caller provides its patience at its next poll.
                    patience: None,
                };
                line.callers.join(asking.waiter.request.hold, caller);
                line.is_asking = true;
                line.request = asking.acquiring.take().map(NextRequest::Sent);
                line
            }
        }
    }
}

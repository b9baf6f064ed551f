//! What is kept for each key that is held or waited for.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use foldhash::fast::RandomState;
use tokio::runtime;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::effects::Effects;
use super::grant::Grant;
use super::holder_lookup::{Look, Patience, held_by};
use super::local_queue::LocalQueue;
use super::request::{Acquiring, Flight};
use super::step::{Action, Refusal};
use super::waiter::Waiter;
use crate::base::error::HeldBy;
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::option_types::Mode;
use crate::base::options::Queueing;

/// The driver of a line.
pub(super) struct Driven {
    /// Wakes the driver, and distinguishes it from the next one.
    pub(super) signal: Arc<Notify>,
    pub(super) sleeps_until: Option<Instant>,
}

/// The lines of all keys that are held or waited for.
pub(super) struct Lines {
    queueing: Queueing,
    pub(super) of: HashMap<LockKey, Slot, RandomState>,
    /// The actions of one step at a time.
    actions: Vec<Action>,
}

/// What is kept for one key.
pub(super) enum Slot {
    Alone(Alone),
    /// Boxed, since a map has room for many more than it holds.
    Line(Box<Line>),
}

impl Lines {
    pub(super) fn new(queueing: Queueing) -> Self {
        Self {
            queueing,
            of: HashMap::default(),
            actions: Vec::new(),
        }
    }

    /// Works on the line of a key, and begins the line if it is not there. `resume` makes a request in flight of a
    /// request that its caller has polled itself until now.
    pub(super) fn work<T>(
        &mut self,
        key: &LockKey,
        effects: &mut Effects,
        resume: impl FnOnce(Acquiring) -> Flight,
        work: impl FnOnce(&mut Line, &mut Effects) -> T,
    ) -> T {
        let Self {
            queueing,
            of,
            actions,
        } = self;
        let vacant = || Slot::Line(Box::new(Line::new(LocalQueue::new(*queueing))));
        let slot = of.entry(key.clone()).or_insert_with(vacant);
        mem::swap(actions, &mut effects.actions);
        let output = match slot {
            Slot::Line(line) => work(line, effects),
            Slot::Alone(alone) => {
                let (mut line, acquiring) = alone.line(*queueing, effects);
                line.flight = acquiring.map(resume);
                let output = work(&mut line, effects);
                *slot = Slot::Line(Box::new(line));
                output
            }
        };
        mem::swap(actions, &mut effects.actions);
        slot.shrink();
        if slot.is_over() {
            of.remove(key);
        }
        output
    }

    /// Notes that messages were missed. Returns the keys that are waited for here; other processes may wait for the
    /// others.
    pub(super) fn missed(&mut self) -> Vec<LockKey> {
        let mut waited_for = Vec::new();
        for (key, slot) in &mut self.of {
            match slot {
                Slot::Alone(Alone::Held { is_contended, .. }) => *is_contended = true,
                Slot::Alone(Alone::Asking(_)) | Slot::Line(_) => waited_for.push(key.clone()),
            }
        }
        waited_for
    }

    /// The wakers of all callers that wait for an answer, except those that poll the request in flight of their line.
    pub(super) fn wakers(&mut self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        for slot in self.of.values_mut() {
            match slot {
                Slot::Alone(Alone::Held { .. }) => {}
                Slot::Alone(Alone::Asking(asking)) => wakers.extend(asking.waker.take()),
                Slot::Line(line) => {
                    let callers = line.callers.iter_mut();
                    wakers.extend(callers.filter_map(|caller| caller.waker.take()));
                }
            }
        }
        wakers
    }

    /// The line of a key, if there is one.
    pub(super) fn line(&mut self, key: &LockKey) -> Option<&mut Line> {
        match self.of.get_mut(key)? {
            Slot::Line(line) => Some(line),
            Slot::Alone(_) => None,
        }
    }

    /// The caller that asks for a key, if it is alone.
    pub(super) fn asking(&mut self, key: &LockKey, hold: HoldId) -> Option<&mut LoneCaller> {
        match self.of.get_mut(key)? {
            Slot::Alone(Alone::Asking(asking)) if asking.waiter.request.hold == hold => {
                Some(asking)
            }
            _ => None,
        }
    }
}

impl Slot {
    /// Whether the key is neither held nor waited for.
    pub(super) fn is_over(&self) -> bool {
        matches!(self, Self::Line(line) if line.is_over())
    }

    /// Frees memory: a lock that is held for long must not keep the memory of earlier waiters.
    pub(super) fn shrink(&mut self) {
        if let Self::Line(line) = self
            && let Some(alone) = line.alone()
        {
            *self = Self::Alone(alone);
        }
    }

    /// The number of callers that wait.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Alone(Alone::Held { .. }) => 0,
            Self::Alone(Alone::Asking(_)) => 1,
            Self::Line(line) => line.queue.len(),
        }
    }
}

/// What is kept for a lock that one hold of this process wants, and no other.
pub(super) enum Alone {
    /// Boxed, since most locks are held for longer than they are asked for.
    Asking(Box<LoneCaller>),
    Held {
        hold: HoldId,
        mode: Mode,
        /// How many times in a row the lock was handed on inside this process.
        handoffs: u32,
        /// Whether another process may wait for the lock.
        is_contended: bool,
    },
}

/// A caller that asks, while no other one wants the lock.
pub(super) struct LoneCaller {
    pub(super) waiter: Waiter,
    /// The runtime on which the caller was polled first.
    pub(super) runtime: runtime::Id,
    /// The request; `None` while the caller polls it.
    pub(super) acquiring: Option<Acquiring>,
    /// The waker of the caller, once the request has been polled.
    pub(super) waker: Option<Waker>,
}

impl Alone {
    /// Returns the line for the time when another caller comes, and the request in flight unless its caller polls it. A
    /// caller that asks is woken: from now on it waits like any other.
    fn line(&mut self, queueing: Queueing, effects: &mut Effects) -> (Line, Option<Acquiring>) {
        match self {
            Self::Held {
                hold,
                mode,
                handoffs,
                is_contended,
            } => {
                let holder = (*hold, *mode);
                let queue = LocalQueue::held(queueing, holder, *handoffs, *is_contended);
                (Line::new(queue), None)
            }
            Self::Asking(asking) => {
                let queue = LocalQueue::asking(queueing, asking.waiter.clone());
                let mut line = Line::new(queue);
                effects.wakers.extend(asking.waker.take());
                line.join(Caller {
                    waiter: asking.waiter.request.hold,
                    waker: None,
                    runtime: Some(asking.runtime),
                    answer: None,
                    // The caller brings its patience at its next poll.
                    patience: None,
                });
                (line, asking.acquiring.take())
            }
        }
    }
}

/// The local queue of one key, and what its steps act on.
pub(super) struct Line {
    pub(super) queue: LocalQueue,
    /// The callers that wait for an answer, in the order in which they came.
    pub(super) callers: VecDeque<Caller>,
    pub(super) flight: Option<Flight>,
    pub(super) driver: Option<Driven>,
    /// When the first of the callers looks up the holder, unless that caller has left.
    look_at: Option<Instant>,
    pub(super) looking: Option<Look>,
    /// Who had the lock at the last look, and when that look was.
    seen: Option<(Instant, Option<HeldBy>)>,
}

/// The caller of one waiter.
pub(super) struct Caller {
    pub(super) waiter: HoldId,
    /// The waker. `None` while the caller polls the request in flight, since there is no other way to its answer, and
    /// after the caller was woken to come for an answer.
    pub(super) waker: Option<Waker>,
    /// The runtime on which the caller was polled last.
    pub(super) runtime: Option<runtime::Id>,
    pub(super) answer: Option<Result<Grant, Refusal>>,
    /// The patience of the caller; `None` if it asks once.
    pub(super) patience: Option<Patience>,
}

impl Caller {
    /// When the caller looks up the holder. A caller that has its answer does not.
    fn looks_at(&self) -> Option<Instant> {
        let patience = self.patience.as_ref().filter(|_| self.answer.is_none());
        patience.and_then(Patience::due)
    }
}

impl Line {
    pub(super) fn new(queue: LocalQueue) -> Self {
        Self {
            queue,
            callers: VecDeque::new(),
            flight: None,
            driver: None,
            look_at: None,
            looking: None,
            seen: None,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.queue.is_over() && self.callers.is_empty()
    }

    /// What is left of the line if a hold has the lock and no caller wants it.
    pub(super) fn alone(&self) -> Option<Alone> {
        let is_idle = self.callers.is_empty() && self.driver.is_none();
        let (holder, handoffs, is_contended) = self.queue.held_alone().filter(|_| is_idle)?;
        let (hold, mode) = holder;
        Some(Alone::Held {
            hold,
            mode,
            handoffs,
            is_contended,
        })
    }

    /// Adds a caller, behind all others.
    pub(super) fn join(&mut self, caller: Caller) {
        self.look_by(caller.looks_at());
        self.callers.push_back(caller);
    }

    /// Notes the patience of a caller that begins to wait, and was alone until now.
    pub(super) fn be_patient(&mut self, waiter: HoldId, patience: Patience) {
        let due = patience.due();
        if let Some(caller) = self.caller(waiter) {
            caller.patience = Some(patience);
            self.look_by(due);
        }
    }

    fn look_by(&mut self, due: Option<Instant>) {
        self.look_at = self.look_at.into_iter().chain(due).min();
    }

    /// When the driver has something to do, if nothing happens before.
    pub(super) fn due(&self) -> Option<Instant> {
        let look_at = self.look_at.filter(|_| self.looking.is_none());
        self.queue.due().into_iter().chain(look_at).min()
    }

    /// Takes in an answered look. Returns whether a caller that is due needs another look: not if the last one was less
    /// than a heartbeat ago.
    pub(super) fn take_in_look(
        &mut self,
        now: Instant,
        heartbeat: Duration,
        effects: &mut Effects,
    ) -> bool {
        if let Some(looking) = &self.looking {
            let Some(seen) = looking.peek().cloned() else {
                return false;
            };
            self.looking = None;
            let is_held_here = |hold| self.queue.is_held_by(hold);
            let holder = seen.and_then(|seen| held_by(&seen, is_held_here));
            self.seen = Some((now, holder));
        }
        if self.look_at.is_none_or(|due| due > now) {
            return false;
        }
        let seen = self.seen.as_ref();
        if let Some((at, holder)) = seen.filter(|(at, _)| now < *at + heartbeat) {
            let holder = holder.as_ref().map(|it| it.later(now - *at));
            for caller in &mut self.callers {
                if caller.looks_at().is_some_and(|due| due <= now) {
                    let patience = caller.patience.as_mut();
                    let report = patience
                        .and_then(|patience| patience.look(caller.waiter, holder.as_ref(), now));
                    effects.reports.extend(report);
                }
            }
        }
        // The callers that were due may have left, or have their answers.
        self.look_at = self.callers.iter().filter_map(Caller::looks_at).min();
        self.look_at.is_some_and(|due| due <= now)
    }

    /// The signal that wakes the driver, if there is one.
    pub(super) fn signal(&self) -> Option<Arc<Notify>> {
        let driver = self.driver.as_ref()?;
        Some(Arc::clone(&driver.signal))
    }

    /// Gives a caller its answer. Returns an earlier answer for which the caller has not come.
    pub(super) fn answer(
        &mut self,
        waiter: HoldId,
        answer: Result<Grant, Refusal>,
        effects: &mut Effects,
    ) -> Option<Result<Grant, Refusal>> {
        let caller = self.caller(waiter)?;
        effects.wakers.extend(caller.waker.take());
        caller.answer.replace(answer)
    }

    pub(super) fn caller(&mut self, waiter: HoldId) -> Option<&mut Caller> {
        let mut callers = self.callers.iter_mut();
        callers.find(|caller| caller.waiter == waiter)
    }

    /// Removes a caller that has its answer, or waits no longer.
    pub(super) fn forget(&mut self, waiter: HoldId) -> Option<Caller> {
        let mut callers = self.callers.iter();
        let at = callers.position(|caller| caller.waiter == waiter)?;
        self.callers.remove(at)
    }
}

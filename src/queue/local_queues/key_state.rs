//! What is kept for each key that is held or waited for.

use std::collections::HashMap;
use std::task::Waker;

use foldhash::fast::RandomState;
use smallvec::SmallVec;
use tokio::runtime::{self, Handle};

use super::local_queue::{Deferred, LocalQueue, NextRequest};
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::options::QueueOptions;
use crate::queue::machine::{AcquireSpec, Input, SoleHolder, WaitMachine, Waiter};
use crate::queue::requests::PendingRequest;

/// The state of a key. In the usual case, in which only one hold of this process wants the lock, it is small.
pub(crate) enum KeyState {
    /// A caller requests the lock, and no other caller wants it. Boxed, because most locks are held for longer than they
    /// are requested.
    Requested(Box<LoneCaller>),
    /// A hold has the lock, and no caller wants it.
    Held {
        holder: SoleHolder,
        /// Whether the hold has ended, and its release is on its way.
        is_ending: bool,
        attempts: WaitingAttempts,
    },
    /// The first request of a release is in flight. A caller that waits may send its own request meanwhile. One that
    /// makes only one attempt is woken when the release is answered.
    Releasing {
        hold: HoldId,
        attempts: WaitingAttempts,
    },
    /// Callers wait. Boxed, because a map allocates more entries than it contains.
    Queue(Box<LocalQueue>),
}

/// The callers that make only one attempt, and wait for a release. Boxed, because there rarely is one.
pub(super) type WaitingAttempts = Option<Box<SmallVec<[Waker; 1]>>>;

/// A caller that requests a lock, while no other caller wants it.
pub(crate) struct LoneCaller {
    pub(crate) waiter: Waiter,
    /// The runtime on which the caller was polled first.
    pub(crate) runtime: runtime::Id,
    /// `None` while the caller polls it.
    pub(crate) request: Option<LoneRequest>,
}

/// The request of a caller that is alone, and its waker at the last poll.
pub(crate) type LoneRequest = (PendingRequest, Option<Waker>);

impl KeyState {
    /// A lock that only this caller requests. The request is `None` while the caller polls it.
    pub(crate) fn requested(
        spec: AcquireSpec,
        runtime: &Handle,
        request: Option<PendingRequest>,
    ) -> Self {
        Self::Requested(Box::new(LoneCaller {
            waiter: Waiter::new(spec),
            runtime: runtime.id(),
            request: request.map(|request| (request, None)),
        }))
    }

    /// A lock that a hold has, and that no caller wants.
    pub(crate) fn held(holder: SoleHolder) -> Self {
        Self::Held {
            holder,
            is_ending: false,
            attempts: None,
        }
    }

    pub(super) fn is_held_by(&self, hold: HoldId) -> bool {
        match self {
            Self::Held { holder, .. } => holder.hold == hold,
            Self::Queue(queue) => queue.machine.is_held_by(hold),
            Self::Requested(_) | Self::Releasing { .. } => false,
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Held { .. } | Self::Releasing { .. } => 0,
            Self::Requested(_) => 1,
            Self::Queue(queue) => queue.machine.len(),
        }
    }

    /// Processes an input as far as no machine is needed. A hold whose lock no caller wants only ends, and may be lost
    /// or contended.
    pub(super) fn step_alone(&mut self, input: &Input) -> AloneStep {
        match self {
            Self::Queue(_) => AloneStep::NeedsQueue,
            // The hold lost the lock before. The request was sent behind the release, and finds what it has done.
            Self::Requested(_) if matches!(input, Input::Release(_) | Input::Released(_)) => {
                AloneStep::Done
            }
            Self::Requested(_) => AloneStep::NeedsQueue,
            Self::Held {
                holder, attempts, ..
            } => match input {
                // If another hold has the lock by now, this one has lost it.
                Input::Release(hold) if *hold == holder.hold => {
                    let (hold, attempts) = (*hold, attempts.take());
                    *self = Self::Releasing { hold, attempts };
                    AloneStep::Done
                }
                Input::Lost(hold) | Input::Released(hold) if *hold == holder.hold => {
                    AloneStep::Over
                }
                Input::Contended => {
                    holder.is_contended = true;
                    AloneStep::Done
                }
                _ => AloneStep::Done,
            },
            Self::Releasing { hold, .. } => match input {
                Input::Released(released) if released == hold => AloneStep::Over,
                _ => AloneStep::Done,
            },
        }
    }

    /// Wakes the callers that waited for the first request of a release, after the mutex is released.
    pub(crate) fn wake_attempts(mut self) {
        self.take_attempts().for_each(Waker::wake);
    }

    /// Takes the callers that wait for the first request of a release.
    fn take_attempts(&mut self) -> impl Iterator<Item = Waker> + use<> {
        let attempts = match self {
            Self::Held { attempts, .. } | Self::Releasing { attempts, .. } => attempts.take(),
            Self::Requested(_) | Self::Queue(_) => None,
        };
        attempts.into_iter().flat_map(|attempts| *attempts)
    }

    /// Frees memory, because a lock that is held for long must not keep the memory of earlier waiters. Returns whether
    /// the key is neither held nor waited for.
    fn shrink(&mut self) -> bool {
        let Self::Queue(queue) = self else {
            return false;
        };
        // Callers that have not taken their answer, and the driver, still refer to the local queue.
        let is_idle = queue.callers.is_empty() && queue.driver.is_none();
        if let Some(holder) = queue.machine.sole_holder().filter(|_| is_idle) {
            *self = Self::held(holder);
            return false;
        }
        queue.machine.is_finished() && queue.callers.is_empty()
    }

    /// Creates the local queue, unless there is one, because another caller joins. The driver continues with the request
    /// in flight. The caller that has sent it is woken: from now on it waits like any other.
    fn expand(&mut self, queueing: QueueOptions, deferred: &mut Deferred) {
        // Single attempts that wait for a release join the local queue when they are polled.
        deferred.wakers.extend(self.take_attempts());
        let queue = match self {
            Self::Queue(_) => return,
            Self::Releasing { .. } => LocalQueue::new(WaitMachine::new(queueing)),
            Self::Held { holder, .. } => {
                LocalQueue::new(WaitMachine::with_holder(queueing, *holder))
            }
            // The machine begins in the state in which it would be if it had existed from the start: the request is
            // in flight.
            Self::Requested(lone) => {
                let machine = WaitMachine::with_request(queueing, lone.waiter.clone());
                let mut queue = LocalQueue::new(machine);
                // The caller provides its lookups at its next poll.
                let hold = lone.waiter.request.hold;
                queue.callers.join(hold, lone.runtime, None);
                // If its caller polls it at this moment, it hands it over when it finds the local queue.
                if let Some((request, waker)) = lone.request.take() {
                    queue.next_request = Some(NextRequest::Sent(request));
                    deferred.wakers.extend(waker);
                }
                queue
            }
        };
        *self = Self::Queue(Box::new(queue));
    }
}

/// What follows from an input for a key that may have no local queue.
pub(super) enum AloneStep {
    /// The machine of the local queue processes the input. A lone caller gets one for that.
    NeedsQueue,
    /// It was noted, or does not matter.
    Done,
    /// Nothing is left to remember. The single attempts that wait for the release go on.
    Over,
}

/// What happens to a key that has no local queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfMissing {
    Skip,
    Create,
}

/// The states of all keys that are held or waited for.
pub(crate) struct KeyStates {
    pub(super) queueing: QueueOptions,
    pub(crate) map: HashMap<LockKey, KeyState, RandomState>,
}

impl KeyStates {
    /// Works on the local queue of a key. What it wants of its driver afterwards is one of the effects.
    pub(super) fn with_queue<T>(
        &mut self,
        key: &LockKey,
        if_missing: IfMissing,
        deferred: &mut Deferred,
        work: impl FnOnce(&mut LocalQueue, &mut Deferred) -> T,
    ) -> Option<T> {
        let state = match if_missing {
            IfMissing::Skip => self.map.get_mut(key)?,
            IfMissing::Create => {
                let queueing = self.queueing;
                let new = || KeyState::Queue(Box::new(LocalQueue::new(WaitMachine::new(queueing))));
                let state = self.map.entry(key.clone()).or_insert_with(new);
                state.expand(queueing, deferred);
                state
            }
        };
        let KeyState::Queue(queue) = state else {
            return None;
        };
        // What is left for a driver, and whether the key must be remembered, is known only after the work.
        let output = work(queue, deferred);
        queue.update_driver(deferred);
        if state.shrink() {
            self.map.remove(key);
        }
        Some(output)
    }

    pub(crate) fn queue(&mut self, key: &LockKey) -> Option<&mut LocalQueue> {
        match self.map.get_mut(key)? {
            KeyState::Queue(queue) => Some(queue),
            _ => None,
        }
    }

    /// The caller that requests a key, if it is alone.
    pub(crate) fn lone_caller(&mut self, key: &LockKey, hold: HoldId) -> Option<&mut LoneCaller> {
        match self.map.get_mut(key)? {
            KeyState::Requested(lone) if lone.waiter.request.hold == hold => Some(lone),
            _ => None,
        }
    }

    /// The keys that callers wait for. Their order does not depend on chance, so that a simulation repeats itself.
    pub(super) fn waited_for(&self) -> Vec<LockKey> {
        let states = self.map.iter();
        let waited_for = states
            .filter(|(_, state)| matches!(state, KeyState::Requested(_) | KeyState::Queue(_)));
        let mut keys: Vec<_> = waited_for.map(|(key, _)| key.clone()).collect();
        keys.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
        keys
    }
}

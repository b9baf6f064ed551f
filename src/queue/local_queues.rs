//! The local queues of all keys: one map, one place that gives them input, and one that performs the effects.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::task::Waker;

use tokio::runtime::Handle;
use tokio::sync::broadcast;
use tokio::time::Instant;

use self::key_state::{AloneStep, KeyStates};
use self::local_queue::LocalQueue;
use super::machine::{Denied, Input, RequestReply, unanswered};
use super::requests::Requests;
use crate::base::error::StoreError;
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::options::QueueOptions;
use crate::base::sync::InFlightCount;
use crate::base::sync::Mutex;
use crate::base::{background, events};
use crate::store::{HandoffMessage, MessageListener, Store};

mod callers; // the callers of one local queue, and their lookups of the holder
mod driver; // the task that sends the requests of a local queue
mod key_state; // what is kept for each key that is held or waited for
mod local_queue; // the local queue of one key: its machine, callers and driver

pub(super) use self::callers::{Answer, BlockingHolders, LookupSchedule};
pub(super) use self::key_state::{IfMissing, KeyState, LoneRequest};
pub(super) use self::local_queue::{Deferred, NextRequest};

/// How many keys are kept for a holder that is not polled. One that has missed some looks again.
const CONTENDED_KEYS_KEPT: usize = 16;

/// The local queues of one `Locks`.
pub(crate) struct LocalQueues {
    pub(super) requests: Arc<Requests>,
    pub(crate) queueing: QueueOptions,
    pub(super) states: Mutex<KeyStates>,
    /// Keys for which a caller or a process has begun to wait, for holders that want to know.
    pub(super) contended: broadcast::Sender<LockKey>,
    /// The holds, releases and drivers, and the acquisitions that are polled.
    pub(crate) in_flight: InFlightCount,
    this: Weak<Self>,
}

impl LocalQueues {
    pub(crate) fn new(store: Arc<Store>, queueing: QueueOptions) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            requests: Requests::new(store),
            queueing,
            states: Mutex::new(KeyStates {
                queueing,
                map: HashMap::default(),
            }),
            contended: broadcast::Sender::new(CONTENDED_KEYS_KEPT),
            in_flight: InFlightCount::default(),
            this: Weak::clone(this),
        })
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.requests.store
    }

    /// Opens the inbox, unless it is open. Returns false while waiters must send requests. They are woken when that
    /// changes.
    pub(crate) fn listen(&self) -> bool {
        let listener: Weak<Self> = Weak::clone(&self.this);
        self.store().listen(self.requests.inbox(), listener)
    }

    /// Closes the queues: no caller waits from now on. What the store has of those that wait is given up now, because
    /// they may never be polled again.
    pub(crate) fn close(&self) {
        // This comes first: a caller that registers from now on finds the queues closed, and one that has registered
        // is found below.
        self.in_flight.close();
        let waited_for = self.states.lock().waited_for();
        for key in waited_for {
            self.step(&key, Input::Close);
        }
    }

    // ---- what is known of a key ----

    /// Returns whether no caller of this process has or wants the lock.
    pub(crate) fn is_vacant(&self, key: &LockKey) -> bool {
        !self.states.lock().map.contains_key(key)
    }

    /// The number of callers that wait in this process, without the holder.
    pub(crate) fn len(&self, key: &LockKey) -> usize {
        self.states.lock().map.get(key).map_or(0, KeyState::len)
    }

    pub(crate) fn is_held_by(&self, key: &LockKey, hold: HoldId) -> bool {
        let states = self.states.lock();
        let state = states.map.get(key);
        state.is_some_and(|state| state.is_held_by(hold))
    }

    /// Returns whether another caller of this process waits for the lock that a holder has.
    pub(super) fn is_contended_here(&self, key: &LockKey) -> bool {
        let mut states = self.states.lock();
        let queue = states.queue(key);
        queue.is_some_and(|queue| queue.machine.is_contended_here(Instant::now()))
    }

    /// Returns whether a caller polls its own request, because no other caller has joined. Then the response wakes it.
    pub(crate) fn is_alone_at(&self, key: &LockKey, hold: HoldId) -> bool {
        self.states.lock().lone_caller(key, hold).is_some()
    }

    /// Why a caller does not have the lock, by the last reply of the store, and the instant at which it last responded.
    pub(super) fn last_denial(&self, key: &LockKey) -> (Option<Denied>, Option<Instant>) {
        let mut states = self.states.lock();
        states.queue(key).map_or((None, None), |queue| {
            (queue.machine.last_denial(), queue.replied_at)
        })
    }

    /// The last answer of the store to the callers that wait for the lock; `None` before the first answer.
    pub(crate) fn last_answer(&self, key: &LockKey) -> Option<Result<(), StoreError>> {
        Some(match self.last_denial(key).0? {
            Denied::Failed(error) => Err(error),
            _ => Ok(()),
        })
    }

    /// A key that is held or waited for, by its name in the store.
    fn known(&self, key: &str) -> Option<LockKey> {
        let states = self.states.lock();
        let known = states.map.get_key_value(key);
        known.map(|(key, _)| key.clone())
    }

    /// Wakes the holders that want to know whether a caller of this process waits, if one does.
    pub(super) fn notify_if_contended(&self, key: &LockKey) {
        if self.contended.receiver_count() > 0 && self.is_contended_here(key) {
            self.note_contended(key.clone());
        }
    }

    fn note_contended(&self, key: LockKey) {
        // Most of the time no holder wants to know.
        let _ = self.contended.send(key);
    }

    // ---- the steps ----

    /// Takes a step for a key that is held or waited for.
    pub(super) fn step(&self, key: &LockKey, input: Input) {
        let mut states = self.states.lock();
        // No caller waits, and no hold of this process has the lock.
        let Some(state) = states.map.get_mut(key) else {
            return;
        };
        match state.step_alone(&input) {
            AloneStep::NeedsQueue => {}
            AloneStep::Done => return,
            AloneStep::Over => {
                let state = states.map.remove(key);
                drop(states);
                state.into_iter().for_each(KeyState::wake_attempts);
                return;
            }
        }
        let mut deferred = Deferred::default();
        states.with_queue(key, IfMissing::Create, &mut deferred, |queue, deferred| {
            queue.step(input, deferred);
        });
        drop(states);
        self.perform(key, deferred, None);
        // A reply may have shown that a waiter is not let in beside the present holder.
        self.notify_if_contended(key);
    }

    /// Works on a local queue. Background work runs on the current runtime, or otherwise on `runtime`.
    pub(super) fn with_queue<T>(
        &self,
        key: &LockKey,
        if_missing: IfMissing,
        runtime: Option<&Handle>,
        work: impl FnOnce(&mut LocalQueue, &mut Deferred) -> T,
    ) -> Option<T> {
        let mut deferred = Deferred::default();
        let mut states = self.states.lock();
        let output = states.with_queue(key, if_missing, &mut deferred, work);
        drop(states);
        self.perform(key, deferred, runtime);
        output
    }

    /// Performs the effects after the mutex is released. Drivers, and releases that no caller waits for, run on the
    /// current runtime, or otherwise on `runtime`.
    pub(super) fn perform(&self, key: &LockKey, deferred: Deferred, runtime: Option<&Handle>) {
        // Reported before the next caller is woken, which reports on its part that it has the lock.
        if let Some(hold) = deferred.handed_off {
            events::handed_off(key, hold);
        }
        deferred.wakers.into_iter().for_each(Waker::wake);
        if let Some(signal) = deferred.signal {
            signal.notify_one();
        }
        for report in deferred.reports {
            report.emit(key);
        }
        if deferred.releases.is_empty() && deferred.driver.is_none() {
            return;
        }
        // The runtime that polls comes first, because the one on which the caller began may have ended.
        let present = Handle::try_current().ok();
        let (Some(queues), Some(runtime)) = (self.this.upgrade(), present.as_ref().or(runtime))
        else {
            let mut states = self.states.lock();
            if let Some(queue) = states.queue(key).filter(|_| deferred.driver.is_some()) {
                // The next caller that is polled starts one.
                queue.driver = None;
            }
            return;
        };
        if let Some(signal) = deferred.driver {
            queues.start_driver(key, signal, runtime);
        }
        for release in deferred.releases {
            events::acquire_undone(key, release.hold);
            background::spawn(runtime, queues.release(key, release, None));
        }
    }

    /// The reply to a request in flight that has no reply, and will get none.
    pub(super) fn no_reply(&self, key: &LockKey) -> RequestReply {
        let generation = self.store().generation_of(key);
        RequestReply {
            sent: Instant::now(),
            sent_generation: generation,
            generation,
            replies: Err(unanswered("the request was given up")),
        }
    }
}

impl MessageListener for LocalQueues {
    fn handoff(&self, message: HandoffMessage) {
        if let Some(key) = self.known(&message.key) {
            // Times of the server from an earlier generation are not compared with the one in the message.
            let generation = self.store().generation_of(&key);
            let handoff = Input::Handoff {
                message,
                generation,
            };
            self.step(&key, handoff);
        }
    }

    fn contended(&self, key: &str) {
        if let Some(key) = self.known(key) {
            self.step(&key, Input::Contended);
            self.note_contended(key);
        }
    }

    fn missed(&self) {
        let waited_for = {
            let mut states = self.states.lock();
            // Other processes may wait for the locks that no caller waits for.
            for state in states.map.values_mut() {
                if let KeyState::Held { holder, .. } = state {
                    holder.is_contended = true;
                }
            }
            states.waited_for()
        };
        for key in waited_for {
            // Both kinds of message may be among those that were missed: one that the lock has moved here, and one
            // that another process waits.
            self.step(&key, Input::MaybeFree);
            self.step(&key, Input::Contended);
        }
    }
}

//! The renewals of all holds of one `Locks` (P4).
//!
//! On each runtime there is one schedule for the holds that were entered there, and one task that sleeps until the next
//! of them is looked at. The schedule is the state: it says for each hold when that is, for its renewal, for its next
//! attempt, or at its deadline. An attempt is one request with a permit, and has a task of its own while it is in
//! flight. The schedule's task begins with the first hold and checks once per second whether there is still one. So a
//! short section neither starts it nor wakes it. The task ends with its runtime. Then its holds are no longer renewed.
//!
//! The mutex of the schedules comes before the state of a hold. While it is locked, nothing is spawned, woken or
//! reported, because any of that may run code that calls back into the schedules.

use std::fmt;
use std::mem;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::select;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use self::runtime_schedule::RuntimeSchedule;
use crate::base::error::LostReason;
use crate::base::events;
use crate::base::events::WarnLimiter;
use crate::base::sync::Mutex;
use crate::base::timer::sleep_until;
use crate::hold::hold::Hold;
use crate::queue::LocalQueues;
use crate::store::{ForcedMessage, ForcedReleaseListener, Store};

mod attempt;
mod runtime_schedule;
#[cfg(test)]
mod tests;

/// The renewals of one `Locks`, and what else its holds need.
pub(crate) struct RenewalSchedule {
    queues: Arc<LocalQueues>,
    response_timeout: Duration,
    generation: watch::Receiver<u64>,
    /// Selects the failures that are warned of.
    failures: WarnLimiter,
    /// The instant from which the parts of the time between two renewals are counted.
    epoch: Instant,
    runtimes: Mutex<Vec<RuntimeSchedule>>,
}

/// The state of a hold in the schedule of its runtime, when it is removed.
#[derive(Default)]
pub(super) struct Removed {
    /// `None` if the runtime has ended.
    pub(super) runtime: Option<Handle>,
    /// Whether it waited for its time: no renewal was in flight, and none had found it lost.
    pub(super) was_waiting: bool,
}

impl RenewalSchedule {
    pub(crate) fn new(queues: Arc<LocalQueues>, response_timeout: Duration) -> Arc<Self> {
        let generation = queues.store().generations();
        Arc::new(Self {
            queues,
            response_timeout,
            generation,
            failures: WarnLimiter::default(),
            epoch: Instant::now(),
            runtimes: Mutex::default(),
        })
    }

    pub(crate) fn queues(&self) -> &Arc<LocalQueues> {
        &self.queues
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        self.queues.store()
    }

    pub(crate) fn response_timeout(&self) -> Duration {
        self.response_timeout
    }

    pub(crate) fn generation(&self) -> u64 {
        self.store().generation()
    }

    /// Renews a hold on this runtime from now on.
    pub(super) fn push(self: &Arc<Self>, hold: &Arc<Hold>, runtime: &Handle) {
        hold.join_group();
        let mut task = None;
        let signal = {
            let mut runtimes = self.runtimes.lock();
            let mut known = runtimes.iter();
            let at = known.position(|it| it.runtime.id() == runtime.id());
            let at = at.unwrap_or_else(|| {
                let (of, begun) = self.begin(runtime);
                task = Some(begun);
                runtimes.push(of);
                runtimes.len() - 1
            });
            let generation = self.generation();
            runtimes[at].push(hold, self.epoch, generation)
        };
        if let Some(task) = task {
            drop(runtime.spawn(task.run()));
        }
        signal.iter().for_each(|signal| signal.notify_one());
    }

    fn begin(self: &Arc<Self>, runtime: &Handle) -> (RuntimeSchedule, Task) {
        let mut generation = self.generation.clone();
        let seen = *generation.borrow_and_update();
        let of = RuntimeSchedule::new(runtime.clone(), self.generation(), self.response_timeout);
        let task = Task {
            renewals: Arc::downgrade(self),
            generation,
            seen,
            signal: Arc::clone(&of.signal),
        };
        (of, task)
    }

    /// Removes a hold that ends. It is no longer renewed.
    pub(super) fn remove(&self, hold: &Arc<Hold>) -> Removed {
        hold.leave_group();
        let mut runtimes = self.runtimes.lock();
        let Some(of) = find(&mut runtimes, hold) else {
            return Removed::default();
        };
        Removed {
            was_waiting: of.remove(hold, self.generation()),
            runtime: Some(of.runtime.clone()),
        }
    }

    /// The holds that have not ended.
    pub(crate) fn holds(&self) -> Vec<Arc<Hold>> {
        let runtimes = self.runtimes.lock();
        let holds = runtimes.iter().flat_map(RuntimeSchedule::holds);
        holds.cloned().collect()
    }

    /// The runtime on which a hold is renewed; `None` if it has ended.
    pub(super) fn runtime(&self, hold: &Arc<Hold>) -> Option<Handle> {
        let mut runtimes = self.runtimes.lock();
        find(&mut runtimes, hold).map(|of| of.runtime.clone())
    }

    /// Looks at the holds of one runtime again at an instant, or at their deadlines if those are earlier.
    fn put_back(&self, holds: &[Arc<Hold>], at: impl Fn(&Hold) -> Instant) {
        let mut runtimes = self.runtimes.lock();
        let first = holds.first();
        let Some(of) = first.and_then(|hold| find(&mut runtimes, hold)) else {
            return;
        };
        for hold in holds {
            of.move_to(hold, at(hold).min(hold.deadline()));
        }
        let signal = Arc::clone(&of.signal);
        drop(runtimes);
        signal.notify_one();
    }

    /// Does what is due. Returns until when the task sleeps; `None` if it ends.
    fn turn(self: &Arc<Self>, signal: &Arc<Notify>) -> Option<Instant> {
        let (turn, runtime) = {
            let mut runtimes = self.runtimes.lock();
            let at = position(&runtimes, signal)?;
            let of = &mut runtimes[at];
            let Some(turn) = of.turn(self.store(), Instant::now()) else {
                drop(runtimes.swap_remove(at));
                return None;
            };
            (turn, of.runtime.clone())
        };
        for hold in turn.lost {
            // This reports the loss.
            let _ = hold.lost();
            self.queues.note_loss(hold.key(), hold.id());
        }
        for (hold, since) in turn.overdue {
            events::renewal_unanswered(hold.key());
            self.report_retry(&hold, None);
            self.store().suspect(hold.key(), since);
        }
        for (request, permit) in turn.requests {
            let renewals = Arc::clone(self);
            drop(runtime.spawn(async move { renewals.attempt(request, permit).await }));
        }
        Some(turn.until)
    }

    /// Notes that the task has ended. If it had something to do, its runtime has ended too.
    fn end(&self, signal: &Arc<Notify>) {
        let mut runtimes = self.runtimes.lock();
        let at = position(&runtimes, signal);
        let ended = at.map(|at| runtimes.swap_remove(at));
        drop(runtimes);
        drop(ended);
    }
}

/// The schedule of a hold, unless its runtime has ended.
fn find<'a>(runtimes: &'a mut [RuntimeSchedule], hold: &Hold) -> Option<&'a mut RuntimeSchedule> {
    let mut known = runtimes.iter_mut();
    known.find(|of| of.runtime.id() == hold.runtime())
}

/// The position of the schedule that has this signal, unless its runtime has ended.
fn position(runtimes: &[RuntimeSchedule], signal: &Arc<Notify>) -> Option<usize> {
    let mut known = runtimes.iter();
    known.position(|of| Arc::ptr_eq(&of.signal, signal))
}

/// The task of one schedule. It keeps nothing alive.
struct Task {
    renewals: Weak<RenewalSchedule>,
    generation: watch::Receiver<u64>,
    /// The generation at the last turn.
    seen: u64,
    signal: Arc<Notify>,
}

impl Task {
    async fn run(mut self) {
        while let Some(until) = self.turn() {
            if until <= Instant::now() {
                // More holds are due. The renewals that were begun come first.
                tokio::task::yield_now().await;
                continue;
            }
            select! {
                biased;
                () = self.signal.notified() => {}
                // The server may have lost the locks together with the connection, so they are verified immediately. A
                // store that is being dropped begins no more generations.
                Ok(()) = self.generation.changed() => {}
                () = sleep_until(until) => {}
            }
        }
    }

    fn turn(&mut self) -> Option<Instant> {
        let generation = *self.generation.borrow_and_update();
        let renewals = self.renewals.upgrade()?;
        if mem::replace(&mut self.seen, generation) != generation {
            // The connections may have ended with another runtime, and the inbox with them.
            renewals.queues.listen();
        }
        renewals.turn(&self.signal)
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(renewals) = self.renewals.upgrade() {
            renewals.end(&self.signal);
        }
    }
}

impl ForcedReleaseListener for RenewalSchedule {
    /// They are notified by a separate task. The caller may be one of their bodies, and bodies are dropped beginning
    /// with the outermost level.
    fn forced(&self, message: ForcedMessage) {
        let mut holds = self.holds();
        holds.retain(|hold| {
            hold.key().as_str() == message.key && message.holds.contains(&hold.id())
        });
        if holds.is_empty() {
            return;
        }
        let queues = Arc::clone(&self.queues);
        let tell = move || {
            for hold in holds {
                hold.lose(LostReason::Deleted);
                queues.note_loss(hold.key(), hold.id());
            }
        };
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move { tell() })),
            Err(_) => tell(),
        }
    }
}

impl Drop for RenewalSchedule {
    fn drop(&mut self) {
        for of in self.runtimes.lock().iter() {
            of.signal.notify_one();
        }
    }
}

impl fmt::Debug for RenewalSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RenewalSchedule")
            .field("queues", &self.queues)
            .field("response_timeout", &self.response_timeout)
            .finish_non_exhaustive()
    }
}

//! The renewals of all holds of one `Locks` (P4).
//!
//! On each runtime there is one schedule for the holds that were entered there, and one task that sleeps until the next
//! of them is due. Holds that are due together are renewed by one request. A renewal has a task of its own only while
//! it is in flight. The number of renewals in flight at each server is limited. Further holds that are due wait in its
//! backlog, and the one with the earliest deadline is next. The schedule's task begins with the first hold and checks
//! once per second whether there is still one. So a short section neither starts it nor wakes it. The task ends with
//! its runtime. Then its holds are no longer renewed.
//!
//! A hold stays in the schedule until it ends. While its renewal is in flight, and after a loss, it waits for nothing
//! there.
//!
//! The mutex of the schedules comes before the state of a hold. While it is locked, nothing is spawned, woken or
//! reported, because any of that may run code that calls back into the schedules.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::select;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use self::backlogs::Backlogs;
use self::of_runtime::{OfRuntime, Readers};
use self::pace::Pace;
use crate::base::error::LostReason;
use crate::base::events::Throttle;
use crate::base::key::LockKey;
use crate::base::sync::Mutex;
use crate::base::timer::sleep_until;
use crate::hold::hold::Hold;
use crate::hold::schedule::{Schedule, ScheduleSlot};
use crate::queue::LocalQueues;
use crate::store::{ForcedMessage, Holders, Store};

mod attempts;
mod backlogs;
mod batches;
mod of_runtime;
mod pace;
#[cfg(test)]
mod tests;
mod turns;

/// The interval at which a schedule checks whether there is still a hold.
const LOOKS: Duration = Duration::from_secs(1);

/// The renewals of one `Locks`, and what else its holds need.
pub(crate) struct RenewalSchedule {
    queues: Arc<LocalQueues>,
    response_timeout: Duration,
    disconnects: watch::Receiver<u64>,
    /// Selects the failures that are warned of.
    failures: Throttle,
    runtimes: Mutex<Vec<OfRuntime>>,
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
        let disconnects = queues.store().disconnects();
        Arc::new(Self {
            queues,
            response_timeout,
            disconnects,
            failures: Throttle::default(),
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

    /// The number of lost connections that affect a lock up to now.
    pub(crate) fn disconnects_of(&self, key: &LockKey) -> u64 {
        self.store().disconnects_of(key)
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
            let of = &mut runtimes[at];
            let due = hold.due(self.disconnects_of(hold.key()));
            hold.set_slot(of.holds.push(Arc::clone(hold), due));
            of.readers.push(hold);
            of.wake_by(due)
        };
        if let Some(task) = task {
            drop(runtime.spawn(task.run()));
        }
        signal.iter().for_each(|signal| signal.notify_one());
    }

    fn begin(self: &Arc<Self>, runtime: &Handle) -> (OfRuntime, Task) {
        let signal = Arc::<Notify>::default();
        let mut disconnects = self.disconnects.clone();
        let of = OfRuntime {
            runtime: runtime.clone(),
            holds: Schedule::new(),
            backlogs: Backlogs::default(),
            pace: Pace::default(),
            readers: Readers::default(),
            disconnects: *disconnects.borrow_and_update(),
            look_at: Instant::now() + LOOKS,
            sleeps_until: None,
            signal: Arc::clone(&signal),
        };
        let task = Task {
            renewals: Arc::downgrade(self),
            disconnects,
            signal,
        };
        (of, task)
    }

    /// Removes a hold that ends. It is no longer renewed.
    pub(super) fn remove(&self, hold: &Arc<Hold>) -> Removed {
        let mut runtimes = self.runtimes.lock();
        if let Some(group) = hold.group() {
            group.leave(hold);
        }
        let Some((of, slot)) = find(&mut runtimes, hold) else {
            return Removed::default();
        };
        of.readers.remove(hold);
        let removed = of.holds.remove(slot);
        Removed {
            runtime: Some(of.runtime.clone()),
            was_waiting: removed.is_some_and(|(_, was_due)| was_due),
        }
    }

    /// The holds that have not ended.
    pub(crate) fn holds(&self) -> Vec<Arc<Hold>> {
        let runtimes = self.runtimes.lock();
        let holds = runtimes.iter().flat_map(|of| of.holds.iter());
        holds.cloned().collect()
    }

    /// The runtime on which a hold is renewed; `None` if it has ended.
    pub(super) fn runtime(&self, hold: &Arc<Hold>) -> Option<Handle> {
        let mut runtimes = self.runtimes.lock();
        find(&mut runtimes, hold).map(|(of, _)| of.runtime.clone())
    }

    /// Puts back holds that were renewed, or must be renewed again at this instant.
    fn put_back(&self, holds: &[Arc<Hold>], again: Option<Instant>) {
        let mut signal = None;
        let mut runtimes = self.runtimes.lock();
        for hold in holds {
            if let Some((of, slot)) = find(&mut runtimes, hold) {
                let due = again.unwrap_or_else(|| hold.due(self.disconnects_of(hold.key())));
                of.holds.set_due(slot, due);
                signal = of.wake_by(due).or(signal);
            }
        }
        drop(runtimes);
        signal.iter().for_each(|signal| signal.notify_one());
    }

    /// Notes that the task has ended. If it had something to do, its runtime has ended too.
    fn end(&self, signal: &Arc<Notify>) {
        let mut runtimes = self.runtimes.lock();
        let mut known = runtimes.iter();
        let at = known.position(|it| Arc::ptr_eq(&it.signal, signal));
        let ended = at.map(|at| runtimes.swap_remove(at));
        drop(runtimes);
        drop(ended);
    }
}

/// The position of a hold in the schedule of its runtime, unless that has ended.
fn find<'a>(
    runtimes: &'a mut [OfRuntime],
    hold: &Arc<Hold>,
) -> Option<(&'a mut OfRuntime, ScheduleSlot)> {
    let (slot, runtime) = hold.seat()?;
    let mut known = runtimes.iter_mut();
    let of = known.find(|it| it.runtime.id() == runtime)?;
    let is_there = of.holds.get(slot).is_some_and(|it| Arc::ptr_eq(it, hold));
    is_there.then_some((of, slot))
}

/// The task of one schedule. It keeps nothing alive.
struct Task {
    renewals: Weak<RenewalSchedule>,
    disconnects: watch::Receiver<u64>,
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
                // store that is being dropped reports no more disconnects.
                Ok(()) = self.disconnects.changed() => {}
                () = sleep_until(until) => {}
            }
        }
    }

    fn turn(&mut self) -> Option<Instant> {
        let disconnects = *self.disconnects.borrow_and_update();
        self.renewals.upgrade()?.turn(&self.signal, disconnects)
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(renewals) = self.renewals.upgrade() {
            renewals.end(&self.signal);
        }
    }
}

impl Holders for RenewalSchedule {
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
                queues.lost(hold.key(), hold.id());
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

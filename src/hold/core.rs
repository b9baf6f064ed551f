//! What the holds and acquisitions of one `Locks` share. Its clones own it, through their engine; what only refers to a
//! hold keeps nothing of it alive.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::base::error::LostReason;
use crate::base::events::WarnLimiter;
use crate::base::options::QueueOptions;
use crate::base::process::ProcessId;
use crate::base::sync::Mutex;
use crate::base::timer::after;
use crate::hold::deadlock::directory::WaitDirectory;
use crate::hold::hold::Hold;
use crate::hold::runtime_schedule::RuntimeSchedule;
use crate::queue::LocalQueues;
use crate::store::{ForcedMessage, ForcedReleaseListener, Store, TOMBSTONE_LIFE};

/// What the holds and acquisitions of one `Locks` share.
pub(crate) struct Core {
    pub(crate) store: Arc<Store>,
    pub(crate) queues: Arc<LocalQueues>,
    /// The waits that are published for the deadlock search.
    pub(super) waits: WaitDirectory,
    pub(crate) response_timeout: Duration,
    /// The renewals, on each runtime on which a lock was entered.
    pub(super) schedules: Mutex<Vec<RuntimeSchedule>>,
    /// The instant from which the parts of the time between two renewals are counted.
    pub(super) epoch: Instant,
    /// Selects the failures of renewals that are warned of.
    pub(super) failed_renewals: WarnLimiter,
    /// The messages that holds of this process were ended by force, each until it is forgotten. One of the holds may be
    /// granted, or handed off in memory, and be entered only later.
    forced: Mutex<Vec<(Instant, ForcedMessage)>>,
}

impl Core {
    pub(crate) fn new(
        store: Arc<Store>,
        queueing: QueueOptions,
        response_timeout: Duration,
    ) -> Arc<Self> {
        let core = Arc::new(Self {
            queues: LocalQueues::new(Arc::clone(&store), queueing),
            waits: WaitDirectory::new(&store),
            store,
            response_timeout,
            schedules: Mutex::default(),
            epoch: Instant::now(),
            failed_renewals: WarnLimiter::default(),
            forced: Mutex::default(),
        });
        // The core owns the store, which therefore refers to it weakly.
        let holders: Weak<Self> = Arc::downgrade(&core);
        core.store.watch(holders);
        core
    }

    /// The holds that have not ended.
    pub(crate) fn holds(&self) -> Vec<Arc<Hold>> {
        let schedules = self.schedules.lock();
        // Copied, so that the mutex is free: what follows may call back into the schedules.
        let holds = schedules.iter().flat_map(RuntimeSchedule::holds);
        holds.cloned().collect()
    }

    /// Returns whether a hold was ended by force.
    pub(super) fn was_forced(&self, hold: &Hold) -> bool {
        let forced = self.forced.lock();
        forced.iter().any(|(_, message)| names(message, hold))
    }
}

/// The key counts as well, because locks that were acquired together share one id.
fn names(message: &ForcedMessage, hold: &Hold) -> bool {
    message.key == hold.key().as_str() && message.holds.contains(&hold.id())
}

impl ForcedReleaseListener for Core {
    /// They are notified by a separate task. The caller may be one of their bodies, and bodies are dropped beginning
    /// with the outermost level.
    fn forced(&self, message: ForcedMessage) {
        let (this, now) = (ProcessId::this(), Instant::now());
        if !message.holds.iter().any(|it| it.owner().process() == this) {
            return;
        }
        // Noted first: a hold that is entered from now on is checked for it, and all others are found below.
        let mut forced = self.forced.lock();
        forced.retain(|(until, _)| now < *until);
        forced.push((after(now, TOMBSTONE_LIFE), message.clone()));
        drop(forced);
        let mut holds = self.holds();
        holds.retain(|hold| names(&message, hold));
        if holds.is_empty() {
            return;
        }
        let queues = Arc::clone(&self.queues);
        let notify = move || {
            for hold in holds {
                hold.lose(LostReason::Deleted);
                queues.note_loss(hold.key(), hold.id());
            }
        };
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move { notify() })),
            // Outside a runtime there is no task that could do it.
            Err(_) => notify(),
        }
    }
}

/// The tasks of the schedules end.
impl Drop for Core {
    fn drop(&mut self) {
        for schedule in self.schedules.lock().iter() {
            // A task that sleeps finds that its core is gone.
            schedule.signal.notify_one();
        }
    }
}

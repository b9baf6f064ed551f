//! The check whether an acquisition that has some of its locks is still polled.
//!
//! A body that has not begun does nothing under its locks. So other callers need not wait until a task polls the
//! acquisition again, which may be never. As a waiter is passed over after two heartbeats, the locks are given up then.

use std::future::poll_fn;
use std::mem;
use std::pin::pin;
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;

use crate::base::background::AbortOnDrop;
use crate::base::sync::Mutex;
use crate::base::timer::sleep;
use crate::hold::core::Core;
use crate::hold::exit::give_up;
use crate::hold::hold::{Hold, Holds};

/// The holds of one acquisition, and whether it is polled. A task checks that once per heartbeat.
pub(crate) struct PollWatch {
    core: Arc<Core>,
    heartbeat: Duration,
    state: Mutex<WatchState>,
    /// The task, which begins when the acquisition has a lock and must wait.
    task: OnceLock<AbortOnDrop>,
}

struct WatchState {
    holds: Holds,
    stage: WatchStage,
}

enum WatchStage {
    Polled,
    /// It has not been polled since the last check.
    Waiting(Waker),
    /// The last check has woken it.
    Woken,
    GivenUp,
}

impl PollWatch {
    pub(crate) fn new(core: &Arc<Core>, heartbeat: Duration) -> Arc<Self> {
        Arc::new(Self {
            core: Arc::clone(core),
            heartbeat,
            state: Mutex::new(WatchState {
                holds: Holds::new(),
                stage: WatchStage::Polled,
            }),
            task: OnceLock::new(),
        })
    }

    /// Adds a hold that the acquisition has begun.
    pub(crate) fn add(&self, hold: &Arc<Hold>) {
        self.state.lock().holds.push(Arc::clone(hold));
    }

    /// Runs the acquisition. Returns `None` if its holds were given up, because it was not polled.
    pub(crate) async fn run<F: Future>(self: &Arc<Self>, acquiring: F) -> Option<F::Output> {
        let mut acquiring = pin!(acquiring);
        poll_fn(|cx| {
            // The holds were given up, and waiters may be inside by now: the acquisition must not make another step
            // with them.
            if !self.begin_poll() {
                return Poll::Ready(None);
            }
            let polled = acquiring.as_mut().poll(cx);
            if polled.is_pending() {
                self.end_poll(cx.waker());
            }
            polled.map(Some)
        })
        .await
    }

    /// Returns false if the holds were given up.
    fn begin_poll(&self) -> bool {
        let mut state = self.state.lock();
        if matches!(state.stage, WatchStage::GivenUp) {
            return false;
        }
        let before = mem::replace(&mut state.stage, WatchStage::Polled);
        drop(state);
        // Dropping a waker may run foreign code.
        drop(before);
        true
    }

    fn end_poll(self: &Arc<Self>, waker: &Waker) {
        // Cloned before the mutex is locked, because it may run foreign code.
        let waker = waker.clone();
        let mut state = self.state.lock();
        // The stage before has no waker that would be dropped under the mutex: `begin_poll` has taken it.
        state.stage = WatchStage::Waiting(waker);
        let has_locks = !state.holds.is_empty();
        drop(state);
        // Without a lock no other caller waits for it, so most acquisitions need no task.
        if has_locks && Handle::try_current().is_ok() {
            self.task.get_or_init(|| {
                AbortOnDrop::spawn(check_while_acquiring(Arc::downgrade(self), self.heartbeat))
            });
        }
    }

    /// Wakes the acquisition, or gives its holds up if it was not polled after it was woken. Returns whether there is
    /// another check.
    fn check(&self) -> bool {
        let mut state = self.state.lock();
        match mem::replace(&mut state.stage, WatchStage::Woken) {
            // It is being polled at this moment.
            WatchStage::Polled => state.stage = WatchStage::Polled,
            // Nothing else may wake it within a heartbeat, so it is woken to show whether it is polled.
            WatchStage::Waiting(waker) => {
                drop(state);
                waker.wake();
            }
            WatchStage::Woken | WatchStage::GivenUp => {
                // It was not polled within a whole heartbeat. In one step with the decision, so that a poll that
                // comes now finds it.
                state.stage = WatchStage::GivenUp;
                let holds = mem::take(&mut state.holds);
                drop(state);
                holds.iter().for_each(|hold| give_up(hold, &self.core));
                return false;
            }
        }
        true
    }
}

/// Checks the acquisition until it has ended, or its holds are given up.
async fn check_while_acquiring(acquisition: Weak<PollWatch>, heartbeat: Duration) {
    loop {
        sleep(heartbeat).await;
        // Kept only for the check, so that an acquisition that has ended is not kept by its own task.
        if !acquisition.upgrade().is_some_and(|it| it.check()) {
            return;
        }
    }
}

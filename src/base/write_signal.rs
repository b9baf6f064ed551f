//! The signal that a release was written to its socket, and what is left of the release then.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::task::{Context, Poll};
use std::{fmt, mem};

use futures_util::task::AtomicWaker;

use super::background::FinishInBackground;
use super::error::LockError;
use super::sync::Mutex;

/// Says that a request was written: the server gets it even if this process ends now. Clones are the same signal, which
/// one task waits for.
#[derive(Clone, Default)]
pub(crate) struct WriteSignal(Arc<SharedSignal>);

#[derive(Default)]
struct SharedSignal {
    is_set: AtomicBool,
    /// Whether the request has to wait for a connection before it is written.
    is_late: AtomicBool,
    waker: AtomicWaker,
    rest: Mutex<AfterWrite>,
}

/// The work that is left when the answer arrives, which the caller no longer waits for.
type Work = FinishInBackground<Result<(), LockError>>;

/// Who finishes that work.
#[derive(Default)]
enum AfterWrite {
    /// A task of its own.
    #[default]
    ByTask,
    /// The deliverer of the answer, so that many requests have one task.
    ByDeliverer(Option<Work>),
}

impl WriteSignal {
    /// Sets the signal for the task that is polling the request.
    pub(crate) fn set(&self) {
        self.0.is_set.store(true, Release);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.is_set.load(Acquire)
    }

    /// Whether the request has to wait before it is written. This is checked after the signal was polled: from then on,
    /// the task is woken when it becomes true.
    pub(crate) fn is_late(&self) -> bool {
        self.0.is_late.load(Acquire)
    }

    /// Ready if the signal is set. Otherwise the task is woken when it is.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_set() {
            self.0.waker.register(cx.waker());
            // It may have been set before the waker was there.
            if !self.is_set() {
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }

    /// Leaves the work, which was polled, to its deliverer or to a task of the current runtime.
    pub(crate) fn leave(&self, mut work: Work) {
        // From here on, the answer does not wake the caller.
        work.poll_once();
        work.prefer_current_runtime();
        // Without a deliverer the work is dropped here, and dropping it makes it a task.
        if let AfterWrite::ByDeliverer(left @ None) = &mut *self.0.rest.lock() {
            *left = Some(work);
        }
    }
}

impl fmt::Debug for WriteSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WriteSignal").field(&self.is_set()).finish()
    }
}

/// Delivers the answer to a request whose caller waits until it is written. When it is dropped, the answer was delivered,
/// or there will be none.
pub(crate) struct Deliverer(WriteSignal);

impl Deliverer {
    pub(crate) fn new(written: &WriteSignal) -> Self {
        Self(written.clone())
    }

    /// Wakes the task that waits for the signal, because the request has to wait for a connection.
    pub(crate) fn set_late(&self) {
        // The flag comes before the wake-up, so the woken task sees it.
        self.0.0.is_late.store(true, Release);
        self.0.0.waker.wake();
    }

    /// Sets the signal, and wakes the task that waits for it.
    pub(crate) fn set(&self) {
        let SharedSignal { waker, rest, .. } = &*self.0.0;
        // The place for the work comes before the signal: a caller that sees the signal leaves its work at once.
        *rest.lock() = AfterWrite::ByDeliverer(None);
        self.0.set();
        waker.wake();
    }
}

impl Drop for Deliverer {
    fn drop(&mut self) {
        // From now on, a caller that leaves its work makes a task of it, because there is no deliverer any more.
        let rest = mem::take(&mut *self.0.0.rest.lock());
        // The answer is there, so one poll ends the work. If there will be none, dropping it makes it a task.
        if let AfterWrite::ByDeliverer(Some(mut work)) = rest {
            work.poll_once();
        }
    }
}

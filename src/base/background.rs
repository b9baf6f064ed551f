//! Work that must be finished even if no caller waits for it: releases, and the undoing of acquisitions. And the signal
//! that a release was written to its socket, after which its caller waits no longer.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::task::{Context, Poll, Waker, ready};
use std::{fmt, mem, thread};

use futures_util::task::AtomicWaker;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::task::coop::unconstrained;

use crate::base::error::LockError;
use crate::base::metrics;
use crate::base::sync::{Mutex, OnDrop};

/// Runs work on the runtime for which no caller waits.
pub(crate) fn spawn(runtime: &Handle, work: impl Future<Output: Send> + Send + 'static) {
    // Counted before the task is spawned, and uncounted with it even if its runtime ends before the first poll.
    metrics::change_background_tasks(1.0);
    let uncount = OnDrop(|| metrics::change_background_tasks(-1.0));
    drop(runtime.spawn(async move {
        let _uncount = uncount;
        work.await
    }));
}

/// Work that its waiter polls in place, and that continues as a task if the waiter is dropped before the work has ended.
/// So work that is waited for to its end spawns no task.
pub(crate) struct FinishInBackground<T: Send + 'static> {
    work: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    /// The runtime of the task, because the waiter may be dropped on any thread. `None` is the runtime in which the
    /// waiter is dropped.
    runtime: Option<Handle>,
    /// Work in memory needs no runtime: it is done when its waiter is dropped.
    is_in_memory: bool,
}

impl<T: Send + 'static> FinishInBackground<T> {
    pub(crate) fn new(
        runtime: Option<Handle>,
        is_in_memory: bool,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Self {
        Self {
            work: Some(Box::pin(work)),
            runtime,
            is_in_memory,
        }
    }

    /// Polls the work without a waiter. This ends it if it was waiting for something that has happened. Otherwise the
    /// work no longer wakes a waiter that has polled it before.
    pub(crate) fn poll_once(&mut self) {
        // A second panic would end the process.
        if thread::panicking() {
            return;
        }
        // Without the budget of the present task: if it were used up, work that is ready would look as if it still
        // waited.
        let mut cx = Context::from_waker(Waker::noop());
        let _ = Pin::new(&mut unconstrained(self)).poll(&mut cx);
    }

    /// Continues the work on the current runtime, if there is one, because that one is polled: the other one may live and
    /// not be driven any more.
    pub(crate) fn prefer_current_runtime(&mut self) {
        // The runtime that was given stays if this is called outside any.
        let present = Handle::try_current().ok();
        self.runtime = present.or(self.runtime.take());
    }

    /// Takes the work from its waiter.
    pub(crate) fn take(&mut self) -> Self {
        // What stays behind has no work, so dropping it begins no task.
        Self {
            work: self.work.take(),
            runtime: self.runtime.take(),
            is_in_memory: self.is_in_memory,
        }
    }
}

impl<T: Send + 'static> Future for FinishInBackground<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // The work was taken, or its output was returned.
        let Some(work) = &mut self.work else {
            return Poll::Pending;
        };
        let output = ready!(work.as_mut().poll(cx));
        // It has ended, so dropping this must not continue it in a task.
        self.work = None;
        Poll::Ready(output)
    }
}

impl<T: Send + 'static> Drop for FinishInBackground<T> {
    fn drop(&mut self) {
        if self.is_in_memory && self.work.is_some() {
            self.poll_once();
        }
        let Some(work) = self.work.take() else {
            return;
        };
        // The waiter may be dropped outside any runtime, so the runtime that was given comes first.
        let runtime = self.runtime.take().or_else(|| Handle::try_current().ok());
        // Without a runtime the lease expires by itself.
        if let Some(runtime) = runtime {
            spawn(&runtime, work);
        }
    }
}

/// Aborts a task when it is dropped, for example with the connection that the task is about.
pub(crate) struct AbortOnDrop(pub(crate) JoinHandle<()>);

impl AbortOnDrop {
    pub(crate) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work))
    }

    /// Waits until the task has ended.
    pub(crate) async fn ended(&mut self) {
        // A task that was aborted or has panicked has ended as well.
        let _ = (&mut self.0).await;
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

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

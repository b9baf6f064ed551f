//! The work in progress in one `Locks`, counted, so that a caller can wait for its end.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;

use crate::base::sync::wait_until;

/// The number of holds, releases and drivers of one `Locks`, and whether it is closed. An acquisition is counted only
/// while it is polled.
///
/// Work that follows from other work is counted before the other work is uncounted. For example, a release is counted
/// before its hold is uncounted. So the count is 0 only when nothing is left to do.
#[derive(Debug, Default)]
pub(crate) struct InFlightCount {
    count: AtomicUsize,
    is_closed: AtomicBool,
    closed: Notify,
    /// Notified when the count reaches 0 after the `Locks` was closed.
    idle: Notify,
}

impl InFlightCount {
    /// Counts work that continues until [`end`](Self::end).
    pub(crate) fn begin(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn end(&self) {
        if self.count.fetch_sub(1, Ordering::SeqCst) == 1 && self.is_closed() {
            self.idle.notify_waiters();
        }
    }

    /// Counts work that continues until the returned value is dropped.
    pub(crate) fn count_until_dropped(&self) -> CountGuard<'_> {
        self.begin();
        CountGuard(self)
    }

    /// The amount of work in progress.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Closes the `Locks`. After this call no acquisition begins.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.closed.notify_waiters();
    }

    /// Resolves when the `Locks` is closed.
    pub(crate) async fn wait_until_closed(&self) {
        wait_until(&self.closed, || self.is_closed().then_some(())).await;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Resolves when no work is in progress any more. The `Locks` must already be closed.
    pub(crate) async fn wait_until_idle(&self) {
        wait_until(&self.idle, || (self.count() == 0).then_some(())).await;
    }
}

/// See [`InFlightCount::count_until_dropped`].
#[derive(Debug)]
pub(crate) struct CountGuard<'a>(&'a InFlightCount);

impl Drop for CountGuard<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

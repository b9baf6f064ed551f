//! What goes on in one `Locks`, so that its end can be awaited.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;

use crate::base::notify::until;

/// The acquisitions, holds, and releases of one `Locks`, and whether it is closed.
///
/// What goes on is counted before what it follows from is not any more: so the count is 0 only when nothing is left.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    count: AtomicUsize,
    is_closed: AtomicBool,
    closed: Notify,
    /// Told when nothing is left, once it is closed.
    over: Notify,
}

impl Activity {
    /// Something goes on until [`end`](Self::end).
    pub(crate) fn begin(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn end(&self) {
        if self.count.fetch_sub(1, Ordering::SeqCst) == 1 && self.is_closed() {
            self.over.notify_waiters();
        }
    }

    /// Something goes on until the value is dropped.
    pub(crate) fn during(&self) -> During<'_> {
        self.begin();
        During(self)
    }

    /// How much goes on.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Nothing new begins from now on.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.closed.notify_waiters();
    }

    /// Resolves when it is closed.
    pub(crate) async fn until_closed(&self) {
        until(&self.closed, || self.is_closed().then_some(())).await;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Resolves when nothing goes on any more. It has to be closed before.
    pub(crate) async fn until_over(&self) {
        until(&self.over, || (self.count() == 0).then_some(())).await;
    }
}

/// See [`Activity::during`].
#[derive(Debug)]
pub(crate) struct During<'a>(&'a Activity);

impl Drop for During<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

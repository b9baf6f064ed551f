//! Synchronization of threads and tasks: a mutex, the wait for a change by another task, a call at the end of a task, the
//! end of a turn, and the count of the work in progress, for whose end a caller can wait.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{MutexGuard, PoisonError};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Notify;
use tokio::task::yield_now;

#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls a function when it is dropped, for example with the task that has it, however that ends.
pub(crate) struct OnDrop<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Calls `check` immediately, and after each `notify_waiters`, until it returns `Some`.
pub(crate) async fn wait_until<T>(notify: &Notify, mut check: impl FnMut() -> Option<T>) -> T {
    loop {
        // No wake-up is missed: `notify_waiters` wakes each future that exists at that moment, polled or not. So
        // `check` sees an earlier change, and a later change wakes this future.
        let notified = notify.notified();
        if let Some(found) = check() {
            return found;
        }
        notified.await;
    }
}

/// Lets the tasks run that were woken before the present one.
pub(crate) async fn yield_to_woken_tasks() {
    // On one thread, they have already run. On several threads, the present task, which they have woken, runs before
    // them.
    if Handle::current().runtime_flavor() != RuntimeFlavor::CurrentThread {
        yield_now().await;
    }
}

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
        // Either this sees that the `Locks` is closed, or the caller of `close` sees that the count is 0: this changes
        // the count before it reads the flag, and `close` sets the flag before the count is read.
        if self.count.fetch_sub(1, Ordering::SeqCst) == 1 && self.is_closed() {
            self.idle.notify_waiters();
        }
    }

    /// Counts work that continues until the returned value is dropped.
    pub(crate) fn count_until_dropped(&self) -> OnDrop<impl FnMut()> {
        self.begin();
        OnDrop(|| self.end())
    }

    /// The amount of work in progress.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Closes the `Locks`. After this call no acquisition begins.
    pub(crate) fn close(&self) {
        // The flag comes before the notification: a task that is woken reads it.
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

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_change_between_the_check_and_the_wait_wakes() {
        let notify = Notify::new();
        let mut looks = 0;
        let found = wait_until(&notify, || {
            looks += 1;
            // The change happens right after the look.
            notify.notify_waiters();
            (looks > 1).then_some("found")
        });
        assert_eq!(found.now_or_never(), Some("found"));
    }
}

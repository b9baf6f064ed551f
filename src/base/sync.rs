//! Synchronization of threads and tasks: a mutex, the wait for a change by another task, and the end of a turn.

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

/// Calls `look` immediately, and after each `notify_waiters`, until it returns `Some`.
pub(crate) async fn wait_until<T>(notify: &Notify, mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        // No wake-up is missed: `notify_waiters` wakes each future that exists at that moment, polled or not. So `look`
        // sees an earlier change, and a later change wakes this future.
        let notified = notify.notified();
        if let Some(found) = look() {
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

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_change_between_the_look_and_the_wait_wakes() {
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

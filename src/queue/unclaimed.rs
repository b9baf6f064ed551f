//! Locks that were brought to a waiter which does not come for them: after two heartbeats they go to
//! the next one, as they do where a waiting process has died (P9).
//!
//! A future that is kept and not polled looks like any other one, so only time tells.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};

use tokio::{runtime::Handle, select, sync::Notify, task::JoinHandle, time::Instant};

use super::{Queue, waiter::Waiter};
use crate::base::timer::sleep_until;

/// The waiters that were brought a lock, from the oldest that may not have come for it on.
#[derive(Debug, Default)]
pub(super) struct Unclaimed {
    waiters: VecDeque<(Instant, Weak<Waiter>)>,
    /// The task that passes them over. It ends when there is none left.
    keeper: Option<JoinHandle<()>>,
}

impl Unclaimed {
    /// Forgets those who have come, and returns when the first of the others is passed over.
    fn next(&mut self) -> Option<Instant> {
        let is_brought = |waiter: &Weak<Waiter>| waiter.upgrade().is_some_and(|it| it.is_brought());
        while self
            .waiters
            .front()
            .is_some_and(|(_, waiter)| !is_brought(waiter))
        {
            self.waiters.pop_front();
        }
        self.waiters.front().map(|(due, _)| *due)
    }
}

impl Queue {
    /// A lock is being brought to this waiter.
    pub(super) fn expect(&self, waiter: &Arc<Waiter>) {
        let due = Instant::now() + 2 * self.queueing.heartbeat(waiter.claim().ttl);
        let mut unclaimed = self.unclaimed.lock();
        unclaimed.next();
        unclaimed.waiters.push_back((due, Arc::downgrade(waiter)));
        if unclaimed
            .keeper
            .as_ref()
            .is_none_or(JoinHandle::is_finished)
        {
            let runtime = Handle::try_current().unwrap_or_else(|_| waiter.runtime().clone());
            let idle = Arc::clone(&self.idle);
            unclaimed.keeper = Some(runtime.spawn(pass_over(Weak::clone(&self.this), idle)));
        }
    }

    /// The waiter that is due, if there is one; else when the next one is.
    fn due(&self) -> Option<Result<Arc<Waiter>, Instant>> {
        let mut unclaimed = self.unclaimed.lock();
        let due = unclaimed.next();
        if due.is_none_or(|due| Instant::now() < due) {
            if due.is_none() {
                unclaimed.keeper = None;
            }
            return due.map(Err);
        }
        let (_, waiter) = unclaimed.waiters.pop_front()?;
        waiter.upgrade().map(Ok).or(Some(Err(Instant::now())))
    }
}

async fn pass_over(queue: Weak<Queue>, idle: Arc<Notify>) {
    loop {
        let due = queue.upgrade().and_then(|queue| queue.due());
        match due {
            Some(Ok(waiter)) => waiter.pass_over(),
            Some(Err(due)) => select! {
                biased;
                () = idle.notified() => {}
                () = sleep_until(due) => {}
            },
            None => return,
        }
    }
}

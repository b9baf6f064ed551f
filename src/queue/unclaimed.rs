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

/// How many waiters are kept before it is worth tidying up.
const TIDY_AT: usize = 64;

/// The waiters that were brought a lock, from the oldest that may not have come for it on.
#[derive(Debug)]
pub(super) struct Unclaimed {
    waiters: VecDeque<(Instant, Weak<Waiter>)>,
    /// How many there may be before those who have come are looked for.
    tidy_at: usize,
    /// The task that passes them over. It ends when there is none left.
    keeper: Option<JoinHandle<()>>,
}

impl Unclaimed {
    /// Forgets those who have come, and returns when the first of the others is passed over.
    pub(super) fn next(&mut self) -> Option<Instant> {
        while self
            .waiters
            .front()
            .is_some_and(|(_, waiter)| !is_brought(waiter))
        {
            self.waiters.pop_front();
        }
        self.waiters.front().map(|(due, _)| *due)
    }

    fn push(&mut self, due: Instant, waiter: &Arc<Waiter>) {
        if self.waiters.len() >= self.tidy_at {
            // Behind one that does not come there may be many that have.
            self.waiters.retain(|(_, waiter)| is_brought(waiter));
            self.tidy_at = TIDY_AT.max(2 * self.waiters.len());
        }
        self.waiters.push_back((due, Arc::downgrade(waiter)));
    }
}

impl Default for Unclaimed {
    fn default() -> Self {
        Self {
            waiters: VecDeque::new(),
            tidy_at: TIDY_AT,
            keeper: None,
        }
    }
}

fn is_brought(waiter: &Weak<Waiter>) -> bool {
    waiter.upgrade().is_some_and(|waiter| waiter.is_brought())
}

impl Queue {
    /// A lock is being brought to this waiter.
    pub(super) fn expect(&self, waiter: &Arc<Waiter>) {
        let (now, heartbeat) = (Instant::now(), self.queueing.heartbeat(waiter.claim().ttl));
        let due = now + 2 * heartbeat;
        let mut unclaimed = self.unclaimed.lock();
        if unclaimed.next().is_some_and(|due| due + heartbeat < now) {
            // The keeper stands still with its runtime.
            unclaimed.keeper.take().inspect(JoinHandle::abort);
        }
        unclaimed.push(due, waiter);
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

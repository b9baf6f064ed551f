//! A lock that one hold of this process wants, and no other: the usual case, kept short.
//!
//! The caller polls its own request. Between two polls the request rests here, so that it does not depend on a caller
//! that is no longer polled: the next caller makes a line of what it finds, with the request in flight, and a driver
//! continues it.

use std::collections::hash_map::Entry;
use std::mem;
use std::task::{Context, Poll, Waker};

use tokio::time::Instant;

use super::grant::Grant;
use super::lines::{Alone, LoneCaller, Slot};
use super::local_queues::LocalQueues;
use super::request::Acquiring;
use super::step::{Answer, Input, Reply, Wish};
use super::waiter::Outcome;
use crate::base::id::HoldId;
use crate::base::key::LockKey;

/// The progress of a caller that came to a vacant line.
pub(super) enum Progress {
    Pending,
    Granted(Grant),
    /// A line has begun since, and the caller waits in it.
    InLine,
}

impl LocalQueues {
    /// Enters a vacant line. Returns false if the line is not vacant.
    pub(super) fn enter_alone(&self, key: &LockKey, asking: LoneCaller) -> bool {
        let slot = Slot::Alone(Alone::Asking(Box::new(asking)));
        let mut lines = self.lines.lock();
        match lines.of.entry(key.clone()) {
            Entry::Vacant(vacant) => {
                vacant.insert(slot);
                true
            }
            Entry::Occupied(_) => false,
        }
    }

    /// Sends the request of a caller that has just entered a vacant line.
    pub(super) fn ask_alone(&self, key: &LockKey, wish: Wish, cx: &mut Context<'_>) -> Progress {
        let polling = Polling::new(self, key);
        let acquiring = self.requests.ask(key, wish.ask(|| vec![wish.request.hold]));
        polling.poll(wish.request.hold, acquiring, None, cx)
    }

    /// Continues the request of a caller that was alone at its last poll.
    pub(super) fn poll_alone(&self, key: &LockKey, hold: HoldId, cx: &mut Context<'_>) -> Progress {
        let mut lines = self.lines.lock();
        let Some(asking) = lines.asking(key, hold) else {
            return Progress::InLine;
        };
        let (acquiring, waker) = (asking.acquiring.take(), asking.waker.take());
        drop(lines);
        match acquiring {
            Some(acquiring) => Polling::new(self, key).poll(hold, acquiring, waker, cx),
            None => Progress::InLine,
        }
    }

    /// Lets a request without an answer rest until its caller is polled again, or another caller comes.
    fn rest(&self, key: &LockKey, hold: HoldId, acquiring: Acquiring, waker: Waker) -> Progress {
        let mut lines = self.lines.lock();
        if let Some(asking) = lines.asking(key, hold) {
            (asking.acquiring, asking.waker) = (Some(acquiring), Some(waker));
            return Progress::Pending;
        }
        // A line has begun: its driver goes on with the request.
        let mut signal = None;
        if let Some(line) = lines.line(key) {
            line.flight = Some(self.resumed(key, acquiring));
            signal = line.signal();
        }
        drop(lines);
        signal.iter().for_each(|signal| signal.notify_one());
        Progress::InLine
    }

    /// Ends a request with its answer.
    fn conclude(&self, key: &LockKey, hold: HoldId, answer: Answer) -> Progress {
        let mut lines = self.lines.lock();
        if let Some(Slot::Alone(alone)) = lines.of.get_mut(key)
            && let Alone::Asking(asking) = alone
        {
            let outcome = asking.waiter.learn(answer.to(0), None, Instant::now());
            if let Outcome::Held(grant) = outcome {
                let held = Alone::Held {
                    hold,
                    mode: grant.mode,
                    handoffs: 0,
                    is_contended: grant.is_contended,
                };
                let asking = mem::replace(alone, held);
                drop(lines);
                drop(asking);
                return Progress::Granted(grant);
            }
        }
        drop(lines);
        self.input(key, Input::Answered(answer));
        Progress::InLine
    }
}

/// A poll of a caller's request. If it panics, the line learns that there will be no answer.
struct Polling<'a> {
    queues: &'a LocalQueues,
    key: &'a LockKey,
    is_over: bool,
}

impl<'a> Polling<'a> {
    fn new(queues: &'a LocalQueues, key: &'a LockKey) -> Self {
        let is_over = false;
        Self {
            queues,
            key,
            is_over,
        }
    }

    fn poll(
        mut self,
        hold: HoldId,
        mut acquiring: Acquiring,
        waker: Option<Waker>,
        cx: &mut Context<'_>,
    ) -> Progress {
        let Self { queues, key, .. } = self;
        let polled = queues.requests.poll_acquired(key, &mut acquiring, cx);
        self.is_over = true;
        match polled {
            Poll::Pending => {
                let waker = waker.filter(|waker| waker.will_wake(cx.waker()));
                let waker = waker.unwrap_or_else(|| cx.waker().clone());
                queues.rest(key, hold, acquiring, waker)
            }
            Poll::Ready(answer) => queues.conclude(key, hold, answer),
        }
    }
}

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let answer = self.queues.no_answer(self.key, Reply::Unanswered);
            self.queues.input(self.key, Input::Answered(answer));
        }
    }
}

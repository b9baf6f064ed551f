//! A lock that only one hold of this process wants. This is the usual case, which is kept short.
//!
//! The caller polls its own request. Between two polls the request stays here, so that it does not depend on a caller
//! that is no longer polled. The next caller creates a local queue from what it finds there, with the request in
//! flight, and a driver continues with it.

use std::collections::hash_map::Entry;
use std::mem;
use std::task::{Context, Poll, Waker};

use tokio::time::Instant;

use super::grant::Grant;
use super::line::NextRequest;
use super::lines::{Alone, LoneCaller, Slot};
use super::local_queues::LocalQueues;
use super::request::Acquiring;
use super::step::{Answer, Input, Wish};
use super::waiter::Outcome;
use crate::base::id::HoldId;
use crate::base::key::LockKey;

/// The progress of a caller that joined a vacant local queue.
pub(super) enum Progress {
    Pending,
    Granted(Grant),
    /// A local queue was created in the meantime, and the caller waits in it.
    InLine,
}

/// How a caller finds the local queue.
pub(super) enum Entering {
    /// It was vacant.
    Alone,
    Occupied,
    /// The caller is woken when a release is answered.
    AfterRelease,
}

impl LocalQueues {
    /// Enters a vacant local queue. A caller that makes only one attempt waits for a release before it, because no
    /// second attempt would find the lock free.
    pub(super) fn enter_alone(&self, key: &LockKey, asking: LoneCaller, waker: &Waker) -> Entering {
        // A waker is cloned and dropped outside the mutex, because it may run foreign code.
        let is_try = asking.waiter.asks_once;
        let mut waker = is_try.then(|| waker.clone());
        let asking = Slot::Alone(Alone::Asking(Box::new(asking)));
        let mut lines = self.lines.lock();
        let mut occupied = match lines.of.entry(key.clone()) {
            Entry::Vacant(vacant) => {
                vacant.insert(asking);
                return Entering::Alone;
            }
            Entry::Occupied(occupied) => occupied,
        };
        let tries = match occupied.get_mut() {
            Slot::Alone(Alone::Releasing { tries, .. }) => tries,
            Slot::Alone(Alone::Held {
                is_ending: true,
                tries,
                ..
            }) if is_try => tries,
            _ => return Entering::Occupied,
        };
        if is_try {
            let tries = tries.get_or_insert_default();
            let is_new = |waker: &mut Waker| !tries.iter().any(|known| known.will_wake(waker));
            if let Some(waker) = waker.take_if(is_new) {
                tries.push(waker);
            }
            return Entering::AfterRelease;
        }
        let releasing = occupied.insert(asking);
        drop(lines);
        releasing.tries().for_each(Waker::wake);
        Entering::Alone
    }

    /// Sends the request of a caller that has just entered a vacant local queue.
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

    /// Keeps a request without an answer until its caller is polled again, or another caller joins.
    fn rest(&self, key: &LockKey, hold: HoldId, acquiring: Acquiring, waker: Waker) -> Progress {
        let mut lines = self.lines.lock();
        if let Some(asking) = lines.asking(key, hold) {
            (asking.acquiring, asking.waker) = (Some(acquiring), Some(waker));
            return Progress::Pending;
        }
        drop(lines);
        // A local queue was created: its driver continues with the request.
        self.on_line(key, None, |line, _| {
            line.request = Some(NextRequest::Sent(acquiring));
        });
        Progress::InLine
    }

    /// Processes the answer to a request. A caller that is still alone gets its lock immediately. Otherwise the answer
    /// is an input of the machine.
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
                    is_ending: false,
                    tries: None,
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

/// A poll of a caller's request. If it panics, the local queue learns that there will be no answer.
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
        let progress = match queues.requests.poll_acquired(key, &mut acquiring, cx) {
            Poll::Pending => {
                let waker = waker.filter(|waker| waker.will_wake(cx.waker()));
                let waker = waker.unwrap_or_else(|| cx.waker().clone());
                queues.rest(key, hold, acquiring, waker)
            }
            Poll::Ready(answer) => queues.conclude(key, hold, answer),
        };
        self.is_over = true;
        progress
    }
}

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let answer = self.queues.no_answer(self.key);
            self.queues.input(self.key, Input::Answered(answer));
        }
    }
}

//! The exits from holds: the last one to leave a hold ends it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::FutureExt;
use smallvec::SmallVec;
use tokio::task::coop::unconstrained;
use tokio::time::Instant;

use crate::base::background::{FinishInBackground, WriteSignal};
use crate::base::error::LockError;
use crate::base::events;
use crate::base::timer::{Sleep, after, sleep_until};
use crate::hold::core::Core;
use crate::hold::hold::{EntryKind, Hold};
use crate::queue::{HoldEnd, LocalQueues};

/// Ends the hold. The next waiter of this process continues it in memory, or it is released, together with others if
/// there are any. If its minimum time is not over, it is left to its lease.
fn end_hold(hold: &Arc<Hold>, core: &Core, awaits: Awaits, now: Instant) -> Option<EndedHold> {
    let queues = &core.queues;
    // Nothing renews it from here on. If a renewal is in flight, the lock may be lost, and is not handed off.
    let (runtime, was_waiting) = core.unschedule(hold);

    // From here on the end of the lease is no loss.
    let (grant, is_open) = hold.end(core.store.generation(), now);
    // An attempt to renew it may be in flight, whose response is of no use now.
    if !was_waiting {
        hold.notify_changed();
    }
    // Locks that were acquired together share one id, which must not continue in one of them.
    let may_hand_off = was_waiting && is_open && hold.group.is_none();
    let hand_off = || queues.hand_off(hold.key(), grant, now);

    let ended = if hold.state.lock().is_in_min_hold() {
        // Left to its lease, which is at least as long: its runtime has ended, or its `Locks` was closed. No release
        // brings the lock to the first waiter of this process, so that one sends requests of its own.
        queues.note_loss(hold.key(), hold.id());
        hold.end_span();
        None
    } else if may_hand_off && hold.span().in_scope(hand_off) {
        // Handed off: the next waiter of this process has it.
        hold.end_span();
        None
    } else {
        // Released: the store gives it to the next process.
        let release = HoldEnd {
            with_others: hold.group.is_some(),
            ..grant.release()
        };
        let written = (awaits == Awaits::Writes).then(WriteSignal::default);
        let releasing = queues.release(hold.key(), release, written.clone());
        let ended = Arc::clone(hold);
        // An async block would store the future of the release twice.
        let released = releasing.map(move |released| ended.finish_release(released));
        let released = hold.span().around(released);
        Some(EndedHold {
            hold: Arc::clone(hold),
            release: FinishInBackground::new(runtime, core.store.is_memory(), released),
            written,
        })
    };

    // A release in flight is counted separately, since before this, so the count does not reach zero in between.
    queues.in_flight.end();
    ended
}

/// Ends the hold of an acquisition that is no longer polled, unless it has ended already.
pub(super) fn give_up(hold: &Arc<Hold>, core: &Core) {
    if hold.leave(EntryKind::Call) {
        events::acquire_undone(hold.key(), hold.id());
        // No caller waits for it, so the release continues as a task.
        drop(end_hold(hold, core, Awaits::Answers, Instant::now()));
    }
}

/// The exit from holds. Waits for the releases of those that have ended, for at most the response timeout. After that, and
/// if it is dropped, the releases continue in the background (P13).
///
/// Fails if a lock turns out to have been lost and this must end the body. Also fails if the store rejects a release. A
/// loss takes precedence over any other failure. An exit that does not wait for the answers learns of neither.
#[derive(Default)]
pub(crate) struct Exit {
    awaits: Awaits,
    /// The holds whose releases have not ended.
    ended: SmallVec<[EndedHold; 1]>,
    /// The instant until which it waits.
    until: Option<Instant>,
    /// Whether a first request may have no response within that time. Otherwise its response wakes the exit in time, so
    /// that the first poll arms no timer.
    may_be_late: bool,
    limit: Option<Sleep>,
    failure: Option<Box<LockError>>,
}

/// What an exit waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Awaits {
    /// The releases are answered.
    #[default]
    Answers,
    /// They are written: the store gets them even if this process ends now.
    Writes,
}

/// A hold that has ended, and its release.
struct EndedHold {
    hold: Arc<Hold>,
    release: FinishInBackground<Result<(), LockError>>,
    /// The signal that it was written, if the exit waits for no more.
    written: Option<WriteSignal>,
}

impl EndedHold {
    /// Ready if the exit has nothing left to wait for.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LockError>> {
        // Nothing less than the answer will do.
        let Some(written) = &self.written else {
            return Pin::new(&mut self.release).poll(cx);
        };
        if !written.is_set() {
            // The release is sent by this poll, and may even be answered by it.
            if Pin::new(&mut self.release).poll(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            ready!(written.poll(cx));
        }
        // The server gets it now, whatever becomes of this process. The answer is left to the task that delivers it.
        written.leave(self.release.take());
        Poll::Ready(Ok(()))
    }
}

impl Exit {
    /// An exit that waits until the releases are written.
    pub(super) fn without_answers() -> Self {
        Self {
            awaits: Awaits::Writes,
            ..Self::default()
        }
    }

    /// Ends a hold that has no entry and no member any more.
    #[inline]
    pub(super) fn end(&mut self, hold: &Arc<Hold>, core: &Core) {
        let now = Instant::now();
        if let Some(ended) = end_hold(hold, core, self.awaits, now) {
            let timeout = core.response_timeout;
            // One limit for all of them, that of the last one.
            self.until = self.until.max(Some(after(now, timeout)));
            self.may_be_late |= core.store.answers_within(hold.key()) > timeout;
            self.ended.push(ended);
        }
    }

    /// Leaves the releases to the background. A caller that makes only one attempt for the same lock waits for them.
    pub(super) fn continue_in_background(self, queues: &LocalQueues) {
        // Noted before the exit is dropped, because that begins the tasks.
        for EndedHold { hold, .. } in &self.ended {
            queues.note_ending(hold.key(), hold.id());
        }
    }
}

impl Future for Exit {
    type Output = Result<(), LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        // All of them are polled, also after a failure: the first poll sends the release.
        this.ended.retain(|ended| match ended.poll(cx) {
            Poll::Pending => true,
            Poll::Ready(Ok(())) => false,
            Poll::Ready(Err(error)) => {
                // The caller can have one error, and a loss says more than a failure.
                let counts = |known: &LockError| error.is_lost() && !known.is_lost();
                if this.failure.as_deref().is_none_or(counts) {
                    this.failure = Some(Box::new(error));
                }
                false
            }
        });
        if !this.ended.is_empty() {
            let is_first = this.limit.is_none();
            let until = || sleep_until(this.until.unwrap_or_else(Instant::now));
            let limit = this.limit.get_or_insert_with(until);
            let mut written = this.ended.iter().filter_map(|it| it.written.as_ref());
            // The usual release is written or answered long before the limit, and wakes this task, so the first poll
            // arms no timer.
            if is_first && !this.may_be_late && !written.any(WriteSignal::is_late) {
                return Poll::Pending;
            }
            // The limit applies even if the releases have used up the budget of the task.
            ready!(Pin::new(&mut unconstrained(limit)).poll(cx));
            for mut ended in this.ended.drain(..) {
                events::release_backgrounded(ended.hold.key(), ended.hold.id());
                // The rest continues where the exit was polled, because the runtime that began the hold may have
                // ended.
                ended.release.prefer_current_runtime();
            }
        }
        Poll::Ready(this.failure.take().map_or(Ok(()), |failure| Err(*failure)))
    }
}

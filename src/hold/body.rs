//! A body that runs under locks. It is polled inside their chain, is dropped when one of them is lost, and leaves them at
//! its end. The error of a caller whose body must end takes its time.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project::{pin_project, pinned_drop};
use smallvec::SmallVec;
use tokio::task::futures::TaskLocalFuture;

use crate::base::error::LockError;
use crate::base::span::Span;
use crate::hold::entry::{BodyEntries, Entry};
use crate::hold::exit::Exit;
use crate::hold::hold::{EntryKind, Hold};
use crate::hold::scope::{self, CHAIN, Frame, HeldLocks};

/// The frame for work that leaves its task, with the locks that its caller runs under, and a member in each of their
/// holds, beginning with the outermost. `None` if the caller holds nothing. It is a frame of its own, because the frames
/// of the task that the work leaves stay where they are.
pub(crate) fn capture_current_call() -> Option<(Arc<Frame>, BodyEntries)> {
    let (mut members, mut locks) = (BodyEntries::new(), HeldLocks::new());
    for frame in scope::frames() {
        let mut at = 0;
        for held in frame.locks() {
            // An inner frame may have the same hold.
            let is_known = locks.iter().any(|it| Arc::ptr_eq(&it.hold, &held.hold));
            let Some(core) = held.core.upgrade().filter(|_| !is_known) else {
                continue;
            };
            let mut member = Entry::new(&core, EntryKind::Member);
            member.reenter(&held.hold, None);
            // A body that was moved out of an enclosing one may outlive the hold of that one. Such a hold cannot be
            // kept.
            if !member.holds().is_empty() {
                // The frames come from the innermost outwards, and the members begin with the outermost.
                members.insert(at, member);
                locks.push(held.clone());
                at += 1;
            }
        }
    }
    (!members.is_empty()).then(|| (Frame::new(locks), members))
}

/// A body inside its frame, and inside a span. It ends with the loss of a lock whose loss ends it.
#[pin_project(PinnedDrop)]
pub(crate) struct ScopedBody<F> {
    frame: Arc<Frame>,
    span: Span,
    /// The body, taken out on drop if it must be dropped inside the span.
    #[pin]
    body: Option<TaskLocalFuture<Arc<Frame>, F>>,
    /// Wakes the task when a lock is lost. The futures are created at the first wait, because most short bodies need none.
    losses: Option<SmallVec<[LossFuture; 1]>>,
}

type LossFuture = Pin<Box<dyn Future<Output = LockError> + Send>>;

/// The losses that end a body in this frame.
fn losses(frame: &Frame) -> SmallVec<[LossFuture; 1]> {
    let holds = frame.locks().iter().map(|held| &held.hold);
    let aborts = holds.filter(|hold| hold.aborts_on_loss());
    let loss = |hold: &Arc<Hold>| -> LossFuture {
        let hold = Arc::clone(hold);
        Box::pin(async move { hold.await_loss_error().await })
    };
    aborts.map(loss).collect()
}

/// An error is the loss that ends the body.
///
/// The deadline is checked before the body continues, because after a pause of the process the signal of a watchdog would
/// come too late. It is also checked after the body has finished, because a result counts only if it came before the
/// deadline.
impl<F: Future> Future for ScopedBody<F> {
    type Output = Result<F::Output, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        // Before the body makes another step: after a pause of the process the lease may be over.
        if let Some(error) = this.frame.abort_error() {
            return Poll::Ready(Err(error));
        }
        // What encloses this poll is what encloses the body, wherever the future was made or polled before.
        this.frame.begin_poll();
        // The body is only taken out when this is dropped.
        let Some(body) = this.body.as_pin_mut() else {
            return Poll::Pending;
        };
        if let Poll::Ready(output) = this.span.in_scope(|| body.poll(cx)) {
            // A result counts only if it came before the deadline.
            return Poll::Ready(this.frame.abort_error().map_or(Ok(output), Err));
        }
        // The body waits. From here on a loss must wake the task. No loss is missed: one that came since the last check
        // is found by this poll itself.
        let losses = this.losses.get_or_insert_with(|| losses(this.frame));
        let mut lost = losses.iter_mut().map(|lost| lost.as_mut().poll(cx));
        let lost = lost.find(Poll::is_ready).unwrap_or(Poll::Pending);
        lost.map(Err)
    }
}

/// Drops the body inside its span as well. Tokio's own future drops it inside its scope, wherever that is.
#[pinned_drop]
impl<F> PinnedDrop for ScopedBody<F> {
    fn drop(self: Pin<&mut Self>) {
        let mut this = self.project();
        // The body may be dropped elsewhere than where it was polled.
        this.frame.begin_poll();
        if this.span.is_open() {
            this.span.in_scope(|| this.body.set(None));
        }
    }
}

/// A body with the entries that it leaves at its end, and then the exit from them.
#[pin_project(project = EnteredBodyProjection, project_replace = ReplacedBody)]
pub(crate) enum EnteredBody<F: Future> {
    Running {
        /// The body. It is dropped before the entries, so that it has ended when a lock is released.
        #[pin]
        body: ScopedBody<F>,
        entries: BodyEntries,
    },
    /// The body has ended, and the releases of the holds that end with it are being written.
    Leaving {
        exit: Exit,
        output: Option<Result<F::Output, LockError>>,
    },
    /// The future ends with an error.
    Failing(DelayedError),
    /// The output was returned.
    Done,
}

impl<F: Future> EnteredBody<F> {
    pub(crate) fn new(frame: Arc<Frame>, span: Span, entries: BodyEntries, body: F) -> Self {
        let body = CHAIN.scope(Arc::clone(&frame), body);
        Self::Running {
            body: ScopedBody {
                frame,
                span,
                body: Some(body),
                losses: None,
            },
            entries,
        }
    }

    /// An acquisition that has failed, so that there is no body.
    pub(crate) fn failed(error: LockError) -> Self {
        Self::Failing(DelayedError::new(error))
    }

    /// Drops the body inside its scope, and only then leaves the holds.
    // Not inlined, as `fail`: each state that is created takes space in the frame of a poll.
    #[inline(never)]
    fn leave(mut self: Pin<&mut Self>, output: Result<F::Output, LockError>) {
        // The replacement drops the body, while the entries still have its holds (P1).
        if let ReplacedBody::Running { entries, .. } = self.as_mut().project_replace(Self::Done) {
            self.set(Self::Leaving {
                exit: Entry::exit_all(entries),
                output: Some(output),
            });
        }
    }

    /// Drops the body. The releases then continue in the background, so that the caller receives the error of a loss
    /// immediately, even if the store does not respond.
    #[inline(never)]
    fn fail(mut self: Pin<&mut Self>, error: LockError) {
        // The state before is dropped in the order of its fields: first the body, then the entries.
        self.set(Self::failed(error));
    }
}

impl<F: Future> Future for EnteredBody<F> {
    type Output = Result<F::Output, LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // Each turn is one transition. The next state is polled at once, because nothing else would wake this task for
        // it.
        loop {
            match self.as_mut().project() {
                EnteredBodyProjection::Running { body, .. } => match ready!(body.poll(cx)) {
                    // A hold at its `max_hold` still has its lock, and releases it as at the end of the body.
                    Err(error) if !error.is_max_hold() => self.as_mut().fail(error),
                    output => self.as_mut().leave(output),
                },
                EnteredBodyProjection::Leaving { exit, output } => {
                    // Whatever becomes of the release, it came after the body (P13).
                    let _ = ready!(Pin::new(exit).poll(cx));
                    match output.take() {
                        // This is the end of `max_hold`. Like any other error, it waits for a body around the caller
                        // that must end.
                        Some(Err(error)) => self.as_mut().fail(error),
                        output => {
                            self.set(Self::Done);
                            return output.map_or(Poll::Pending, Poll::Ready);
                        }
                    }
                }
                EnteredBodyProjection::Failing(error) => {
                    let error = ready!(Pin::new(error).poll(cx));
                    self.set(Self::Done);
                    return Poll::Ready(Err(error));
                }
                EnteredBodyProjection::Done => panic!("a body under locks polled after completion"),
            }
        }
    }
}

/// An error on its way to the caller. If a loss must end a body around the caller, that body is dropped first, and the
/// caller makes no further step.
///
/// A level checks for its loss after its body was polled, so this future waits for that. Code in between may poll this
/// future again before, or block its thread until it completes. So it completes after a limited number of polls.
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub(crate) struct DelayedError {
    error: Option<LockError>,
    polls: u8,
}

/// A set of futures polls a future that wakes itself twice before it returns, and each nested set multiplies that.
const MAX_DELAYING_POLLS: u8 = 16;

impl DelayedError {
    pub(crate) fn new(error: LockError) -> Self {
        Self {
            error: Some(error),
            polls: 0,
        }
    }
}

impl Future for DelayedError {
    type Output = LockError;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LockError> {
        if self.polls < MAX_DELAYING_POLLS && scope::must_abort() {
            // The level whose body must end checks for that after this poll, and drops this future.
            self.polls += 1;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.error.take().map_or(Poll::Pending, Poll::Ready)
    }
}

//! A body that runs under locks. It is polled inside their chain, is dropped when one of them is lost, and leaves them at
//! its end.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project::{pin_project, pinned_drop};
use tokio::task::futures::TaskLocalFuture;

use crate::base::error::LockError;
use crate::base::span::Span;
use crate::hold::abort::{Failing, Loss};
use crate::hold::depth::EntryKind;
use crate::hold::entry::{Entries, Entry};
use crate::hold::exit::Exit;
use crate::hold::hold::Hold;
use crate::hold::scope::{CHAIN, Frame, LocksId, frames};

/// The frames that a body adds to the chain around its poll.
#[derive(Debug)]
pub(crate) struct Frames {
    innermost: Arc<Frame>,
    outermost: Arc<Frame>,
}

impl Frames {
    /// The frame of one acquisition.
    pub(crate) fn of(locks: &LocksId, holds: &[Arc<Hold>]) -> Self {
        let frame = Frame::new(locks, holds);
        Self {
            innermost: Arc::clone(&frame),
            outermost: frame,
        }
    }

    /// The frames around the caller for work that leaves its task, and a member in each of their holds. `None` if the
    /// caller holds nothing. Each frame is a copy, because the frames of the task that the work leaves stay where they
    /// are.
    pub(crate) fn copy() -> Option<(Self, Entries)> {
        let (mut members, mut around) = (Entries::new(), Vec::new());
        for frame in frames() {
            let Some(renewals) = frame.renewals() else {
                continue;
            };
            let mut member = Entry::new(&renewals, EntryKind::Member);
            for hold in frame.holds() {
                // An inner entry of this hold may already have a member.
                let mut known = members.iter().flat_map(Entry::holds);
                if !known.any(|known| Arc::ptr_eq(known, hold)) {
                    member.reenter(hold, None);
                }
            }
            if !member.holds().is_empty() {
                members.insert(0, member);
                around.push(frame);
            }
        }
        let outermost = around.pop()?.copy(None);
        let inside = |outer, frame: &Arc<Frame>| frame.copy(Some(outer));
        let innermost = around.iter().rev().fold(Arc::clone(&outermost), inside);
        let frames = Self {
            innermost,
            outermost,
        };
        Some((frames, members))
    }

    fn place_here(&self) {
        self.innermost.place_here(&self.outermost);
    }

    /// Runs `work` inside the frames.
    pub(crate) fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        self.place_here();
        CHAIN.sync_scope(Arc::clone(&self.innermost), work)
    }
}

/// A body inside its frames, and inside a span.
#[pin_project(PinnedDrop)]
pub(crate) struct ScopedBody<F> {
    frames: Frames,
    span: Span,
    /// The body, taken out on drop if it must be dropped inside the span.
    #[pin]
    body: Option<TaskLocalFuture<Arc<Frame>, F>>,
}

impl<F: Future> ScopedBody<F> {
    pub(crate) fn new(frames: Frames, span: Span, body: F) -> Self {
        let body = CHAIN.scope(Arc::clone(&frames.innermost), body);
        Self {
            frames,
            span,
            body: Some(body),
        }
    }
}

impl<F: Future> Future for ScopedBody<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        this.frames.place_here();
        let Some(body) = this.body.as_pin_mut() else {
            return Poll::Pending;
        };
        this.span.in_scope(|| body.poll(cx))
    }
}

/// Drops the body inside its span as well. Tokio's own future drops it inside its scope, wherever that is.
#[pinned_drop]
impl<F> PinnedDrop for ScopedBody<F> {
    fn drop(self: Pin<&mut Self>) {
        let mut this = self.project();
        this.frames.place_here();
        if this.span.is_open() {
            this.span.in_scope(|| this.body.set(None));
        }
    }
}

/// A body with the entries that it runs under, and then the exit from them.
#[pin_project(project = EnteredBodyProjection, project_replace = ReplacedBody)]
pub(crate) enum EnteredBody<F: Future> {
    Running {
        /// The body. It is dropped before the entries, so that it has ended when a lock is released.
        #[pin]
        body: ScopedBody<F>,
        entries: Entries,
        loss: Loss,
    },
    /// The body has ended, and the releases of the holds that end with it are being written.
    Leaving {
        exit: Exit,
        output: Option<F::Output>,
    },
    /// The future ends with an error.
    Failing(Failing),
    Done,
}

impl<F: Future> EnteredBody<F> {
    pub(crate) fn new(frames: Frames, span: Span, entries: Entries, body: F) -> Self {
        Self::Running {
            body: ScopedBody::new(frames, span, body),
            entries,
            loss: Loss::default(),
        }
    }

    /// An acquisition that has failed, so that there is no body.
    pub(crate) fn failed(error: LockError) -> Self {
        Self::Failing(Failing::new(error))
    }

    /// The name of the step, for `Debug`.
    pub(crate) fn step(&self) -> &'static str {
        match self {
            Self::Running { .. } => "running",
            Self::Leaving { .. } => "leaving",
            Self::Failing(_) => "failing",
            Self::Done => "done",
        }
    }

    /// Drops the body inside its scope, and only then leaves the holds.
    fn leave(mut self: Pin<&mut Self>, output: F::Output) {
        if let ReplacedBody::Running { entries, .. } = self.as_mut().project_replace(Self::Done) {
            self.set(Self::Leaving {
                exit: Entry::exit_all(entries),
                output: Some(output),
            });
        }
    }

    // A function, because each state that is created takes space on the stack, and bodies are nested.
    fn fail(mut self: Pin<&mut Self>, error: LockError) {
        self.set(Self::failed(error));
    }
}

impl<F: Future> Future for EnteredBody<F> {
    type Output = Result<F::Output, LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            match self.as_mut().project() {
                EnteredBodyProjection::Running {
                    body,
                    entries,
                    loss,
                } => {
                    let holds = entries.iter().flat_map(Entry::holds);
                    match ready!(loss.race(holds, body, cx)) {
                        Ok(output) => self.as_mut().leave(output),
                        // Drops the body. The releases then continue in the background. So the caller receives the
                        // error immediately, even if the store does not respond.
                        Err(error) => self.as_mut().fail(error),
                    }
                }
                EnteredBodyProjection::Leaving { exit, output } => {
                    // Whatever becomes of the release, it came after the body (P13).
                    let _ = ready!(Pin::new(exit).poll(cx));
                    return output
                        .take()
                        .map_or(Poll::Pending, |output| Poll::Ready(Ok(output)));
                }
                EnteredBodyProjection::Failing(failing) => {
                    return Pin::new(failing).poll(cx).map(Err);
                }
                EnteredBodyProjection::Done => return Poll::Pending,
            }
        }
    }
}

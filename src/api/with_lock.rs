//! A future that runs a body under a lock.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project::{pin_project, pinned_drop};

use crate::api::engine::Engine;
use crate::base::error::LockError;
use crate::base::key::Keys;
use crate::base::options::Options;
use crate::hold::abort::{Failing, Loss};
use crate::hold::entry::Entry;
use crate::hold::exit::Exit;
use crate::hold::scope::Inside;

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A future that acquires a lock, runs a body under it, and releases the lock.
///
/// It borrows nothing from its [`Locks`](crate::Locks), and may continue in another runtime than the one in which it
/// began, even after that runtime has ended.
#[pin_project(PinnedDrop, project = WithLockProjection)]
#[must_use = "futures do nothing unless awaited"]
pub struct WithLock<F: Future> {
    engine: Arc<Engine>,
    #[pin]
    state: WithLockState<F>,
}

/// The steps of a `WithLock`, in order.
#[pin_project(project = StateProjection, project_replace = Replaced)]
enum WithLockState<F: Future> {
    /// The future has not been polled yet. The body may be moved until it runs under a lock.
    Idle {
        keys: Keys,
        options: Options,
        body: F,
    },
    /// The lock is being acquired.
    Acquiring {
        entering: BoxFuture<Result<Entry, LockError>>,
        body: Option<F>,
    },
    /// The body is running.
    Running {
        /// The body. It is dropped before the entry, so that it has ended when the lock is released.
        #[pin]
        body: Inside<F>,
        entry: Entry,
        loss: Loss,
    },
    /// The body has ended, and the lock is being released.
    Releasing {
        #[pin]
        exiting: Exit,
        output: Option<F::Output>,
    },
    /// The future ends with an error.
    Failing(Failing),
    /// The output was returned, or the future is being dropped.
    Done,
}

impl<F: Future> WithLock<F> {
    pub(crate) fn new(engine: Arc<Engine>, keys: Keys, options: Options, body: F) -> Self {
        Self {
            engine,
            state: WithLockState::Idle {
                keys,
                options,
                body,
            },
        }
    }
}

impl<F: Future> Future for WithLock<F> {
    type Output = Result<F::Output, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let WithLockProjection { engine, mut state } = self.project();
        loop {
            match state.as_mut().project() {
                StateProjection::Idle { .. } => state.as_mut().start(engine),
                StateProjection::Acquiring { entering, body } => {
                    match (ready!(entering.as_mut().poll(cx)), body.take()) {
                        (Ok(entry), Some(body)) => state.as_mut().run(engine, entry, body),
                        (Err(error), _) => state.as_mut().fail(error),
                        (Ok(_), None) => state.as_mut().finish(),
                    }
                }
                StateProjection::Running { body, entry, loss } => {
                    match ready!(loss.race(entry.holds(), body, cx)) {
                        Ok(output) => state.as_mut().release(output),
                        // Drops the body. The release then continues in the background. So the caller receives the
                        // error immediately, even if the store does not respond.
                        Err(error) => state.as_mut().fail(error),
                    }
                }
                StateProjection::Releasing { exiting, output } => {
                    let released = ready!(exiting.poll(cx));
                    let output = output.take();
                    state.as_mut().finish();
                    // Only the loss of the lock may replace the output of the body (P13).
                    match (released.err().filter(LockError::is_lost), output) {
                        (Some(error), _) => state.as_mut().fail(error),
                        (None, Some(output)) => return Poll::Ready(Ok(output)),
                        (None, None) => {}
                    }
                }
                StateProjection::Failing(failing) => {
                    let error = ready!(Pin::new(failing).poll(cx));
                    state.as_mut().finish();
                    return Poll::Ready(Err(error));
                }
                StateProjection::Done => panic!("`WithLock` polled after completion"),
            }
        }
    }
}

impl<F: Future> WithLockState<F> {
    fn start(mut self: Pin<&mut Self>, engine: &Arc<Engine>) {
        if let Replaced::Idle {
            keys,
            options,
            body,
        } = self.as_mut().project_replace(Self::Done)
        {
            let entering: BoxFuture<_> = Box::pin(Arc::clone(engine).enter(keys, options));
            self.set(Self::Acquiring {
                entering,
                body: Some(body),
            });
        }
    }

    fn run(mut self: Pin<&mut Self>, engine: &Engine, entry: Entry, body: F) {
        let body = Inside::new(engine.id(), entry.holds(), entry.span(), body);
        self.set(Self::Running {
            body,
            entry,
            loss: Loss::default(),
        });
    }

    // The next two are functions because each state that is created takes space on the stack, and bodies are nested.

    fn fail(mut self: Pin<&mut Self>, error: LockError) {
        self.set(Self::Failing(Failing::new(error)));
    }

    fn finish(mut self: Pin<&mut Self>) {
        self.set(Self::Done);
    }

    /// Drops the body inside its scope, and only then starts the release.
    fn release(mut self: Pin<&mut Self>, output: F::Output) {
        if let Replaced::Running { entry, .. } = self.as_mut().project_replace(Self::Done) {
            self.set(Self::Releasing {
                exiting: entry.exit(),
                output: Some(output),
            });
        }
    }
}

#[pinned_drop]
impl<F: Future> PinnedDrop for WithLock<F> {
    fn drop(self: Pin<&mut Self>) {
        // The replacement drops the body in place, inside its scope. It returns the remaining parts, and each of them
        // finishes its own work in the background.
        drop(self.project().state.project_replace(WithLockState::Done));
    }
}

impl<F: Future> fmt::Debug for WithLock<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            WithLockState::Idle { .. } => "idle",
            WithLockState::Acquiring { .. } => "acquiring",
            WithLockState::Running { .. } => "running",
            WithLockState::Releasing { .. } => "releasing",
            WithLockState::Failing(_) => "failing",
            WithLockState::Done => "done",
        };
        f.debug_struct("WithLock")
            .field("state", &state)
            .finish_non_exhaustive()
    }
}

/// A [`WithLock`] whose body returns a `Result`. A [`LockError`] is converted into the error type of the body.
#[pin_project]
#[must_use = "futures do nothing unless awaited"]
pub struct TryWithLock<F: Future>(#[pin] WithLock<F>);

impl<F: Future> TryWithLock<F> {
    pub(crate) fn new(inner: WithLock<F>) -> Self {
        Self(inner)
    }
}

impl<F, T, E> Future for TryWithLock<F>
where
    F: Future<Output = Result<T, E>>,
    E: From<LockError>,
{
    type Output = Result<T, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().0.poll(cx).map(|output| output?)
    }
}

impl<F: Future> fmt::Debug for TryWithLock<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TryWithLock").field(&self.0).finish()
    }
}

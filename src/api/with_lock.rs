//! A future that runs a body under a lock.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project::pin_project;

use crate::api::engine::{Engine, RequestKeys};
use crate::base::error::LockError;
use crate::base::options::LockOptions;
use crate::hold::body::EnteredBody;
use crate::hold::entry::{BodyEntries, Entry};

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A future that acquires a lock, runs a body under it, and releases the lock.
///
/// It borrows nothing from its [`Locks`](crate::Locks), and may continue in another runtime than the one in which it
/// began, even after that runtime has ended.
#[pin_project(project = WithLockProjection)]
#[must_use = "futures do nothing unless awaited"]
pub struct WithLock<F: Future> {
    #[pin]
    state: WithLockState<F>,
    engine: Arc<Engine>,
}

/// The steps of a `WithLock`, in order.
#[pin_project(project = StateProjection, project_replace = Replaced)]
enum WithLockState<F: Future> {
    /// The future has not been polled yet. The body may be moved until it runs under a lock.
    Idle {
        keys: RequestKeys,
        terms: LockOptions,
        body: F,
    },
    /// The lock is being acquired.
    Acquiring {
        entering: BoxFuture<Result<Entry, LockError>>,
        body: Option<F>,
    },
    Entered(#[pin] EnteredBody<F>),
    /// The output was returned.
    Done,
}

impl<F: Future> WithLock<F> {
    pub(crate) fn new(engine: Arc<Engine>, keys: RequestKeys, terms: LockOptions, body: F) -> Self {
        Self {
            engine,
            state: WithLockState::Idle { keys, terms, body },
        }
    }
}

impl<F: Future> Future for WithLock<F> {
    type Output = Result<F::Output, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let WithLockProjection { engine, mut state } = self.project();
        // Each turn is one transition: the body begins in the poll that has brought the lock.
        loop {
            match state.as_mut().project() {
                // Nothing is sent before the first poll.
                StateProjection::Idle { .. } => state.as_mut().start(engine),
                StateProjection::Acquiring { entering, body } => {
                    let entered = ready!(entering.as_mut().poll(cx));
                    match body.take() {
                        Some(body) => state.as_mut().run(entered, body),
                        None => state.set(WithLockState::Done),
                    }
                }
                StateProjection::Entered(body) => return body.poll(cx),
                StateProjection::Done => panic!("`WithLock` polled after completion"),
            }
        }
    }
}

impl<F: Future> WithLockState<F> {
    // Not inlined, as `run`: the future that is boxed would take its place in the frame of each nested poll.
    #[inline(never)]
    fn start(mut self: Pin<&mut Self>, engine: &Arc<Engine>) {
        if let Replaced::Idle { keys, terms, body } = self.as_mut().project_replace(Self::Done) {
            let entering: BoxFuture<_> = Box::pin(Arc::clone(engine).enter(keys, terms));
            self.set(Self::Acquiring {
                entering,
                body: Some(body),
            });
        }
    }

    #[inline(never)]
    fn run(mut self: Pin<&mut Self>, entered: Result<Entry, LockError>, body: F) {
        self.set(Self::Entered(match entered {
            Ok(entry) => {
                let (frame, span) = (entry.frame(), entry.span());
                EnteredBody::new(frame, span, BodyEntries::from_buf([entry]), body)
            }
            // The body is dropped without having been polled.
            Err(error) => EnteredBody::failed(error),
        }));
    }
}

impl<F: Future> fmt::Debug for WithLock<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithLock").finish_non_exhaustive()
    }
}

/// A [`WithLock`] whose body returns a `Result`. A [`LockError`] is converted into the error type of the body.
#[pin_project]
#[must_use = "futures do nothing unless awaited"]
pub struct TryWithLock<F: Future>(#[pin] pub(super) WithLock<F>);

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

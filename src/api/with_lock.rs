//! A body that runs under a lock: the futures of `with_lock`, and of a request.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project::pin_project;

use crate::api::request::LockRequest;
use crate::base::error::LockError;
use crate::hold::body::EnteredBody;
use crate::hold::entry::{BodyEntries, Entry};

impl LockRequest {
    /// Runs `body` under the lock, or under all the locks, as [`Locks::with_lock`](crate::Locks::with_lock) does.
    ///
    /// # Errors
    ///
    /// Every [`LockError`].
    ///
    /// # Cancel safety
    ///
    /// As for [`Locks::with_lock`](crate::Locks::with_lock).
    pub fn run<F: Future>(self, body: F) -> WithLock<F> {
        WithLock {
            state: WithLockState::Idle {
                request: self,
                body,
            },
        }
    }

    /// Runs `body`, which returns a `Result`, under the lock, as [`Locks::try_with_lock`](crate::Locks::try_with_lock)
    /// does.
    ///
    /// # Errors
    ///
    /// The errors of the body, and every [`LockError`] of [`run`](Self::run), converted into the error type of the
    /// body.
    ///
    /// # Cancel safety
    ///
    /// As for [`Locks::with_lock`](crate::Locks::with_lock).
    pub fn try_run<F, T, E>(self, body: F) -> TryWithLock<F>
    where
        F: Future<Output = Result<T, E>>,
        E: From<LockError>,
    {
        TryWithLock(self.run(body))
    }
}

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A future that acquires a lock, runs a body under it, and releases the lock.
///
/// It borrows nothing from its [`Locks`](crate::Locks), and may continue in another runtime than the one in which it
/// began, even after that runtime has ended.
#[pin_project]
#[must_use = "futures do nothing unless awaited"]
pub struct WithLock<F: Future> {
    #[pin]
    state: WithLockState<F>,
}

/// The steps of a `WithLock`, in order.
#[pin_project(project = StateProjection, project_replace = Replaced)]
enum WithLockState<F: Future> {
    /// The future has not been polled yet. The body may be moved until it runs under a lock.
    Idle {
        request: LockRequest,
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

impl<F: Future> Future for WithLock<F> {
    type Output = Result<F::Output, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        // Each turn is one transition: the body begins in the poll that has brought the lock.
        loop {
            match state.as_mut().project() {
                // Nothing is sent before the first poll.
                StateProjection::Idle { .. } => state.as_mut().start(),
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
    fn start(mut self: Pin<&mut Self>) {
        if let Replaced::Idle { request, body } = self.as_mut().project_replace(Self::Done) {
            let entering: BoxFuture<_> =
                Box::pin(request.engine.enter(request.keys, request.terms));
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

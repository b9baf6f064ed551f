//! A future that keeps its call graph when it runs in another task.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project::pin_project;

use crate::base::error::LockError;
use crate::base::span::Span;
use crate::hold::body::{EnteredBody, Frames};

/// An extension trait that this crate adds to every [`Future`].
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use reentry::FutureExt;
///
/// let locks = reentry::Locks::in_memory();
/// let body = async { tokio::spawn(async { reentry::current().is_some() }.in_current_call()).await };
/// assert!(locks.with_lock("order:42", body).await???);
/// # Ok(())
/// # }
/// ```
pub trait FutureExt: Future + Sized {
    /// Makes the future a part of the call graph in which this method is called, wherever the future is polled.
    ///
    /// Each lock that the calling code runs under is held from this call until the future has ended or was dropped.
    /// This applies even while the future is not polled, and even if the call that acquired the lock has ended by then.
    /// Inside the future, nested calls re-enter these locks, and [`held`](crate::held()) and
    /// [`current`](crate::current()) return them. Locks that enclose the future where it is polled come after them.
    ///
    /// Keeping a lock costs no request. The store keeps the depth that results from the entries of the lock, but at
    /// least 1. The last entry or future of this kind that ends releases the lock.
    ///
    /// A call that has acquired a lock does not wait for the future. The call returns its output, and the lock is still
    /// held.
    ///
    /// If the calling code runs under no lock, the method has no effect: the output is the output of the future.
    ///
    /// # Errors
    ///
    /// The output is [`LockError::Lost`] if one of the locks is lost before the future has ended. Then the future is
    /// dropped, unless the lock was requested with [`OnLost::KeepRunning`](crate::OnLost). If several locks are lost,
    /// the error names the outermost lock.
    ///
    /// # Panics
    ///
    /// The future panics if it is polled after completion. If it keeps a lock, it also panics if it is polled outside a
    /// tokio runtime with timers.
    ///
    /// # Cancel safety
    ///
    /// Dropping the returned future, polled or not, drops the inner future. If it was the last user of a lock, that
    /// lock is released in the background. If the runtime shuts down before that, the lock is held until its lease
    /// expires.
    ///
    /// # Examples
    ///
    /// ```
    /// use reentry::FutureExt;
    /// use tokio::task::JoinSet;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = reentry::Locks::in_memory();
    /// let mut tasks = JoinSet::new();
    /// let body = async {
    ///     let nested = locks.clone();
    ///     let charge = async move { nested.with_lock("order:42", async { "charged" }).await };
    ///     tasks.spawn(charge.in_current_call());
    /// };
    /// // The body ends immediately, and leaves the lock to the task.
    /// locks.with_lock("order:42", body).await?;
    /// assert!(locks.lock("order:42").try_acquire().await?.is_none());
    /// let charged = tasks.join_next().await.transpose()?;
    /// assert_eq!(charged.transpose()?.transpose()?, Some("charged"));
    /// assert!(locks.lock("order:42").try_acquire().await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    fn in_current_call(self) -> InCurrentCall<Self> {
        InCurrentCall::new(self)
    }
}

impl<F: Future> FutureExt for F {}

/// A future that stays in the call graph in which it was created.
#[pin_project]
#[must_use = "futures do nothing unless awaited, and this one keeps the locks under which it was created"]
pub struct InCurrentCall<F: Future> {
    #[pin]
    state: InCurrentCallState<F>,
}

#[pin_project(project = StateProjection)]
enum InCurrentCallState<F: Future> {
    /// The future was created under no lock.
    Plain(#[pin] F),
    Entered(#[pin] EnteredBody<F>),
    /// The output was returned.
    Done,
}

impl<F: Future> InCurrentCall<F> {
    fn new(body: F) -> Self {
        let state = match Frames::copy() {
            None => InCurrentCallState::Plain(body),
            Some((frames, members)) => {
                let body = EnteredBody::new(frames, Span::default(), members, body);
                InCurrentCallState::Entered(body)
            }
        };
        Self { state }
    }
}

impl<F: Future> Future for InCurrentCall<F> {
    type Output = Result<F::Output, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        let output = match state.as_mut().project() {
            StateProjection::Plain(body) => Ok(ready!(body.poll(cx))),
            StateProjection::Entered(body) => ready!(body.poll(cx)),
            StateProjection::Done => panic!("`InCurrentCall` polled after completion"),
        };
        state.set(InCurrentCallState::Done);
        Poll::Ready(output)
    }
}

impl<F: Future> fmt::Debug for InCurrentCall<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            InCurrentCallState::Plain(_) => "plain",
            InCurrentCallState::Entered(body) => body.step(),
            InCurrentCallState::Done => "done",
        };
        f.debug_struct("InCurrentCall")
            .field("state", &state)
            .finish_non_exhaustive()
    }
}

//! Work that leaves its task and stays in the call graph: a future that keeps its call graph wherever it is polled, and
//! the tasks that are spawned with it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project::pin_project;
use tokio::task::{self, JoinHandle};

use crate::base::error::LockError;
use crate::base::span::Span;
use crate::hold::body::{EnteredBody, capture_current_call};
use crate::hold::entry::BodyEntries;
use crate::hold::scope::Frame;

/// Adds [`in_current_call`](Self::in_current_call) to every [`Future`].
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
    /// Inside it, nested calls re-enter the locks of the calling code. Each of these locks is held from this call until
    /// the future has ended or was dropped, even if the call that acquired it has returned, and even while the future
    /// is not polled. The last one to end releases the lock. No request is sent for that.
    ///
    /// Under no lock, the method has no effect.
    ///
    /// # Errors
    ///
    /// The output is [`LockError::Lost`] if one of the locks is lost before the future has ended. Then the future is
    /// dropped, unless the lock was requested with [`OnLost::KeepRunning`](crate::OnLost). If several locks are lost,
    /// the error names the outermost one.
    ///
    /// # Panics
    ///
    /// The future panics if it is polled after completion. If it keeps a lock, it also panics if it is polled outside a
    /// tokio runtime with timers.
    ///
    /// # Cancel safety
    ///
    /// Dropping the returned future, polled or not, drops the inner one. If it was the last user of a lock, that lock
    /// is released in the background. If the runtime shuts down before that, the lock is held until its lease expires.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use reentry::FutureExt;
    /// use tokio::task::JoinSet;
    /// use tokio::time::sleep;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = reentry::Locks::in_memory();
    /// let mut tasks = JoinSet::new();
    /// let body = async {
    ///     let nested = locks.clone();
    ///     let charge = async move {
    ///         sleep(Duration::from_millis(100)).await;
    ///         nested.with_lock("order:42", async { "charged" }).await
    ///     };
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
        // When it is created, and not at its first poll: a task that was spawned and not polled yet already keeps the
        // locks.
        let state = match capture_current_call() {
            None => InCurrentCallState::Plain(self),
            Some((frame, members)) => {
                let body = EnteredBody::new(frame, Span::default(), members, self);
                InCurrentCallState::Entered(body)
            }
        };
        InCurrentCall { state }
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
        f.debug_struct("InCurrentCall").finish_non_exhaustive()
    }
}

/// Spawns a task that re-enters the locks of its caller, and keeps them until it ends.
///
/// It is `tokio::spawn` of [`in_current_call`](FutureExt::in_current_call). A task of plain `tokio::spawn` is another
/// caller: if it wants a lock of the code that awaits it, both wait until its `wait` is over.
///
/// Under no lock, the task is like any other, and its output is `Ok`.
///
/// # Errors
///
/// The output of the task is [`LockError::Lost`] if one of the locks is lost before the task has ended. Then its future
/// is dropped, unless the lock was requested with [`OnLost::KeepRunning`](crate::OnLost).
///
/// # Panics
///
/// Panics outside a tokio runtime, as `tokio::spawn` does.
///
/// # Cancel safety
///
/// Dropping the handle detaches the task, which continues and keeps the locks. Aborting the task drops its future. If
/// the task was the last user of a lock, that lock is released in the background.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = reentry::Locks::in_memory();
/// let nested = locks.clone();
/// let body = async {
///     let task = async move { nested.with_lock("order:42", async { "both inside" }).await };
///     // With `tokio::spawn`, the task would wait for its own caller until its `wait` is over.
///     reentry::spawn(task).await
/// };
/// assert_eq!(locks.with_lock("order:42", body).await????, "both inside");
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<Result<F::Output, LockError>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    task::spawn(future.in_current_call())
}

/// Runs blocking work on another thread, inside the locks of its caller, and keeps them until it ends.
///
/// It is `tokio::task::spawn_blocking` with the locks of [`spawn`]. In the work, [`held`](crate::held()) and
/// [`current`](crate::current()) return them, and `Handle::current().block_on(locks.with_lock(…))` re-enters them.
///
/// Nothing can stop such work once it has begun: check [`Held::is_lost`](crate::Held::is_lost) between its steps. If it
/// was the last user of a lock, the lock is released in the background, and may still be held when the output is ready.
///
/// # Errors
///
/// The output is [`LockError::Lost`] if one of the locks was lost before the end of the work. If that was before it
/// began, the work is not run. Locks that were requested with [`OnLost::KeepRunning`](crate::OnLost) do not count.
///
/// # Panics
///
/// Panics outside a tokio runtime, as `tokio::task::spawn_blocking` does.
///
/// # Cancel safety
///
/// Dropping the handle detaches the work, which continues and keeps the locks. Work that is aborted before it has begun
/// is dropped when its turn comes. Aborting it later has no effect.
///
/// # Examples
///
/// ```
/// use tokio::runtime::Handle;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = reentry::Locks::in_memory();
/// let nested = locks.clone();
/// let body = async {
///     let work = move || {
///         let depth = async { reentry::held("order:42").map(|held| held.depth()) };
///         Handle::current().block_on(nested.with_lock("order:42", depth))
///     };
///     reentry::spawn_blocking(work).await
/// };
/// assert_eq!(locks.with_lock("order:42", body).await????, Some(2));
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn spawn_blocking<F, T>(work: F) -> JoinHandle<Result<T, LockError>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    // Before the thread begins, which may be after the caller has left its lock.
    let blocking = Blocking {
        work,
        call: capture_current_call(),
    };
    task::spawn_blocking(move || blocking.run())
}

/// Blocking work that has not reached its thread yet.
struct Blocking<F> {
    /// The work. It is dropped before the members, so that it has ended when a lock is released.
    work: F,
    /// The call graph of the caller. `None` if the caller runs under no lock.
    call: Option<(Arc<Frame>, BodyEntries)>,
}

impl<F> Blocking<F> {
    fn run<T>(self) -> Result<T, LockError>
    where
        F: FnOnce() -> T,
    {
        // The members are dropped when this function returns, after the work. So the locks are held as long as it runs
        // (P7).
        let Some((frame, _members)) = self.call else {
            return Ok((self.work)());
        };
        if let Some(error) = frame.abort_error() {
            // The work is dropped inside the frame, as a body is.
            frame.run(|| drop(self.work));
            return Err(error);
        }
        // A loss does not end blocking work. Its output does not count then (P6).
        let output = frame.run(self.work);
        // No caller can wait for a release here, so the rest continues in the background.
        frame.abort_error().map_or(Ok(output), Err)
    }
}

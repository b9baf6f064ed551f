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
use crate::hold::entry::Entries;
use crate::hold::scope::Frame;

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
        let state = match capture_current_call() {
            None => InCurrentCallState::Plain(body),
            Some((frame, members)) => {
                let body = EnteredBody::new(frame, Span::default(), members, body);
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
        f.debug_struct("InCurrentCall").finish_non_exhaustive()
    }
}

/// Spawns a task that belongs to the call graph of the caller. It is `tokio::spawn` of
/// [`in_current_call`](FutureExt::in_current_call).
///
/// The task keeps each lock that the caller runs under, and can re-enter it. If the caller runs under no lock, the task
/// is like any other task, and its output is `Ok`.
///
/// A task of `tokio::spawn` inherits nothing. It is another caller, and waits for the locks of the code that spawned
/// it. If that code awaits the task, both wait until the `wait` of the task's request is over, which may never happen.
/// Use this function for tasks that are awaited, or that finish the work of their caller.
///
/// # Errors
///
/// The output of the task is [`LockError::Lost`] if one of the locks is lost before the task has ended. Then the future
/// of the task is dropped, unless the lock was requested with [`OnLost::KeepRunning`](crate::OnLost).
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

/// Runs blocking work that belongs to the call graph of the caller. It is `tokio::task::spawn_blocking`, with the same
/// locks as for [`spawn`].
///
/// Inside the work, [`held`](crate::held()) and [`current`](crate::current()) return the locks that the caller
/// runs under. `Handle::current().block_on(locks.with_lock(…))` re-enters the locks.
///
/// Blocking work cannot be dropped. Once it has begun, it runs to its end, whatever happens to the lock. Check
/// [`Held::is_lost`](crate::Held::is_lost) between its steps. If the work was the last user of a lock, the lock is
/// released in the background, and may still be held when the output is ready.
///
/// # Errors
///
/// The output is [`LockError::Lost`] if one of the locks was lost before the end of the work. If the lock was lost
/// before the work began, the work is not run. Locks that were requested with [`OnLost::KeepRunning`](crate::OnLost) do
/// not count.
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
    let blocking = Blocking::new(work);
    task::spawn_blocking(move || blocking.run())
}

/// Blocking work that has not reached its thread yet.
struct Blocking<F> {
    /// The work. It is dropped before the members, so that it has ended when a lock is released.
    work: F,
    /// The call graph of the caller. `None` if the caller runs under no lock.
    call: Option<(Arc<Frame>, Entries)>,
}

impl<F> Blocking<F> {
    fn new(work: F) -> Self {
        Self {
            work,
            call: capture_current_call(),
        }
    }

    fn run<T>(self) -> Result<T, LockError>
    where
        F: FnOnce() -> T,
    {
        let Some((frame, _members)) = self.call else {
            return Ok((self.work)());
        };
        if let Some(error) = frame.abort_error() {
            frame.run(|| drop(self.work));
            return Err(error);
        }
        let output = frame.run(self.work);
        // No caller can wait for a release here, so the rest continues in the background.
        frame.abort_error().map_or(Ok(output), Err)
    }
}

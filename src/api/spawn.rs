//! Tasks that belong to the call graph of the code that spawns them.

use tokio::task::{self, JoinHandle};

use crate::api::in_current_call::FutureExt;
use crate::base::error::LockError;
use crate::hold::abort::must_abort;
use crate::hold::body::Frames;
use crate::hold::entry::{Entries, Entry};

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
/// // With `tokio::spawn`, the task would wait for its own caller until its `wait` is over.
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
    call: Option<(Frames, Entries)>,
}

impl<F> Blocking<F> {
    fn new(work: F) -> Self {
        Self {
            work,
            call: Frames::copy(),
        }
    }

    fn run<T>(self) -> Result<T, LockError>
    where
        F: FnOnce() -> T,
    {
        let Some((frames, members)) = self.call else {
            return Ok((self.work)());
        };
        let lost = || must_abort(members.iter().flat_map(Entry::holds));
        if let Some(error) = lost() {
            frames.run(|| drop(self.work));
            return Err(error);
        }
        let output = frames.run(self.work);
        // No caller can wait for a release here, so the rest continues in the background.
        lost().map_or(Ok(output), Err)
    }
}

//! The holders of locks, as the store describes them: one that a caller waits for, and those of a deadlock.

use std::fmt;
use std::time::Duration;

use crate::base::process::Process;
use crate::base::sanitize::Sanitized;

/// A holder of a lock, as Redis has it.
///
/// [`Admin::inspect`](crate::admin::Admin::inspect) shows all holders of a lock.
/// [`LockError::Busy`](crate::LockError::Busy) has the one that the caller was waiting for, as it was at most a
/// heartbeat earlier.
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), reentry::LockError> {
/// use reentry::LockError;
///
/// let locks = reentry::Locks::in_memory();
/// let guard = locks.lock("order:42").await?;
/// let late = locks.lock("order:42").wait(Duration::from_secs(2)).await;
/// let Err(LockError::Busy { holder: Some(holder), .. }) = late else { panic!("it is held") };
/// assert!(holder.is_here && holder.depth == 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The name of the field. It is `<owner>:<number>` if this crate has written it. Bytes that are not UTF-8
    /// are shown as U+FFFD.
    pub hold_id: String,
    /// The id of the call graph of the holder, a UUID, if the field has the form `<uuid>:<integer>`. `None` for another
    /// program.
    pub owner: Option<String>,
    /// The process of the holder, as it described itself. `None` if the store does not know it, for example for another
    /// program.
    pub process: Option<Process>,
    /// Whether the hold belongs to this process and to the same [`Locks`](crate::Locks).
    pub is_here: bool,
    /// The number of nested entries of the hold. It is 1 if only [spawned work](crate::FutureExt::in_current_call)
    /// keeps the hold. It is 0 if another program has written a value that is not a number of entries.
    pub depth: u64,
    /// How long the lock has been held, on the server's clock: by the first of the readers, or the first of the callers
    /// of one process that follow each other under one hold. `None` for another program, and if the clock was set back.
    pub held_for: Option<Duration>,
    /// How long the lease of this reader lasts unless it is renewed. `None` if the lock is held exclusively.
    pub remaining: Option<Duration>,
}

/// The holder in a message: `worker, pid 7 on host-3 (<hold id>) for 2.1s`.
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The reader knows its own process, so only another one is described.
        let (process, hold_id) = (self.process.as_ref(), Sanitized(&self.hold_id));
        match process.filter(|_| !self.is_here) {
            Some(process) => write!(f, "{process} ({hold_id})")?,
            None => write!(f, "{hold_id}")?,
        }
        if self.is_here {
            f.write_str(" in this process")?;
        }
        if let Some(held_for) = self.held_for {
            write!(f, " for {held_for:.1?}")?;
        }
        Ok(())
    }
}

/// One of the call graphs that wait for each other in a [deadlock](crate::LockError::Deadlock).
///
/// Keys are shown without the prefix of the [`Locks`](crate::Locks) that found the deadlock. Keys that do not have that
/// prefix are shown in full.
///
/// # Examples
///
/// ```
/// use reentry::{Blocked, LockError};
///
/// /// Returns the keys of a deadlock, for a log.
/// fn cycle(error: &LockError) -> Vec<&str> {
///     match error {
///         LockError::Deadlock { cycle, .. } => cycle.iter().map(|it: &Blocked| &*it.holds).collect(),
///         _ => Vec::new(),
///     }
/// }
/// # assert!(cycle(&LockError::Closed).is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Blocked {
    /// The id of the call graph that waits, a UUID.
    pub owner: String,
    /// The process of the call graph, as it described itself. `None` if the store does not know it.
    pub process: Option<Process>,
    /// The key that the call graph holds.
    pub holds: String,
    /// The key that the call graph waits for.
    pub waits_for: String,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = &self.owner;
        match &self.process {
            Some(process) => write!(f, "{process} ({owner})")?,
            None => write!(f, "{owner}")?,
        }
        let (holds, waits_for) = (Sanitized(&self.holds), Sanitized(&self.waits_for));
        write!(f, " holds `{holds}` and waits for `{waits_for}`")
    }
}

//! The holder of a lock that a caller waits for.

use std::fmt;
use std::time::Duration;

use crate::base::id::OwnerId;

/// The holder of a lock that a caller waited for, as last seen; see [`LockError::Timeout`](crate::LockError::Timeout).
///
/// The store was asked at most a heartbeat before. Another holder may have the lock by now.
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
/// let Err(LockError::Timeout { holder: Some(holder), .. }) = late else { panic!("it is held") };
/// assert_eq!(holder.hold_id, guard.held().hold_id().to_string());
/// assert!(holder.is_here);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct HeldBy {
    /// The id of the hold; if readers share the lock, of the first that the store names. The text that another program has
    /// written is shown as it is, with U+FFFD for bytes that are not UTF-8.
    pub hold_id: String,
    /// The call graph of the hold; `None` for another program.
    pub owner: Option<OwnerId>,
    /// Whether the hold belongs to this process and to the same [`Locks`](crate::Locks).
    pub is_here: bool,
    /// How long the holder has had the lock, if it still has it, by the server's clock; `None` for another program. Where call
    /// graphs share a hold ([`HandOff::InProcess`](crate::HandOff::InProcess)), the time since the first of them took it.
    pub held_for: Option<Duration>,
    /// The number of other readers that share the lock.
    pub others: usize,
}

impl HeldBy {
    /// The holder as it would be seen after a while in which nothing changed.
    pub(crate) fn later(&self, after: Duration) -> Self {
        let held_for = self.held_for.map(|it| it.saturating_add(after));
        Self {
            held_for,
            ..self.clone()
        }
    }
}

impl fmt::Display for HeldBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hold_id)?;
        if self.is_here {
            f.write_str(" in this process")?;
        }
        if let Some(held_for) = self.held_for {
            write!(f, " for {held_for:.1?}")?;
        }
        if self.others > 0 {
            write!(f, " and {} others", self.others)?;
        }
        Ok(())
    }
}

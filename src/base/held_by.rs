//! Who has a lock that another one waits for.

use std::{fmt, time::Duration};

use crate::base::id::OwnerId;

/// Who had the lock that a caller waited for, as last seen; see [`LockError::Timeout`](crate::LockError::Timeout).
///
/// It was so when the store was asked, at most a heartbeat before. Another holder may have the lock by now.
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
    /// The hold; of readers the first that the store names. What another program has written as its name is shown as it
    /// is, with U+FFFD for bytes that are no UTF-8.
    pub hold_id: String,
    /// The call graph; `None` for another program.
    pub owner: Option<OwnerId>,
    /// Whether the hold is one of this process, through the same [`Locks`](crate::Locks).
    pub is_here: bool,
    /// For how long it has had the lock if it still has it, on the server's clock; `None` for another program. Where call graphs share a
    /// hold ([`HandOff::InProcess`](crate::HandOff::InProcess)), since the first of them.
    pub held_for: Option<Duration>,
    /// How many others share the lock with it.
    pub others: usize,
}

impl HeldBy {
    /// The same after so long.
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

//! The view of a lock from inside its body.

use std::future::pending;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::base::error::{LockError, LostReason};
use crate::base::id::{FencingToken, HoldId, OwnerId};
use crate::base::options::Mode;
use crate::hold::core::Core;
use crate::hold::hold::Hold;

/// A lock that is held, as code inside it sees it.
///
/// This is a view, not a guard. It keeps nothing alive, no task and no connection. After the lock was released, it
/// still shows the lock as it was, with a [`depth`](Self::depth) of 0.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), reentry::LockError> {
/// let locks = reentry::Locks::in_memory();
/// let held = locks.with_lock("order:42", async { reentry::held("order:42") }).await?;
/// let held = held.expect("the body runs under it");
/// assert_eq!((held.key(), held.depth()), ("order:42", 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Held {
    pub(crate) hold: Arc<Hold>,
    /// What it shares with the other holds of its `Locks`. It is gone only if the hold has ended.
    pub(super) core: Weak<Core>,
}

impl Held {
    /// Returns whether it belongs to this `Locks`.
    pub(super) fn belongs_to(&self, core: &Arc<Core>) -> bool {
        Weak::as_ptr(&self.core) == Arc::as_ptr(core)
    }

    /// Returns the key, without the prefix.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::builder("memory:").prefix("billing:").build().await?;
    /// let guard = locks.lock("order:42").await?;
    /// assert_eq!(guard.held().key(), "order:42");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn key(&self) -> &str {
        self.hold.key().name()
    }

    /// Returns the token to send with every write to the resource that the lock protects.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let first = locks.lock("order:42").await?.held().fencing_token();
    /// let second = locks.lock("order:42").await?.held().fencing_token();
    /// assert!(second > first);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.hold.token()
    }

    /// Returns whether the lock is shared with other readers.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let guard = locks.lock("report:2026").read().await?;
    /// assert!(guard.held().is_shared());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.hold.mode() == Mode::Shared
    }

    /// Returns the number of nested entries that the hold has at this moment. It is 1 without any re-entry, and if only
    /// [spawned work](crate::FutureExt::in_current_call) keeps the hold.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let guard = locks.lock("order:42").await?;
    /// let nested = guard.scope(async { locks.lock("order:42").await }).await??;
    /// assert_eq!(guard.held().depth(), 2);
    /// nested.release().await?;
    /// assert_eq!(guard.held().depth(), 1);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.hold.depth()
    }

    /// Returns how long the lock is certain to be held if no later renewal succeeds. Returns zero if the lock was lost
    /// or released.
    ///
    /// Renewals are sent every third of the TTL. So while the store responds, this is at least about two thirds of the
    /// TTL, less the [grace](crate::LocksBuilder::grace).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let guard = locks.lock("order:42").ttl(Duration::from_secs(30)).await?;
    /// let held = guard.held().clone();
    /// assert!(held.remaining() > Duration::from_secs(20));
    /// guard.release().await?;
    /// assert!(held.remaining().is_zero());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.hold.remaining()
    }

    /// Returns whether the lock was lost before it was released.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let guard = locks.lock("order:42").max_hold(Duration::from_secs(60)).await?;
    /// assert!(!guard.held().is_lost());
    /// tokio::time::sleep(Duration::from_secs(61)).await;
    /// assert!(guard.held().is_lost());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.hold.check_loss().is_some()
    }

    /// Fails if the lock was lost before it was released. Call it with `?` between the steps of work that the loss does
    /// not end by itself, for example of a [guard](crate::LockGuard), or of blocking work.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let guard = locks.lock("order:42").max_hold(Duration::from_secs(60)).await?;
    /// guard.held().check()?;
    /// tokio::time::sleep(Duration::from_secs(61)).await;
    /// assert!(guard.held().check().unwrap_err().is_lost());
    /// # Ok(())
    /// # }
    /// ```
    pub fn check(&self) -> Result<(), LockError> {
        match self.hold.check_loss() {
            Some(reason) => Err(self.hold.lost_error(reason)),
            None => Ok(()),
        }
    }

    /// Waits until another caller in this process, or another process, waits for the lock. So a long batch can let
    /// others in at a safe point, by a release and a new acquisition, which queues behind the others.
    ///
    /// While the future is awaited, a request is sent to the store immediately and after each heartbeat (1 s, or a third
    /// of the TTL if that is shorter). A message also reports a process that arrives. An acquisition that does not wait
    /// is not detected: a [`try_acquire`](crate::LockRequest::try_acquire), a reader beside readers, a permit while some
    /// are free. The future does not resolve after a release, or while the store does not respond.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing. The next call sends another request.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let guard = locks.lock("import").await?;
    /// let other = tokio::spawn(locks.with_lock("import", async {}));
    ///
    /// guard.held().wanted().await;
    /// guard.release().await?; // at the end of a step
    /// let _guard = locks.lock("import").await?; // the next step, after the other caller
    /// assert!(other.is_finished());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wanted(&self) {
        // Only the local queues are kept while this waits, because a view keeps nothing of the hold alive.
        let queues = self.core.upgrade().map(|core| Arc::clone(&core.queues));
        let Some(queues) = queues else {
            // Without its `Locks` the hold has ended, so no caller can want it.
            return pending().await;
        };
        let hold = &self.hold;
        let heartbeat = queues.queueing.heartbeat(hold.ttl());
        queues
            .await_contention(hold.key(), hold.id(), heartbeat)
            .await;
        if hold.depth() == 0 {
            // A different hold is wanted.
            pending().await
        }
    }

    /// Waits until the lock is lost. After a release it never resolves, unless the release found that it had been lost.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let guard = locks.lock("order:42").max_hold(Duration::from_secs(60)).await?;
    /// assert_eq!(guard.held().lost().await, reentry::LostReason::MaxHold);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lost(&self) -> LostReason {
        self.hold.await_loss().await
    }
}

/// The ids of a lock that is held, for tools and tests.
pub trait Ids {
    /// Returns the id of the hold, which is its field in the Redis hash.
    fn hold_id(&self) -> HoldId;

    /// Returns the call graph that holds the lock.
    fn owner(&self) -> OwnerId {
        self.hold_id().owner()
    }
}

impl Ids for Held {
    fn hold_id(&self) -> HoldId {
        self.hold.id()
    }
}

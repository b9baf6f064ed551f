//! What a body can ask about a lock that it runs under.

use std::{sync::Arc, time::Duration};

use crate::{
    base::{
        error::LostReason,
        id::{FencingToken, HoldId, OwnerId},
    },
    hold::hold::Hold,
};

/// A lock that is held, as the code under it sees it.
///
/// A view, not a guard: it keeps nothing alive, no task and no connection. After the lock was released it
/// still shows what it was, with a [`depth`](Self::depth) of 0.
#[derive(Clone, Debug)]
pub struct Held(Arc<Hold>);

impl Held {
    pub(crate) fn new(hold: &Arc<Hold>) -> Self {
        Self(Arc::clone(hold))
    }

    /// The key, without the prefix.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::builder().url("memory:").prefix("billing:").build().await?;
    /// let guard = locks.lock("order:42").await?;
    /// assert_eq!(guard.held().key(), "order:42");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn key(&self) -> &str {
        self.0.key().name()
    }

    /// The hold's identity: the field under which it stands in the Redis hash.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let guard = locks.lock("order:42").await?;
    /// let info = locks.inspect("order:42").await?.unwrap();
    /// assert_eq!(info.holders[0].hold_id, guard.held().hold_id().to_string());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn hold_id(&self) -> HoldId {
        self.0.id()
    }

    /// The call graph that holds the lock.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let guard = locks.lock("order:42").await?;
    /// let inside = guard.scope(async { reentry::current_owner() }).await?;
    /// assert_eq!(inside, Some(guard.held().owner()));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn owner(&self) -> OwnerId {
        self.0.id().owner()
    }

    /// The number to send to the resource that the lock protects with every write.
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
        self.0.token()
    }

    /// How many nested entries the hold has at this moment; 1 without any re-entry, and where only
    /// [spawned work](crate::FutureExt::in_current_call) keeps it.
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
        self.0.depth()
    }

    /// How long the lock is certain to be held if no renewal succeeds from now on; zero once it is
    /// lost or released.
    ///
    /// Renewals come every third of the TTL, so while the store answers this stays at two thirds of it
    /// or above, less the margin for clock drift (1 %, at least 5 ms).
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
        self.0.remaining()
    }

    /// Whether the lock was lost before it was released.
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
        self.0.lost().is_some()
    }

    /// Waits until the lock is lost. After a release it never resolves.
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
        self.0.until_lost().await
    }
}

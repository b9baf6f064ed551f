//! What a body can ask about a lock that it runs under.

use std::{sync::Arc, time::Duration};

use crate::{
    error::LostReason,
    hold::Hold,
    id::{FencingToken, HoldId, OwnerId},
};

/// A lock that is held, as the code under it sees it.
///
/// A view, not a guard: it keeps nothing alive. After the lock was released it goes on telling what
/// was, with a [`depth`](Self::depth) of 0.
#[derive(Clone, Debug)]
pub struct Held(Arc<Hold>);

impl Held {
    pub(crate) fn new(hold: &Arc<Hold>) -> Self {
        Self(Arc::clone(hold))
    }

    /// The key, without the prefix.
    #[must_use]
    pub fn key(&self) -> &str {
        self.0.key().name()
    }

    /// The hold's identity: the field under which it stands in the Redis hash.
    #[must_use]
    pub fn hold_id(&self) -> HoldId {
        self.0.id()
    }

    /// The call graph that holds the lock.
    #[must_use]
    pub fn owner(&self) -> OwnerId {
        self.0.id().owner()
    }

    /// The number to hand to the resource that the lock protects.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.0.token()
    }

    /// How many nested entries the hold has at this moment; 1 without any re-entry.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.0.depth()
    }

    /// How long the lock is certain to be held if no renewal succeeds from now on; zero once it is
    /// lost or released.
    ///
    /// Renewals come every third of the TTL, so while the store answers this stays at two thirds of it
    /// or above, less the margin for clock drift (1 %, at least 5 ms).
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// Whether the lock was lost before it was released.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.0.lost().is_some()
    }

    /// Waits until the lock is lost. After a release it never resolves.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn lost(&self) -> LostReason {
        self.0.until_lost().await
    }
}

//! One request that renews leases: of exclusive holds whose keys one script may name, or of the readers of one key. Each
//! hold has its own outcome. A single hold is handled as a list of length one.
//!
//! The schedule sends most of them. One that is sent at once verifies a hold after a lost connection.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::time::Instant;

use crate::base::error::{Failure, LockError, LostReason, StoreError};
use crate::base::events;
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::options::{Confirm, Mode};
use crate::base::timer::{Backoff, sleep};
use crate::hold::hold::Hold;
use crate::redis::failure::may_be_about_one_key;
use crate::store::{MAX_KEYS_PER_REQUEST, Renew, RenewReaders, RenewReply, Store};

/// The maximum number of readers in one request, because a script can name only a few thousand.
const MAX_READERS_PER_REQUEST: usize = 500;

/// The minimum time from an attempt without a response to the next one.
pub(super) const MIN_ATTEMPT_INTERVAL: Duration = Duration::from_millis(10);

/// An attempt that is sent now, and two more, fit into the remaining lease.
const ATTEMPTS_PER_LEASE: u32 = 3;

/// What holds must have in common to be renewed by one request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct BatchKey {
    ttl: Duration,
    pub(super) confirm: Option<Confirm>,
    keys: BatchKeys,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum BatchKeys {
    /// Those that one script may name.
    ScriptGroup(Option<u16>),
    /// The key of readers.
    Readers(LockKey),
    /// The hold that is renewed alone.
    Alone(HoldId),
}

impl BatchKey {
    pub(super) fn new(hold: &Hold, store: &Store) -> Self {
        Self {
            ttl: hold.ttl(),
            confirm: hold.confirm,
            keys: match hold.mode() {
                Mode::Shared => BatchKeys::Readers(hold.key().clone()),
                // The error of its key must not be that of others.
                Mode::Exclusive if hold.state.lock().is_renewed_alone => {
                    BatchKeys::Alone(hold.id())
                }
                Mode::Exclusive => BatchKeys::ScriptGroup(store.script_group(hold.key())),
            },
        }
    }
}

/// A request that renews these holds, and what was known before it was sent. All of them are at one server.
#[derive(Debug)]
pub(super) struct RenewRequest {
    pub(super) holds: Vec<Arc<Hold>>,
    pub(super) batch: BatchKey,
    pub(super) sent: Instant,
    pub(super) generation: u64,
    pub(super) key_generation: u64,
}

impl RenewRequest {
    /// A request for a hold, to which others are added.
    pub(super) fn new(hold: &Arc<Hold>, batch: BatchKey, store: &Store, now: Instant) -> Self {
        Self {
            holds: vec![Arc::clone(hold)],
            batch,
            sent: now,
            generation: store.generation(),
            key_generation: store.generation_of(hold.key()),
        }
    }

    pub(super) fn has_room(&self) -> bool {
        let max = match self.batch.keys {
            BatchKeys::Readers(_) => MAX_READERS_PER_REQUEST,
            BatchKeys::ScriptGroup(_) => MAX_KEYS_PER_REQUEST,
            // Locks that were acquired together have one id, and are separated as well.
            BatchKeys::Alone(_) => 1,
        };
        self.holds.len() < max
    }

    pub(super) async fn send(&self, store: &Store) -> Result<Vec<RenewReply>, StoreError> {
        let ttl = self.batch.ttl;
        // Exclusive holds share a script that has a reply for each of them.
        let BatchKeys::Readers(key) = &self.batch.keys else {
            let holds = self.holds.iter();
            let holds = holds.map(|hold| (hold.key().clone(), hold.id())).collect();
            return store.ask(Renew { holds, ttl }).await;
        };
        let holds = self.holds.iter().map(|hold| hold.id()).collect();
        let key = key.clone();
        // The script for the readers of a key names only those that are gone.
        let gone = store.ask(RenewReaders { key, holds, ttl }).await?;
        let reply = |hold: &Arc<Hold>| match gone.contains(&hold.id()) {
            true => RenewReply::Gone,
            false => RenewReply::Renewed,
        };
        Ok(self.holds.iter().map(reply).collect())
    }

    /// Resolves when none of the holds needs a response any more.
    pub(super) async fn await_settled(&self) {
        // One after the other is enough: what is settled stays so, and the request is of use to each of the others.
        for hold in &self.holds {
            hold.await_settled(self.sent).await;
        }
    }

    fn with_reply(
        &self,
        replies: &[RenewReply],
        with: RenewReply,
    ) -> impl Iterator<Item = &Arc<Hold>> {
        let each = self.holds.iter().zip(replies);
        each.filter_map(move |(hold, reply)| (*reply == with).then_some(hold))
    }

    pub(super) fn renewed(&self, replies: &[RenewReply]) -> impl Iterator<Item = &Arc<Hold>> {
        self.with_reply(replies, RenewReply::Renewed)
    }

    /// Confirms the lease of a hold that was renewed.
    pub(super) fn confirm(&self, hold: &Hold) {
        hold.confirm(self.sent, self.batch.ttl, self.generation);
    }

    /// Marks the holds that are gone as lost, and returns them. For a hold that has ended, this is no loss.
    pub(super) fn lose(&self, replies: &[RenewReply]) -> Vec<&Arc<Hold>> {
        let gone = self.with_reply(replies, RenewReply::Gone);
        // The release of a hold that ends may overtake its renewal.
        let gone: Vec<_> = gone.filter(|hold| hold.depth() > 0).collect();
        for hold in &gone {
            events::renewal_rejected(hold.key());
            hold.lose(LostReason::Deleted);
        }
        gone
    }

    /// Separates the holds about which nothing is known: each is renewed alone, until it is renewed.
    pub(super) fn separate_failed(&self, replies: &[RenewReply]) {
        for hold in self.with_reply(replies, RenewReply::Failed) {
            // For this hold the attempt has failed, so the next one is not sent in addition to it.
            hold.fail_attempt(self.sent);
            hold.state.lock().is_renewed_alone = true;
        }
    }

    /// Separates the holds of a common request after an error that one key may have caused. Returns false if there was
    /// no common request.
    pub(super) fn separate(&self, error: &StoreError) -> bool {
        // Only here can the error of one key keep others from being renewed. Readers have one key.
        let is_common =
            matches!(self.batch.keys, BatchKeys::ScriptGroup(_)) && self.holds.len() > 1;
        let separates = is_common && may_be_about_one_key(error);
        if separates {
            for hold in &self.holds {
                hold.state.lock().is_renewed_alone = true;
            }
        }
        separates
    }
}

/// The time of the next attempt if one that is sent at this instant has no response by then.
pub(super) fn next_attempt(
    holds: &[Arc<Hold>],
    sent: Instant,
    response_timeout: Duration,
) -> Instant {
    let deadlines = holds.iter().map(|hold| hold.deadline());
    // All of them share the response, so the first to expire decides.
    let deadline = deadlines.min().unwrap_or(sent);
    let left = deadline.saturating_duration_since(sent);
    let timeout = response_timeout.min(left / ATTEMPTS_PER_LEASE);
    // Never after the deadline, at which the loss is found.
    deadline.min(sent + timeout.max(MIN_ATTEMPT_INTERVAL))
}

/// Renews one hold by a request that is sent now. Returns the request; `None` if the hold is gone, which is a loss.
pub(super) async fn renew_now(
    hold: &Arc<Hold>,
    store: &Store,
) -> Result<Option<RenewRequest>, StoreError> {
    let batch = BatchKey::new(hold, store);
    let request = RenewRequest::new(hold, batch, store, Instant::now());
    let replies = request.send(store).await?;
    request.lose(&replies);
    Ok(replies.contains(&RenewReply::Renewed).then_some(request))
}

/// Returns whether a connection was lost since the hold was last confirmed. A hold that replicas must confirm never
/// needs a verification, because the confirmation renews it if necessary.
pub(crate) fn needs_verification(hold: &Hold, store: &Store) -> bool {
    hold.confirm.is_none() && hold.state.lock().lease.generation() != store.generation()
}

/// Renews the holds that need it, until none does, before the body of several locks begins.
///
/// A caller may have some of its locks and wait for the next one. It may get that lock from a server that does not know
/// the first ones, because they were lost with the server before it. Each hold is verified after a lost connection, but
/// its body must not begin while a new holder is inside.
///
/// Fails if one of them is gone, and with the last error of the store after the limit.
pub(crate) async fn verify_all(
    holds: &[Arc<Hold>],
    store: &Store,
    limit: Option<Instant>,
) -> Result<(), LockError> {
    loop {
        // Again after each round, because a connection may be lost while the others are verified.
        let behind = holds.iter().filter(|hold| needs_verification(hold, store));
        let verifying: Vec<_> = behind.map(|hold| verify(hold, store, limit)).collect();
        if verifying.is_empty() {
            return Ok(());
        }
        // If one of them fails, the others are dropped. What they have sent can only lengthen a lease.
        try_join_all(verifying).await?;
    }
}

async fn verify(hold: &Arc<Hold>, store: &Store, limit: Option<Instant>) -> Result<(), LockError> {
    let mut backoff = Backoff::default();
    loop {
        match renew_now(hold, store).await {
            Ok(Some(request)) => {
                request.confirm(hold);
                return Ok(());
            }
            Ok(None) => return Err(hold.lost_error(LostReason::Deleted)),
            // Without a limit it is tried until the leases end, which the caller watches.
            Err(error) if limit.is_some_and(|limit| limit <= Instant::now()) => {
                return Err(Failure::Store(error).on(hold.key().name()));
            }
            Err(_) => sleep(backoff.next_pause()).await,
        }
    }
}

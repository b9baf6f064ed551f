//! The state that the clones of one `Locks` share, and the steps from a request to an entry.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::Either;
use smallvec::SmallVec;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::base::error::LockError;
use crate::base::key::LockKey;
use crate::base::metrics::Classifier;
use crate::base::options::{LockOptions, Mode, Retry};
use crate::base::span::AcquisitionSpan;
use crate::base::timer::timeout;
use crate::hold::core::Core;
use crate::hold::entry::Entry;
use crate::hold::hold::{EntryKind, Hold, Holds};
use crate::hold::scope;
use crate::store::OuterHold;

mod acquisition;
#[cfg(test)]
mod tests;

/// The state that the clones of one `Locks` share.
pub(crate) struct Engine {
    pub(crate) core: Arc<Core>,
    pub(super) prefix: String,
    /// The options with which a request begins.
    pub(super) defaults: LockOptions,
    /// The holds that enclose the whole process.
    pub(super) outer_holds: Vec<OuterHold>,
    pub(super) class: Classifier,
}

/// The keys of one acquisition. In most cases there is one.
type LockKeys = SmallVec<[LockKey; 1]>;

/// The keys of a request, or the error of one that is invalid, which the caller gets when it awaits the request.
pub(super) type RequestKeys = Result<LockKeys, LockError>;

impl Engine {
    /// Enters once, or makes single attempts until one succeeds.
    pub(super) fn enter(
        self: Arc<Self>,
        keys: RequestKeys,
        terms: LockOptions,
    ) -> impl Future<Output = Result<Entry, LockError>> {
        match terms.retry {
            None => Either::Left(self.enter_once(keys, terms)),
            // Boxed, because retries are rare, and would make every request larger.
            Some(retry) => Either::Right(Box::pin(self.enter_with_retries(keys, terms, retry))),
        }
    }

    async fn enter_with_retries(
        self: Arc<Self>,
        keys: RequestKeys,
        mut terms: LockOptions,
        Retry { attempts, interval }: Retry,
    ) -> Result<Entry, LockError> {
        // Between two attempts the caller has no place in a queue.
        terms.wait = Duration::ZERO;
        let attempt = || Arc::clone(&self).enter_once(keys.clone(), terms);
        // The last attempt is below, because no pause follows it.
        for _ in 1..attempts {
            match attempt().await {
                Err(LockError::Busy { .. }) => {
                    // The next attempt finds that the `Locks` is closed.
                    let closed = self.core.queues.in_flight.wait_until_closed();
                    let _ = timeout(interval, closed).await;
                }
                entered => return entered,
            }
        }
        attempt().await
    }

    /// Re-enters the locks that enclosing calls hold, and acquires the others: all of them, or none.
    #[expect(
        clippy::manual_async_fn,
        reason = "an async function stores its arguments twice, and each acquire allocates the memory"
    )]
    fn enter_once(
        self: Arc<Self>,
        keys: RequestKeys,
        mut terms: LockOptions,
    ) -> impl Future<Output = Result<Entry, LockError>> {
        async move {
            // The request is checked, so that a mistake is found before anything is entered or sent.
            let mut keys = keys?;
            terms = terms.resolve()?;
            let runtime = Handle::try_current()
                .map_err(|_| LockError::config("await a lock inside a tokio runtime"))?;

            // What enclosing calls hold is entered once more. This waits for nothing: the depths are sent, and not
            // answered. If this future is dropped from here on, the entry leaves what it has entered (P7).
            let mut entry = Entry::new(&self.core, EntryKind::Call);
            self.reenter(&mut entry, &mut keys, &terms)?;
            entry.send_depths()?;
            // A request that only re-enters has no wait, and so no span and no outcome.
            if keys.is_empty() {
                return Ok(entry);
            }

            // The other locks are acquired in their order, inside a span.
            if !terms.waits() {
                // A caller that does not wait need not keep the order. The keys that are probably not free come first.
                // Each is asked once, because an order that changes under a sort makes it panic.
                keys.sort_by_cached_key(|key| self.core.queues.is_vacant(key));
            }
            // Locks that were acquired together have one id, so none of them continues the hold of another caller.
            terms.may_inherit &= keys.len() == 1;
            // A wait counts from here, also for the last of several keys.
            let since = Instant::now();
            let mut acquisition = AcquisitionSpan::begin(&keys, terms.mode, since);
            // Made where it is awaited, because a future that is moved takes its place twice.
            let acquired = if acquisition.span().is_open() {
                let acquiring = self.acquire(&mut entry, &keys, &terms, &runtime, since);
                Box::pin(acquisition.span().around(acquiring)).await
            } else {
                self.acquire(&mut entry, &keys, &terms, &runtime, since)
                    .await
            };

            // What a failed acquisition has begun is left in the background, unless the caller could meet it again at
            // once.
            if let Err(error) = acquisition.note_error(acquired) {
                let is_unconfirmed = terms.confirm.is_some() && error.is_unavailable();
                if is_unconfirmed || error.is_misuse() {
                    // The result of the release does not matter, because the release is repeated in the background.
                    let _ = Box::pin(entry.exit()).await;
                }
                return Err(error);
            }
            acquisition.succeed();
            entry.open_span(&keys, terms.mode);
            Ok(entry)
        }
    }

    fn key(&self, name: &str) -> Result<LockKey, LockError> {
        let mut key = LockKey::new(&self.prefix, name)?;
        key.set_class(self.class.class(name));
        Ok(key)
    }

    /// Returns the key for a query about a lock, or an error if the `Locks` is closed.
    pub(super) fn open_key(&self, name: &str) -> Result<LockKey, LockError> {
        let key = self.key(name)?;
        self.check_open()?;
        Ok(key)
    }

    fn check_open(&self) -> Result<(), LockError> {
        match self.core.queues.in_flight.is_closed() {
            true => Err(LockError::Closed),
            false => Ok(()),
        }
    }

    /// Returns the keys of these names, each once, in the order in which they are acquired.
    pub(super) fn keys<K: AsRef<str>>(&self, names: impl IntoIterator<Item = K>) -> RequestKeys {
        let mut keys = LockKeys::new();
        for name in names {
            keys.push(self.key(name.as_ref())?);
        }
        if keys.is_empty() {
            return Err(LockError::config(
                "the request has no keys: name at least one",
            ));
        }
        if keys.len() > 1 {
            // One order in every process, so that callers of several keys do not wait for each other.
            keys.sort_by(|one, other| one.order().cmp(&other.order()));
            keys.dedup();
        }
        Ok(keys)
    }

    /// Re-enters the locks that enclosing calls hold, and keeps the other keys.
    #[inline]
    fn reenter(
        &self,
        entry: &mut Entry,
        keys: &mut LockKeys,
        terms: &LockOptions,
    ) -> Result<(), LockError> {
        // Permits are not re-entered: each request takes one more.
        if terms.permits.is_some() {
            return Ok(());
        }
        let mut held = Holds::new();
        for key in &*keys {
            held.extend(scope::enclosing_hold(&self.core, key));
        }
        if held.is_empty() {
            return Ok(());
        }
        // Checked before any lock is entered, because otherwise the locks entered so far would have to be left.
        let shares = |hold: &&Arc<Hold>| hold.mode() == Mode::Shared;
        if terms.mode == Mode::Exclusive
            && let Some(reader) = held.iter().find(shares)
        {
            return Err(LockError::upgrade(reader.key().name()));
        }
        for hold in &held {
            entry.reenter(hold, terms.own_ttl);
        }
        // A hold that has ended meanwhile was not entered. Its key is kept, and acquired anew.
        let is_entered = |key: &LockKey| entry.holds().iter().any(|hold| hold.key() == key);
        keys.retain(|key| !is_entered(key));
        Ok(())
    }

    /// Fails if an enclosing call holds one of these locks. A leader that re-entered its lock could not acquire it anew.
    pub(super) fn check_can_lead(&self, keys: &[LockKey]) -> Result<(), LockError> {
        let is_held = |key: &&LockKey| scope::enclosing_hold(&self.core, key).is_some();
        match keys.iter().find(is_held) {
            Some(key) => {
                let name = key.name();
                let what = format!("an enclosing call holds `{name}`, so no other caller can lead");
                Err(LockError::misuse(name, what))
            }
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("store", &self.core.store)
            .field("prefix", &self.prefix)
            .field("defaults", &self.defaults)
            .finish_non_exhaustive()
    }
}

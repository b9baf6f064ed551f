//! The steps from a request to an entry.

use std::sync::Arc;

use futures_util::future::Either;
use smallvec::SmallVec;
use tokio::time::Instant;

use super::acquiring::AcquiringAll;
use super::{Engine, present_runtime};
use crate::base::error::LockError;
use crate::base::key::{Keys, LockKey};
use crate::base::options::{LockOptions, Mode, Retry, WaitLimit};
use crate::base::span::AcquisitionSpan;
use crate::base::timer::timeout;
use crate::hold::depth::EntryKind;
use crate::hold::entry::Entry;
use crate::hold::hold::{Hold, Holds};
use crate::hold::scope;

/// The keys of one acquisition. In most cases there is one.
type LockKeys = SmallVec<[LockKey; 1]>;

impl Engine {
    /// Enters once, or makes single attempts until one succeeds.
    pub(crate) fn enter(
        self: Arc<Self>,
        keys: Keys,
        terms: LockOptions,
    ) -> impl Future<Output = Result<Entry, LockError>> {
        match terms.retry {
            None => Either::Left(self.enter_once(keys, terms)),
            Some(retry) => Either::Right(Box::pin(self.retry(keys, terms, retry))),
        }
    }

    async fn retry(
        self: Arc<Self>,
        keys: Keys,
        mut terms: LockOptions,
        Retry { attempts, interval }: Retry,
    ) -> Result<Entry, LockError> {
        terms.wait = WaitLimit::Never;
        let attempt = || Arc::clone(&self).enter_once(keys.clone(), terms);
        for _ in 1..attempts {
            match attempt().await {
                Err(LockError::Busy { .. }) => {
                    // The next attempt finds that the `Locks` is closed.
                    let closed = self.renewals.queues().in_flight().until_closed();
                    let _ = timeout(interval, closed).await;
                }
                entered => return entered,
            }
        }
        attempt().await
    }

    /// Re-enters the locks that enclosing calls hold, and acquires the others: all of them, or none.
    async fn enter_once(
        self: Arc<Self>,
        keys: Keys,
        terms: LockOptions,
    ) -> Result<Entry, LockError> {
        let mut keys = self.keys(&keys)?;
        let terms = terms.resolve()?;
        let runtime = present_runtime()?;
        let mut entry = Entry::new(&self.renewals, EntryKind::Call);
        self.reenter(&mut entry, &mut keys, &terms)?;
        entry.reentered()?;
        if keys.is_empty() {
            return Ok(entry);
        }
        if terms.wait == WaitLimit::Never {
            self.put_vacant_last(&mut keys);
        }
        let since = Instant::now();
        let mut acquisition = AcquisitionSpan::begin(&keys, terms.mode, since);
        let mut acquiring = AcquiringAll::new(&self, entry, terms, runtime, since, keys.len());
        let acquired = if acquisition.span().is_open() {
            // Boxed, because a future that is moved into another future is copied.
            Box::pin(acquisition.span().around(acquiring.acquire(&keys))).await
        } else {
            acquiring.acquire(&keys).await
        };
        let entry = acquiring.entry;
        if let Err(error) = acquisition.noted(acquired) {
            let is_unconfirmed = terms.confirm.is_some() && error.is_unavailable();
            if is_unconfirmed || error.is_misuse() {
                // The result of the release does not matter, because the release is repeated in the background.
                let _ = Box::pin(entry.exit()).await;
            }
            return Err(error);
        }
        acquisition.succeed();
        entry.trace(&keys, terms.mode);
        Ok(entry)
    }

    /// Fails if an enclosing call holds one of these locks. A leader that re-entered its lock could not acquire it anew.
    pub(in crate::api) fn check_leads(&self, names: &[String]) -> Result<(), LockError> {
        for name in names {
            if scope::enclosing(&self.id, &self.key(name)?).is_some() {
                let what = format!("an enclosing call holds `{name}`, so no other caller can lead");
                return Err(LockError::misuse(name, what));
            }
        }
        Ok(())
    }

    /// Returns the keys of these names, each once, in the order in which they are acquired.
    #[inline]
    fn keys(&self, names: &[String]) -> Result<LockKeys, LockError> {
        let mut keys = LockKeys::new();
        for name in names {
            keys.push(self.key(name)?);
        }
        if keys.is_empty() {
            return Err(LockError::config(
                "the request has no keys: name at least one",
            ));
        }
        if keys.len() > 1 {
            keys.sort_by(|one, other| one.order().cmp(&other.order()));
            keys.dedup();
        }
        Ok(keys)
    }

    /// Puts the keys first that are probably not free. A caller that does not wait need not keep the order.
    fn put_vacant_last(&self, keys: &mut LockKeys) {
        keys.sort_by_key(|key| self.renewals.queues().is_vacant(key));
    }

    /// Re-enters the locks that enclosing calls hold, and returns the other keys.
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
            if let Some(hold) = scope::enclosing(&self.id, key) {
                held.push(hold);
            }
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
        let is_entered = |key: &LockKey| entry.holds().iter().any(|hold| hold.key() == key);
        keys.retain(|key| !is_entered(key));
        Ok(())
    }
}

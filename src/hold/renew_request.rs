//! One request that renews leases: of exclusive holds whose keys one script may name, or of the readers of one key. Each
//! hold has its own outcome. A single hold is handled as a list of length one.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::base::error::{LostReason, StoreError};
use crate::base::events;
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::options::Mode;
use crate::hold::hold::Hold;
use crate::hold::hold::renewing::RenewalTerms;
use crate::store::{Keep, MOST_TOGETHER, Renew, RenewAnswer, Store};

/// The maximum number of readers in one request, because a script can name only a few thousand.
const MAX_READERS: usize = 500;

/// The minimum time from an attempt without a response to the next one.
pub(super) const MIN_PATIENCE: Duration = Duration::from_millis(10);

/// What holds must have in common to be renewed by one request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Common {
    pub(super) terms: RenewalTerms,
    keys: Keys,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Keys {
    /// Those that one script may name.
    Span(Option<u16>),
    /// The key of readers.
    Of(LockKey),
    /// The hold that is renewed alone.
    Alone(HoldId),
}

impl Common {
    pub(super) fn of(hold: &Hold, store: &Store) -> Self {
        let keys = match hold.mode() {
            Mode::Shared => Keys::Of(hold.key().clone()),
            Mode::Exclusive if hold.state.lock().is_renewed_alone => Keys::Alone(hold.id()),
            Mode::Exclusive => Keys::Span(store.span(hold.key())),
        };
        let terms = hold.renewal_terms();
        Self { terms, keys }
    }
}

/// A request that renews these holds, and what was known before it was sent. All of them are at one server.
#[derive(Debug)]
pub(super) struct RenewRequest {
    pub(super) holds: Vec<Arc<Hold>>,
    pub(super) common: Common,
    pub(super) sent: Instant,
    generation: u64,
    /// The epoch of the connection.
    pub(super) epoch: u64,
}

impl RenewRequest {
    /// A request for a hold, to which others are added.
    pub(super) fn new(hold: &Arc<Hold>, common: Common, store: &Store, now: Instant) -> Self {
        Self {
            holds: vec![Arc::clone(hold)],
            common,
            sent: now,
            generation: store.generation(),
            epoch: store.generation_of(hold.key()),
        }
    }

    /// A request for one hold that is sent now.
    pub(super) fn of(hold: &Arc<Hold>, store: &Store) -> Self {
        let now = Instant::now();
        Self::new(hold, Common::of(hold, store), store, now)
    }

    pub(super) fn has_room(&self) -> bool {
        let max = match self.common.keys {
            Keys::Of(_) => MAX_READERS,
            Keys::Span(_) | Keys::Alone(_) => MOST_TOGETHER,
        };
        self.holds.len() < max
    }

    /// Returns whether a connection was lost since.
    pub(super) fn is_cut(&self, store: &Store) -> bool {
        store.generation() != self.generation
    }

    pub(super) async fn send(&self, store: &Store) -> Result<Vec<RenewAnswer>, StoreError> {
        let ttl = self.common.terms.ttl;
        let Keys::Of(key) = &self.common.keys else {
            let holds = self.holds.iter();
            let holds = holds.map(|hold| (hold.key().clone(), hold.id())).collect();
            return store.ask(Renew { holds, ttl }).await;
        };
        let holds = self.holds.iter().map(|hold| hold.id()).collect();
        let key = key.clone();
        let gone = store.ask(Keep { key, holds, ttl }).await?;
        let answer = |hold: &Arc<Hold>| match gone.contains(&hold.id()) {
            true => RenewAnswer::Gone,
            false => RenewAnswer::Renewed,
        };
        Ok(self.holds.iter().map(answer).collect())
    }

    /// Resolves when none of the holds needs a response any more.
    pub(super) async fn until_settled(&self) {
        for hold in &self.holds {
            hold.until_settled(self.sent).await;
        }
    }

    /// The holds for which this is the outcome.
    fn those(&self, answers: &[RenewAnswer], is: RenewAnswer) -> impl Iterator<Item = &Arc<Hold>> {
        let each = self.holds.iter().zip(answers);
        each.filter_map(move |(hold, answer)| (*answer == is).then_some(hold))
    }

    pub(super) fn renewed(&self, answers: &[RenewAnswer]) -> impl Iterator<Item = &Arc<Hold>> {
        self.those(answers, RenewAnswer::Renewed)
    }

    /// Confirms the lease of a hold that was renewed.
    pub(super) fn confirm(&self, hold: &Hold) {
        hold.confirm(self.sent, self.common.terms.ttl, self.generation);
    }

    /// Marks the holds that are gone as lost, and returns them. For a hold that has ended, this is no loss.
    pub(super) fn lose(&self, answers: &[RenewAnswer]) -> Vec<&Arc<Hold>> {
        let gone = self.those(answers, RenewAnswer::Gone);
        let gone: Vec<_> = gone.filter(|hold| hold.depth() > 0).collect();
        for hold in &gone {
            events::renewal_rejected(hold.key());
            hold.lose(LostReason::Deleted);
        }
        gone
    }

    /// Separates the holds about which nothing is known: each is renewed alone, until it is renewed.
    pub(super) fn separate_failed(&self, answers: &[RenewAnswer]) {
        for hold in self.those(answers, RenewAnswer::Failed) {
            hold.fail_attempt(self.sent);
            hold.state.lock().is_renewed_alone = true;
        }
    }

    /// Separates the holds of a common request after an error that one key may have caused. Returns false if there was
    /// no common request.
    pub(super) fn separate(&self, error: &StoreError) -> bool {
        let is_common = matches!(self.common.keys, Keys::Span(_)) && self.holds.len() > 1;
        let separates = is_common && Store::may_concern_one_key(error);
        if separates {
            for hold in &self.holds {
                hold.state.lock().is_renewed_alone = true;
            }
        }
        separates
    }
}

/// The time of the next attempt if one that is sent at this instant has no response by then. Two more fit into the
/// remaining lease.
pub(super) fn next_attempt(
    holds: &[Arc<Hold>],
    sent: Instant,
    response_timeout: Duration,
) -> Instant {
    let deadlines = holds.iter().map(|hold| hold.deadline());
    let deadline = deadlines.min().unwrap_or(sent);
    let left = deadline.saturating_duration_since(sent);
    let patience = response_timeout.min(left / 3).max(MIN_PATIENCE);
    deadline.min(sent + patience)
}

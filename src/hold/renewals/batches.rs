//! The independent holds that share one request: they have the same terms, and one script may name their keys.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, OccupiedEntry};
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use tokio::time::Instant;

use crate::hold::hold::Hold;
use crate::hold::hold::renewing::RenewalTerms;
use crate::hold::renewable::Renewable;
use crate::hold::schedule::Schedule;
use crate::store::{MOST_TOGETHER, Store};

/// The part of its TTL by which a hold is renewed early at most, to fill a request. It is a sixteenth of the time
/// between two renewals.
const EARLY: u32 = 48;

/// After this number of successive holds that fit into no request, no further holds are tried.
const MISSES: usize = 8;

/// The holds that are renewed together now.
pub(super) struct Batch {
    pub(super) holds: Renewable,
    /// The backlog that counts its request.
    pub(super) backlog: usize,
    /// The time from this renewal to the next one, if that is shorter than usual.
    pub(super) next_within: Option<Duration>,
}

/// The terms that the holds of a batch have in common.
type Common = (RenewalTerms, Option<u16>);

/// A batch that has room for another hold.
type OpenBatch<'a> = OccupiedEntry<'a, Common, usize>;

/// The batches that have room for another hold, with their indices.
#[derive(Debug, Default)]
pub(super) struct OpenBatches {
    of: HashMap<Common, usize, RandomState>,
}

impl OpenBatches {
    pub(super) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Begins a batch with this hold. The index is that of the batch.
    pub(super) fn begin(&mut self, hold: &Hold, store: &Store, index: usize) {
        if let Some(terms) = hold.renewal_terms() {
            self.of.insert((terms, store.span(hold.key())), index);
        }
    }

    /// Adds a hold to its batch. Returns the hold if there is no such batch.
    pub(super) fn add(
        &mut self,
        hold: Arc<Hold>,
        store: &Store,
        batches: &mut [Batch],
    ) -> Result<(), Arc<Hold>> {
        match self.batch_of(&hold, store) {
            Some((_, batch)) => {
                push(batch, hold, batches);
                Ok(())
            }
            None => Err(hold),
        }
    }

    /// Fills the batches with holds that would be due soon. So holds that are spread over a period share requests as
    /// well, and are due together from then on.
    pub(super) fn fill(
        mut self,
        schedule: &mut Schedule<Arc<Hold>>,
        store: &Store,
        now: Instant,
        batches: &mut [Batch],
    ) {
        let ttls = self.of.keys().map(|(terms, _)| terms.ttl);
        let Some(longest) = ttls.max() else {
            return;
        };
        let mut misses = 0;
        let mut soon = Vec::new();
        for (due, hold) in schedule.due_by(now + longest / EARLY) {
            if self.is_empty() || misses > MISSES {
                break;
            }
            let batch = self.batch_of(hold, store).filter(|(terms, _)| {
                let horizon = now + terms.ttl / EARLY;
                let disconnects = store.disconnects_of(hold.key());
                due <= horizon && hold.may_be_renewed(disconnects, horizon)
            });
            match batch {
                Some((_, batch)) => {
                    push(batch, Arc::clone(hold), batches);
                    soon.extend(hold.seat());
                    misses = 0;
                }
                None => misses += 1,
            }
        }
        for (slot, _) in soon {
            schedule.suspend(slot);
        }
    }

    fn batch_of(&mut self, hold: &Hold, store: &Store) -> Option<(RenewalTerms, OpenBatch<'_>)> {
        let terms = hold.renewal_terms()?;
        match self.of.entry((terms, store.span(hold.key()))) {
            Entry::Occupied(batch) => Some((terms, batch)),
            Entry::Vacant(_) => None,
        }
    }
}

/// Adds a hold to a batch. The batch is no longer open if it is full then.
fn push(open: OpenBatch<'_>, hold: Arc<Hold>, batches: &mut [Batch]) {
    let Some(batch) = batches.get_mut(*open.get()) else {
        return;
    };
    batch.holds.0.push(hold);
    if batch.holds.0.len() >= MOST_TOGETHER {
        open.remove();
    }
}

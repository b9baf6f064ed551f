//! The published waits in memory.

use std::collections::BTreeMap;

use crate::base::id::{HoldId, OwnerId};
use crate::base::time::StoreTime;
use crate::store::records::ListedWait;

/// The waits of all owners, and the victims of cycles.
#[derive(Debug, Default)]
pub(crate) struct PublishedWaits {
    of: BTreeMap<OwnerId, BTreeMap<HoldId, ListedWait>>,
    /// The victims by the least wait of the cycle, each with the end of its claim.
    victims: BTreeMap<HoldId, BTreeMap<HoldId, StoreTime>>,
}

impl PublishedWaits {
    /// Forgets what has expired.
    pub(super) fn sweep(&mut self, now: StoreTime) {
        self.of.retain(|_, waits| {
            waits.retain(|_, seen| now < seen.stamp.after(seen.life));
            !waits.is_empty()
        });
        self.victims.retain(|_, victims| {
            victims.retain(|_, end| now < *end);
            !victims.is_empty()
        });
    }

    pub(crate) fn publish(&mut self, owner: OwnerId, seen: ListedWait) {
        self.of.entry(owner).or_default().insert(seen.wait.id, seen);
    }

    /// The waits that a hold encloses.
    pub(crate) fn live(&self, hold: HoldId, now: StoreTime) -> Vec<ListedWait> {
        let waits = self.of.get(&hold.owner()).into_iter();
        let live = waits.flat_map(BTreeMap::values).filter(|seen| {
            let is_alive = now < seen.stamp.after(seen.life);
            is_alive && seen.wait.enclosed_by(hold).is_some()
        });
        live.cloned().collect()
    }

    /// Makes a wait the victim of the cycle with this least wait until `until`, unless one of the others is the victim.
    pub(crate) fn claim(
        &mut self,
        least: HoldId,
        victim: HoldId,
        others: &[HoldId],
        now: StoreTime,
        until: StoreTime,
    ) -> bool {
        let victims = self.victims.entry(least).or_default();
        let is_victim = |wait: &HoldId| victims.get(wait).is_some_and(|end| now < *end);
        if is_victim(&victim) {
            return true;
        }
        if others.iter().any(is_victim) {
            return false;
        }
        victims.insert(victim, until);
        true
    }

    pub(crate) fn withdraw(&mut self, owner: OwnerId, wait: HoldId) {
        if let Some(waits) = self.of.get_mut(&owner) {
            waits.remove(&wait);
            if waits.is_empty() {
                self.of.remove(&owner);
            }
        }
    }
}

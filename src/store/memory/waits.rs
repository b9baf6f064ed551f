//! Published waits in memory.

use std::collections::BTreeMap;

use crate::{
    base::id::{HoldId, OwnerId},
    store::{
        StoreTime,
        waits::{Claim, EnclosedWait, Look, Publication, Published, SeenWait, lateness},
    },
};

/// The waits of all owners, and the victims of cycles.
#[derive(Debug, Default)]
pub(super) struct PublishedWaits {
    of: BTreeMap<OwnerId, BTreeMap<HoldId, SeenWait>>,
    /// By the least wait of the cycle, and each with its end.
    victims: BTreeMap<HoldId, BTreeMap<HoldId, StoreTime>>,
}

impl PublishedWaits {
    /// Forgets what has ended.
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

    pub(super) fn publish(&mut self, publication: Publication, now: StoreTime) -> Published {
        let Publication {
            owner,
            wait,
            life,
            known,
        } = publication;
        let passed = known.and_then(|known| now.since(known));
        if passed.is_none_or(|passed| passed > lateness(life)) {
            return Published::Refused(now);
        }
        let seen = SeenWait {
            wait: EnclosedWait::clone(&wait),
            stamp: now,
            life,
        };
        self.of.entry(owner).or_default().insert(wait.id, seen);
        Published::Made(now)
    }

    pub(super) fn look(&self, hold: HoldId, now: StoreTime) -> Look {
        let waits = self.of.get(&hold.owner()).into_iter();
        let live = waits.flat_map(BTreeMap::values).filter(|seen| {
            let is_alive = now < seen.stamp.after(seen.life);
            is_alive && seen.wait.enclosed_by(hold).is_some()
        });
        Look {
            at: now,
            waits: live.cloned().collect(),
        }
    }

    pub(super) fn claim(&mut self, claim: &Claim, now: StoreTime) -> bool {
        let victims = self.victims.entry(claim.least()).or_default();
        let is_victim = |wait: &HoldId| victims.get(wait).is_some_and(|end| now < *end);
        if is_victim(&claim.victim) {
            return true;
        }
        if claim.others.iter().any(is_victim) {
            return false;
        }
        victims.insert(claim.victim, now.after(claim.life));
        true
    }

    pub(super) fn withdraw(&mut self, owner: OwnerId, wait: HoldId) {
        if let Some(waits) = self.of.get_mut(&owner) {
            waits.remove(&wait);
            if waits.is_empty() {
                self.of.remove(&owner);
            }
        }
    }
}

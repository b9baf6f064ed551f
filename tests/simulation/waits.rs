//! Published waits, over the same bad link as everything else.

use super::link::Link;
use crate::{
    base::id::{HoldId, OwnerId},
    store::{
        Answer,
        waits::{Claim, Look, Publication, Published, Waits},
    },
};

impl Waits for Link {
    fn publish_wait(&self, publication: Publication) -> Answer<Published> {
        self.request("wait", move |store| store.publish_wait(publication.clone()))
    }

    fn waits_of(&self, hold: HoldId) -> Answer<Look> {
        self.request("look", move |store| store.waits_of(hold))
    }

    fn holds_in(&self, key: &str) -> Answer<Vec<HoldId>> {
        let key = key.to_owned();
        self.request("holds", move |store| store.holds_in(&key))
    }

    fn claim_victim(&self, claim: Claim) -> Answer<bool> {
        self.request("victim", move |store| store.claim_victim(claim.clone()))
    }

    fn withdraw_wait(&self, owner: OwnerId, wait: HoldId) -> Answer<()> {
        self.request("withdraw", move |store| store.withdraw_wait(owner, wait))
    }
}

//! Requests about several locks, or several readers.

use std::{sync::Arc, time::Duration};

use super::Link;
use crate::{
    base::{id::HoldId, key::LockKey},
    store::{
        AcquireAllReply, AcquireReply, Answer, Downgrading, HoldOf, Keeping, Presence,
        ShareRequest, Store,
    },
};

impl Link {
    pub(super) fn share_lock(
        &self,
        key: &LockKey,
        request: ShareRequest,
    ) -> Answer<Vec<AcquireReply>> {
        let (key, ledger) = (key.clone(), Arc::clone(&self.0.wire.ledger));
        self.request("share", move |store| {
            ledger.reads(key.as_str(), &request.holds);
            let answer = store.share(&key, request.clone());
            let (key, ledger, holds) = (key.clone(), Arc::clone(&ledger), request.holds.clone());
            Box::pin(async move {
                let replies = answer.await?;
                for (hold, reply) in holds.into_iter().zip(&replies) {
                    if let AcquireReply::Held { token, lease, .. } = *reply {
                        ledger.given(key.as_str(), hold, token, lease);
                    }
                }
                Ok(replies)
            })
        })
    }

    pub(super) fn keep_readers(&self, key: &LockKey, keeping: Keeping) -> Answer<Vec<HoldId>> {
        let key = key.clone();
        self.request("keep", move |store| store.keep(&key, keeping.clone()))
    }

    pub(super) fn downgrade_hold(
        &self,
        key: &LockKey,
        downgrading: Downgrading,
    ) -> Answer<Presence> {
        let (key, ledger) = (key.clone(), Arc::clone(&self.0.wire.ledger));
        self.request("downgrade", move |store| {
            let answer = store.downgrade(&key, downgrading);
            let (key, ledger) = (key.clone(), Arc::clone(&ledger));
            Box::pin(async move {
                let presence = answer.await?;
                if presence == Presence::Present {
                    ledger.downgraded(key.as_str(), downgrading.hold);
                }
                Ok(presence)
            })
        })
    }

    pub(super) fn take_several(
        &self,
        keys: &[LockKey],
        hold: HoldId,
        ttl: Duration,
    ) -> Answer<AcquireAllReply> {
        let (keys, ledger) = (keys.to_vec(), Arc::clone(&self.0.wire.ledger));
        self.request("acquire_all", move |store| {
            let answer = store.acquire_all(&keys, hold, ttl);
            let (keys, ledger) = (keys.clone(), Arc::clone(&ledger));
            Box::pin(async move {
                let acquired = answer.await?;
                if let AcquireAllReply::Held { locks, .. } = &acquired {
                    for (key, &(token, lease)) in keys.iter().zip(locks) {
                        ledger.given(key.as_str(), hold, token, lease);
                    }
                }
                Ok(acquired)
            })
        })
    }

    pub(super) fn renew_several(&self, holds: &[HoldOf], ttl: Duration) -> Answer<Option<usize>> {
        let holds = holds.to_vec();
        self.request("renew_all", move |store| store.renew_all(&holds, ttl))
    }

    pub(super) fn end_several(&self, holds: &[HoldOf]) -> Answer<Vec<bool>> {
        let (holds, ledger) = (holds.to_vec(), Arc::clone(&self.0.wire.ledger));
        self.request("release_all", move |store| {
            let answer = store.release_all(&holds);
            let (holds, ledger) = (holds.clone(), Arc::clone(&ledger));
            Box::pin(async move {
                let released = answer.await?;
                let ended = holds
                    .iter()
                    .zip(&released)
                    .filter(|(_, released)| **released);
                for ((key, hold), _) in ended {
                    ledger.released(key.as_str(), *hold);
                }
                Ok(released)
            })
        })
    }
}

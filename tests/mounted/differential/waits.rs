//! The requests about published waits, and how their replies are compared.

use std::sync::Arc;
use std::time::Duration;

use super::step::WaitRequest;
use crate::base::error::StoreError;
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::store::records::{EnclosedWait, ListedWaits, OuterHold, UpdateWaitReply};
use crate::store::{ClaimVictim, ListHolds, ListWaits, PublishWait, Store, StoreTime, UpdateWait};

/// A time that is this much earlier is too late for any record.
const LONG_AGO: u64 = 3_600_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WaitReply {
    Published(bool),
    Look(ListedWaits),
    Holds(Vec<HoldId>),
    Claimed(bool),
    Withdrawn,
}

/// A time of the store before the requests that are sent next.
pub(super) async fn known(store: &Store, hold: HoldId) -> Result<StoreTime, StoreError> {
    Ok(store.ask(ListWaits { hold }).await?.at)
}

/// Sends requests about waits for this key. The holds are those that the numbers refer to.
pub(super) async fn ask(
    store: &Store,
    key: &LockKey,
    known: StoreTime,
    holds: &[HoldId],
    request: WaitRequest,
) -> Result<WaitReply, StoreError> {
    Ok(match request {
        WaitRequest::Publish {
            wait,
            by,
            life,
            is_late,
        } => {
            let late = if is_late { LONG_AGO } else { 0 };
            let micros = known.micros - late;
            let publication = PublishWait {
                owner: holds[by].owner(),
                wait: Arc::new(wait_for(key, holds[wait], holds[by])),
                life,
                known: Some(StoreTime { micros }),
            };
            let answer = store.ask(UpdateWait::Publish(publication)).await?;
            WaitReply::Published(matches!(answer, UpdateWaitReply::Done(_)))
        }
        WaitRequest::Look { hold } => {
            let hold = holds[hold];
            WaitReply::Look(store.ask(ListWaits { hold }).await?)
        }
        WaitRequest::Holds => {
            let key = key.as_str().into();
            WaitReply::Holds(store.ask(ListHolds { key }).await?)
        }
        WaitRequest::Claim {
            victim,
            others,
            life,
        } => {
            let others = others.into_iter().filter(|other| *other != victim);
            let claim = ClaimVictim {
                victim: holds[victim],
                others: others.map(|other| holds[other]).collect(),
                life,
            };
            WaitReply::Claimed(store.ask(claim).await?)
        }
        WaitRequest::Withdraw { by, wait } => {
            let (owner, wait) = (holds[by].owner(), holds[wait]);
            store.ask(UpdateWait::Withdraw { owner, wait }).await?;
            WaitReply::Withdrawn
        }
    })
}

fn wait_for(key: &LockKey, id: HoldId, hold: HoldId) -> EnclosedWait {
    EnclosedWait {
        id,
        key: key.as_str().into(),
        enclosing: vec![OuterHold {
            hold,
            key: "another".into(),
        }],
    }
}

impl WaitReply {
    /// Removes what depends on the clocks. The age of the newest record is kept, and the records are sorted.
    pub(super) fn take_age(&mut self) -> Option<Duration> {
        let Self::Look(look) = self else {
            return None;
        };
        let zero = StoreTime { micros: 0 };
        let at = std::mem::replace(&mut look.at, zero);
        let stamps = look.waits.iter_mut();
        let stamps = stamps.map(|seen| std::mem::replace(&mut seen.stamp, zero));
        let age = stamps.filter_map(|stamp| at.since(stamp)).min();
        look.waits.sort_by_key(|seen| seen.wait.id);
        age
    }
}

//! Requests of each verb, whose replies are read.

use std::time::Duration;

use redis::Value;

use crate::base::id::{HoldId, InboxId, Owner};
use crate::base::key::LockKey;
use crate::base::options::Mode;
use crate::store::{
    Acquire, AcquireReply, AcquireRequest, ForceRelease, Inspect, Presence, Release, ReleaseKind,
    ReleaseRequest, Renew, RenewReply, SeenHolders, Snapshot, Verb,
};

fn key() -> LockKey {
    LockKey::new("", "key").unwrap_or_else(|error| panic!("{error}"))
}

fn hold() -> HoldId {
    Owner::new().next_hold()
}

fn of_several(count: usize) -> Vec<(LockKey, HoldId)> {
    vec![(key(), hold()); count]
}

fn release() -> ReleaseRequest {
    ReleaseRequest {
        hold: hold(),
        mode: Mode::Exclusive,
        inbox: InboxId::new(),
        end: ReleaseKind::Short,
        with_others: false,
    }
}

/// A request for a lease of `ttl`.
pub(super) fn acquired(reply: &Value, ttl: Duration) -> Option<AcquireReply> {
    let request = AcquireRequest {
        hold: hold(),
        ttl,
        entry: None,
        with_others: false,
    };
    let key = key();
    Acquire { key, request }.decode(reply)
}

pub(super) fn released(reply: &Value) -> Option<Presence> {
    Release::new(key(), release()).decode(reply)
}

pub(super) fn fields(reply: &Value) -> Option<Vec<Vec<u8>>> {
    let seen = SeenHolders {
        fields: Vec::new(),
        token: None,
    };
    let key = key();
    ForceRelease { key, seen }.decode(reply)
}

pub(super) fn snapshot(reply: &Value) -> Option<Option<Snapshot>> {
    Inspect::of(&key()).decode(reply)
}

pub(super) fn renewed(reply: &Value, count: usize) -> Option<Vec<RenewReply>> {
    let (holds, ttl) = (of_several(count), Duration::ZERO);
    Renew { holds, ttl }.decode(reply)
}

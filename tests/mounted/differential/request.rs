//! The random steps of a case, and how its requests are sent.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures_util::future::try_join_all;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::reply::Reply;
use crate::base::error::StoreError;
use crate::base::id::{HoldId, InboxId};
use crate::base::key::LockKey;
use crate::base::options::Mode;
use crate::store::contract::world::{MINUTE, acquire_request, release_each};
use crate::store::redis::codec::{EnclosedWait, OuterHold, UpdateWaitReply};
use crate::store::{
    Acquire, AcquireRequest, AcquireShared, AcquireSharedRequest, ClaimVictim, DepthChange,
    KeyedHold, ListHolds, ListWaits, PublishWait, QueueEntry, Release, ReleaseKind, ReleaseRequest,
    Renew, RenewReaders, Residue, SetDepth, Store, StoreTime, UpdateWait,
};

pub(super) const KEYS: usize = 2;
pub(super) const INBOXES: usize = 3;
/// The first holds want the exclusive lock. The others share it.
const WRITERS: usize = 3;
const HOLDS: usize = 6;

/// A time that is this much earlier is too late for any record.
const LONG_AGO: u64 = 3_600_000_000;

static INBOX: LazyLock<[InboxId; INBOXES]> =
    LazyLock::new(|| [(); INBOXES].map(|()| InboxId::new()));

pub(super) fn key(number: usize) -> LockKey {
    LockKey::new("", &format!("lock:{number}")).expect("a valid key")
}

pub(super) fn hold(number: usize) -> HoldId {
    let text = format!("00000000-0000-4000-8000-00000000000{number}:1");
    text.parse().expect("a hold id")
}

pub(super) fn inbox(number: usize) -> InboxId {
    INBOX[number]
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// The request begins with the key of this number.
    Send(usize, Request),
    /// A repetition of an earlier request: a duplicate, or one that arrives late.
    Resend(Index),
    /// A release by force of what was seen after some earlier step.
    ForceRelease(Index),
    Wait(Duration),
}

#[derive(Clone, Debug)]
pub(super) enum Request {
    Acquire(Acquire),
    Share(AcquireShared),
    Keep(RenewReaders),
    Depth(SetDepth),
    Release(Release),
    AcquireAll(Vec<Acquire>),
    Renew(Renew),
    ReleaseAll(Vec<KeyedHold>),
    /// The time that is known is that before the requests, or long ago.
    Publish(PublishWait, bool),
    Withdraw(UpdateWait),
    Look(ListWaits),
    Holds(ListHolds),
    Claim(ClaimVictim),
}

impl Request {
    /// Sends it to a store that had this time before. Holds that acquire and end together do so in a batch, or not.
    pub(super) async fn send(
        self,
        store: &Store,
        known: StoreTime,
        with_batches: bool,
    ) -> Result<Reply, StoreError> {
        Ok(match self {
            Self::Acquire(verb) => Reply::Acquired(vec![store.ask(verb).await?]),
            Self::Share(verb) => Reply::Acquired(store.ask(verb).await?),
            Self::Keep(verb) => Reply::Holds(store.ask(verb).await?),
            Self::Depth(verb) => Reply::Presence(store.ask(verb).await?),
            Self::Release(Release { key, request, .. }) => {
                Reply::Presence(store.release(&key, request).await?)
            }
            Self::AcquireAll(verbs) => {
                let acquired = verbs.into_iter().map(|mut verb| {
                    verb.request.with_others = with_batches;
                    store.ask(verb)
                });
                Reply::AcquiredAll(try_join_all(acquired).await?)
            }
            Self::Renew(verb) => Reply::Renewed(store.ask(verb).await?),
            Self::ReleaseAll(holds) => {
                Reply::Released(release_each(store, &holds, with_batches).await)
            }
            Self::Publish(mut publication, is_late) => {
                let late = if is_late { LONG_AGO } else { 0 };
                let micros = known.micros - late;
                publication.known = Some(StoreTime { micros });
                let answer = store.ask(UpdateWait::Publish(publication)).await?;
                Reply::Done(matches!(answer, UpdateWaitReply::Done(_)))
            }
            Self::Withdraw(verb) => {
                store.ask(verb).await?;
                Reply::Done(true)
            }
            Self::Look(verb) => Reply::Look(store.ask(verb).await?),
            Self::Holds(verb) => Reply::Holds(store.ask(verb).await?),
            Self::Claim(verb) => Reply::Done(store.ask(verb).await?),
        })
    }
}

pub(super) fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    let send = (0..KEYS).prop_flat_map(|at| any_request(at).prop_map(move |it| Step::Send(at, it)));
    // Three minutes divide every wait, and no life: see the top of `differential`.
    let wait = (1..8u32).prop_map(|count| Step::Wait(3 * count * MINUTE));
    let step = prop_oneof![
        8 => send,
        2 => any::<Index>().prop_map(Step::Resend),
        1 => any::<Index>().prop_map(Step::ForceRelease),
        2 => wait,
    ];
    vec(step, 1..32)
}

pub(super) fn any_request(at: usize) -> impl Strategy<Value = Request> {
    let key = move || key(at);
    let acquire = any_acquire().prop_map(move |request| Acquire {
        key: key(),
        request,
    });
    let share = any_share().prop_map(move |request| AcquireShared {
        key: key(),
        request,
    });
    let keep = (any_readers(), any_span()).prop_map(move |(holds, ttl)| RenewReaders {
        key: key(),
        holds,
        ttl,
    });
    let depth = any_change().prop_map(move |change| SetDepth { key: key(), change });
    let release = any_release().prop_map(move |request| Release::new(key(), request));
    let all = (0..WRITERS, any_span()).prop_map(move |(writer, ttl)| {
        let request = acquire_request(hold(writer), ttl);
        let acquire = |key| Acquire { key, request };
        keys_from(at).into_iter().map(acquire).collect()
    });
    let each = move || vec(any_hold(), KEYS).prop_map(move |holds| zip(at, holds));
    let renew = (each(), 1..=KEYS, any_span()).prop_map(|(mut holds, count, ttl)| {
        holds.truncate(count);
        Renew { holds, ttl }
    });
    prop_oneof![
        4 => acquire.prop_map(Request::Acquire),
        4 => share.prop_map(Request::Share),
        1 => keep.prop_map(Request::Keep),
        1 => depth.prop_map(Request::Depth),
        2 => all.prop_map(Request::AcquireAll),
        2 => renew.prop_map(Request::Renew),
        1 => each().prop_map(Request::ReleaseAll),
        4 => release.prop_map(Request::Release),
        3 => any_wait_request(at),
    ]
}

fn any_wait_request(at: usize) -> impl Strategy<Value = Request> {
    let key: Arc<str> = key(at).as_str().into();
    let holds = ListHolds {
        key: Arc::clone(&key),
    };
    let publish = (
        any_hold(),
        any_hold(),
        any_span(),
        prop::bool::weighted(0.2),
    );
    let publish = publish.prop_map(move |(id, by, life, is_late)| {
        let outer = OuterHold {
            hold: by,
            key: "another".into(),
        };
        let wait = EnclosedWait {
            id,
            key: Arc::clone(&key),
            enclosing: vec![outer],
        };
        let publication = PublishWait {
            owner: by.owner(),
            wait: Arc::new(wait),
            life,
            known: None,
        };
        Request::Publish(publication, is_late)
    });
    let claim = (any_hold(), vec(any_hold(), 2), any_span());
    let claim = claim.prop_map(|(victim, mut others, life)| {
        others.retain(|other| *other != victim);
        ClaimVictim {
            victim,
            others,
            life,
        }
    });
    let withdraw = (any_hold(), any_hold()).prop_map(|(by, wait)| UpdateWait::Withdraw {
        owner: by.owner(),
        wait,
    });
    prop_oneof![
        3 => publish,
        3 => any_hold().prop_map(|hold| Request::Look(ListWaits { hold })),
        1 => Just(Request::Holds(holds)),
        1 => claim.prop_map(Request::Claim),
        1 => withdraw.prop_map(Request::Withdraw),
    ]
}

fn any_acquire() -> impl Strategy<Value = AcquireRequest> {
    let entry = prop::option::weighted(0.7, any_entry());
    (0..WRITERS, any_span(), entry).prop_map(|(writer, ttl, entry)| AcquireRequest {
        entry: entry.map(|entry| within(entry, ttl)),
        ..acquire_request(hold(writer), ttl)
    })
}

fn any_share() -> impl Strategy<Value = AcquireSharedRequest> {
    let limit = prop::option::weighted(0.3, 1..4u32);
    let entry = prop::option::weighted(0.8, any_entry());
    (any_readers(), any_span(), limit, entry).prop_map(|(mut holds, ttl, limit, entry)| {
        holds.truncate(limit.map_or(holds.len(), |_| 1));
        AcquireSharedRequest {
            holds,
            ttl,
            limit,
            entry: entry.map(|entry| within(entry, ttl)),
        }
    })
}

fn any_change() -> impl Strategy<Value = DepthChange> {
    let change = (0..HOLDS, 1..5u32, 1..13u64, any_span(), any::<bool>());
    change.prop_map(|(number, target, seq, ttl, lengthen)| DepthChange {
        hold: hold(number),
        mode: mode_of(number),
        target,
        seq,
        ttl,
        lengthen,
    })
}

fn any_release() -> impl Strategy<Value = ReleaseRequest> {
    let residue = any::<[bool; 2]>();
    let residue = residue.prop_map(|[unanswered, nested]| Residue { unanswered, nested });
    let end = prop::option::of(residue);
    (0..HOLDS, 0..INBOXES, end).prop_map(|(number, at, end)| ReleaseRequest {
        hold: hold(number),
        mode: mode_of(number),
        inbox: inbox(at),
        end: end.map_or(ReleaseKind::Short, ReleaseKind::Full),
        with_others: false,
    })
}

/// The release of a hold. If it may share its lock by now, it is released as a reader.
fn mode_of(hold: usize) -> Mode {
    match hold {
        1..WRITERS => Mode::Exclusive,
        _ => Mode::Shared,
    }
}

fn any_entry() -> impl Strategy<Value = QueueEntry> {
    (0..INBOXES, any_span(), any_span()).prop_map(|(at, grant, life)| QueueEntry {
        inbox: inbox(at),
        grant,
        life,
    })
}

/// A lock that moves has no longer lease than one that is acquired.
fn within(entry: QueueEntry, ttl: Duration) -> QueueEntry {
    let grant = entry.grant.min(ttl);
    QueueEntry { grant, ..entry }
}

fn any_hold() -> impl Strategy<Value = HoldId> {
    (0..HOLDS).prop_map(hold)
}

/// Up to three readers, from one of them on.
fn any_readers() -> impl Strategy<Value = Vec<HoldId>> {
    (WRITERS..HOLDS, 1..4usize).prop_map(|(first, count)| {
        let last = HOLDS.min(first + count);
        (first..last).map(hold).collect()
    })
}

fn any_span() -> impl Strategy<Value = Duration> {
    select(vec![1u32, 2, 4, 25, 50]).prop_map(|count| count * MINUTE)
}

/// All keys, from this one on.
fn keys_from(at: usize) -> Vec<LockKey> {
    (0..KEYS).map(|more| key((at + more) % KEYS)).collect()
}

fn zip(at: usize, holds: Vec<HoldId>) -> Vec<KeyedHold> {
    keys_from(at).into_iter().zip(holds).collect()
}

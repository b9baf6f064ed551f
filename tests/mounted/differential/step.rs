//! The random steps of a case.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;

use crate::base::options::Mode;
use crate::store::Residue;
use crate::store::contract::world::{MINUTE, NESTED};

/// The number of each of them. A request refers to one by its number.
pub(super) const KEYS: usize = 2;
pub(super) const HOLDS: usize = 6;
/// The first of the holds want the exclusive lock. The others share it.
const WRITERS: usize = 3;
pub(super) const INBOXES: usize = 3;

#[derive(Clone, Debug)]
pub(super) enum Step {
    Send {
        key: usize,
        request: Request,
    },
    /// A repetition of an earlier request: a duplicate, or one that arrives late.
    Resend(Index),
    /// A release by force of what was seen after some earlier step.
    ForceRelease(Index),
    Wait(Duration),
}

/// Holds and inboxes are given by their numbers, so that the output of a failure can be read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Request {
    Acquire {
        wish: Wish,
        waits: Option<Entry>,
    },
    Share {
        holds: usize,
        wish: Wish,
        limit: Option<u32>,
        waits: Option<Entry>,
    },
    Keep {
        holds: usize,
        wish: Wish,
    },
    Depth {
        hold: usize,
        mode: Mode,
        target: u32,
        seq: u64,
        ttl: Duration,
        lengthen: bool,
    },
    Release {
        hold: usize,
        mode: Mode,
        inbox: usize,
        /// `None` for a short end.
        leftovers: Option<Residue>,
    },
    /// Requests for several keys begin with the key of the step.
    AcquireAll {
        wish: Wish,
    },
    /// The number of the keys.
    Renew {
        holds: [usize; KEYS],
        count: usize,
        ttl: Duration,
    },
    ReleaseAll {
        holds: [usize; KEYS],
    },
    Wait(WaitRequest),
}

/// The requests about published waits. A wait has the id of a hold.
#[derive(Clone, Copy, Debug)]
pub(super) enum WaitRequest {
    /// With the owner of the hold `by`.
    Publish {
        wait: usize,
        by: usize,
        life: Duration,
        is_late: bool,
    },
    Look {
        hold: usize,
    },
    Holds,
    Claim {
        victim: usize,
        others: [usize; 2],
        life: Duration,
    },
    Withdraw {
        by: usize,
        wait: usize,
    },
}

/// The wish of a hold that requests a lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) hold: usize,
    pub(super) ttl: Duration,
}

/// A place in the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) inbox: usize,
    pub(super) grant: Duration,
    pub(super) life: Duration,
}

impl Request {
    pub(super) fn of_each_kind() -> [Self; 15] {
        let (hold, inbox, ttl, mode) = (0, 0, MINUTE, Mode::Shared);
        let waits = None;
        let wish = Wish { hold, ttl };
        let depth = Self::Depth {
            hold,
            mode,
            target: 2,
            seq: 1,
            ttl,
            lengthen: true,
        };
        let release = |mode| Self::Release {
            hold,
            mode,
            inbox,
            leftovers: Some(NESTED),
        };
        let (life, by, is_late) = (ttl, 0, true);
        let publish = WaitRequest::Publish {
            wait: 0,
            by,
            life,
            is_late,
        };
        let claim = WaitRequest::Claim {
            victim: 0,
            others: [0, 1],
            life,
        };
        let withdraw = WaitRequest::Withdraw { by, wait: 0 };
        let [publish, claim, withdraw] = [publish, claim, withdraw].map(Self::Wait);
        let [look, look_in] = [WaitRequest::Look { hold }, WaitRequest::Holds].map(Self::Wait);
        let share = Self::Share {
            holds: 1,
            wish,
            limit: None,
            waits,
        };
        let holds = [hold; KEYS];
        let renew = |count| Self::Renew { holds, count, ttl };
        [
            Self::Acquire { wish, waits },
            depth,
            renew(1),
            release(Mode::Exclusive),
            share,
            Self::Keep { holds: 1, wish },
            release(Mode::Shared),
            Self::AcquireAll { wish },
            renew(KEYS),
            Self::ReleaseAll { holds },
            publish,
            claim,
            withdraw,
            look,
            look_in,
        ]
    }
}

pub(super) fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(any_step(), 1..32)
}

fn any_step() -> impl Strategy<Value = Step> {
    let send = (0..KEYS, any_request()).prop_map(|(key, request)| Step::Send { key, request });
    // Three minutes divide every wait, and no life: see the top of `differential`.
    let wait = (1..8u32).prop_map(|count| Step::Wait(3 * count * MINUTE));
    prop_oneof![
        8 => send,
        2 => any::<Index>().prop_map(Step::Resend),
        1 => any::<Index>().prop_map(Step::ForceRelease),
        2 => wait,
    ]
}

fn any_request() -> impl Strategy<Value = Request> {
    let change = (1..5u32, 1..13u64, any_span(), any::<bool>());
    let leftovers =
        any::<[bool; 2]>().prop_map(|[unanswered, nested]| Residue { unanswered, nested });
    let leftovers = prop::option::of(leftovers);
    let release = (0..HOLDS, 0..INBOXES, leftovers);
    let holds = || [0..HOLDS, 0..HOLDS];
    prop_oneof![
        4 => any_acquire(),
        4 => any_share(),
        1 => (1..4usize, any_readers()).prop_map(|(holds, wish)| Request::Keep { holds, wish }),
        1 => (0..HOLDS, change).prop_map(|(hold, (target, seq, ttl, lengthen))| Request::Depth {
            hold,
            mode: mode_of(hold),
            target,
            seq,
            ttl,
            lengthen,
        }),
        2 => any_wish().prop_map(|wish| Request::AcquireAll { wish }),
        2 => (holds(), 1..=KEYS, any_span())
            .prop_map(|(holds, count, ttl)| Request::Renew { holds, count, ttl }),
        1 => holds().prop_map(|holds| Request::ReleaseAll { holds }),
        4 => release.prop_map(|(hold, inbox, leftovers)| {
            let mode = mode_of(hold);
            Request::Release {
                hold,
                mode,
                inbox,
                leftovers,
            }
        }),
        3 => any_wait_request().prop_map(Request::Wait),
    ]
}

fn any_wait_request() -> impl Strategy<Value = WaitRequest> {
    let publish = (0..HOLDS, 0..HOLDS, any_span(), prop::bool::weighted(0.2));
    prop_oneof![
        3 => publish.prop_map(|(wait, by, life, is_late)| WaitRequest::Publish {
            wait,
            by,
            life,
            is_late,
        }),
        3 => (0..HOLDS).prop_map(|hold| WaitRequest::Look { hold }),
        1 => Just(WaitRequest::Holds),
        1 => (0..HOLDS, [0..HOLDS, 0..HOLDS], any_span()).prop_map(|(victim, others, life)| {
            WaitRequest::Claim {
                victim,
                others,
                life,
            }
        }),
        1 => (0..HOLDS, 0..HOLDS).prop_map(|(by, wait)| WaitRequest::Withdraw { by, wait }),
    ]
}

fn any_acquire() -> impl Strategy<Value = Request> {
    let entry = (0..INBOXES, any_span(), any_span());
    (any_wish(), prop::option::weighted(0.7, entry)).prop_map(|(wish, entry)| {
        let waits = entry.map(|(inbox, grant, life)| Entry {
            inbox,
            grant: grant.min(wish.ttl),
            life,
        });
        Request::Acquire { wish, waits }
    })
}

fn any_share() -> impl Strategy<Value = Request> {
    let entry = (0..INBOXES, any_span(), any_span());
    let limit = prop::option::weighted(0.3, 1..4u32);
    let waits = prop::option::weighted(0.8, entry);
    (any_readers(), 1..4usize, limit, waits).prop_map(|(wish, holds, limit, entry)| {
        let waits = entry.map(|(inbox, grant, life)| Entry {
            inbox,
            grant: grant.min(wish.ttl),
            life,
        });
        Request::Share {
            holds: if limit.is_some() { 1 } else { holds },
            wish,
            limit,
            waits,
        }
    })
}

/// The release of a hold. If it may share its lock by now, it is released as a reader.
fn mode_of(hold: usize) -> Mode {
    match hold {
        1..WRITERS => Mode::Exclusive,
        _ => Mode::Shared,
    }
}

fn any_wish() -> impl Strategy<Value = Wish> {
    (0..WRITERS, any_span()).prop_map(|(hold, ttl)| Wish { hold, ttl })
}

fn any_readers() -> impl Strategy<Value = Wish> {
    (WRITERS..HOLDS, any_span()).prop_map(|(hold, ttl)| Wish { hold, ttl })
}

fn any_span() -> impl Strategy<Value = Duration> {
    prop::sample::select(vec![1u32, 2, 4, 25, 50]).prop_map(|count| count * MINUTE)
}

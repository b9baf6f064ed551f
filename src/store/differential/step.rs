//! What a case is made of: random steps, and replies in the parts that can be compared.

use std::time::Duration;

use proptest::{prelude::*, sample::Index};

use crate::{
    error::StoreError,
    id::{FencingToken, HoldId},
    key::LockKey,
    store::{
        Acquired, DepthChange, Ending, Presence, Renewal, Snapshot, Store,
        contract::world::{MINUTE, claim, ending, some_hold},
    },
};

const KEYS: usize = 2;
const HOLDS: usize = 3;

#[derive(Clone, Debug)]
pub(super) enum Step {
    Send {
        key: usize,
        request: Request,
    },
    /// An earlier request once more: a duplicate, or one that arrives late.
    Resend(Index),
    /// Of what was seen after some earlier step.
    ForceRelease(Index),
    Wait(Duration),
}

/// Holds are given by their number, so that what a failure prints can be read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Request {
    Acquire {
        hold: usize,
        ttl: Duration,
    },
    Depth {
        hold: usize,
        target: u32,
        seq: u64,
        ttl: Duration,
        lengthen: bool,
    },
    Renew {
        hold: usize,
        ttl: Duration,
    },
    Release {
        hold: usize,
        tombstone: bool,
    },
}

impl Request {
    pub(super) fn of_each_kind() -> [Self; 4] {
        let (hold, ttl, tombstone) = (0, MINUTE, false);
        let depth = Self::Depth {
            hold,
            target: 2,
            seq: 1,
            ttl,
            lengthen: true,
        };
        let acquire = Self::Acquire { hold, ttl };
        let renew = Self::Renew { hold, ttl };
        [acquire, depth, renew, Self::Release { hold, tombstone }]
    }
}

pub(super) fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(any_step(), 1..32)
}

fn any_step() -> impl Strategy<Value = Step> {
    let send = (0..KEYS, any_request()).prop_map(|(key, request)| Step::Send { key, request });
    // Three minutes divide every wait, and no span of life: see the head of `differential`.
    let wait = (1..8u32).prop_map(|count| Step::Wait(3 * count * MINUTE));
    prop_oneof![
        8 => send,
        2 => any::<Index>().prop_map(Step::Resend),
        1 => any::<Index>().prop_map(Step::ForceRelease),
        2 => wait,
    ]
}

fn any_request() -> impl Strategy<Value = Request> {
    let hold = || 0..HOLDS;
    let ttl = || prop::sample::select(vec![1u32, 2, 4, 25, 50]).prop_map(|ttl| ttl * MINUTE);
    prop_oneof![
        3 => (hold(), ttl()).prop_map(|(hold, ttl)| Request::Acquire { hold, ttl }),
        3 => (hold(), 1..5u32, 1..13u64, ttl(), any::<bool>()).prop_map(
            |(hold, target, seq, ttl, lengthen)| Request::Depth { hold, target, seq, ttl, lengthen }
        ),
        2 => (hold(), ttl()).prop_map(|(hold, ttl)| Request::Renew { hold, ttl }),
        2 => (hold(), any::<bool>())
            .prop_map(|(hold, tombstone)| Request::Release { hold, tombstone }),
    ]
}

/// What the numbers in the requests stand for; new in each case.
pub(super) struct Names {
    keys: Vec<LockKey>,
    holds: Vec<HoldId>,
}

impl Names {
    pub(super) fn new() -> Self {
        let key = |n: usize| LockKey::new("", &format!("lock:{n}")).expect("a valid key");
        Self {
            keys: (0..KEYS).map(key).collect(),
            holds: (0..HOLDS).map(|_| some_hold()).collect(),
        }
    }

    pub(super) fn key(&self, key: usize) -> &LockKey {
        &self.keys[key]
    }

    pub(super) async fn send(
        &self,
        store: &dyn Store,
        key: usize,
        request: Request,
    ) -> Result<Reply, StoreError> {
        let key = self.key(key);
        match request {
            Request::Acquire { hold, ttl } => {
                let hold = self.holds[hold];
                let acquired = store.acquire(key, claim(hold, ttl)).await;
                acquired.map(Reply::Acquired)
            }
            Request::Depth {
                hold,
                target,
                seq,
                ttl,
                lengthen,
            } => {
                let change = DepthChange {
                    hold: self.holds[hold],
                    target,
                    seq,
                    ttl,
                    lengthen,
                };
                store.depth(key, change).await.map(Reply::Presence)
            }
            Request::Renew { hold, ttl } => {
                let renewal = Renewal {
                    hold: self.holds[hold],
                    ttl,
                    keep_meta: true,
                    patience: MINUTE,
                };
                let renewed = store.renew(key, renewal).await;
                renewed.map(Reply::Presence)
            }
            Request::Release { hold, tombstone } => {
                let hold = self.holds[hold];
                let ending = Ending {
                    tombstone,
                    ..ending(hold)
                };
                let released = store.release(key, ending).await;
                released.map(|released| Reply::Presence(released.presence))
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Acquired(Acquired),
    Presence(Presence),
    Snapshot(Option<Snapshot>),
    Forced(bool),
}

/// A reply, taken apart: what the clocks have no part in, a span of time, and a token.
pub(super) struct Parts {
    pub(super) plain: Reply,
    pub(super) span: Option<Duration>,
    pub(super) token: Option<FencingToken>,
}

impl Reply {
    pub(super) fn parts(mut self) -> Parts {
        let (span, token) = match &mut self {
            Self::Acquired(Acquired::Held { tokens, lease }) => {
                let token = std::mem::replace(&mut tokens.first, FencingToken(0));
                (Some(std::mem::take(lease)), Some(token))
            }
            Self::Acquired(Acquired::Busy { remaining, now }) => {
                now.micros = 0;
                (remaining.take(), None)
            }
            Self::Snapshot(Some(snapshot)) => (snapshot.remaining.take(), snapshot.token.take()),
            _ => (None, None),
        };
        Parts {
            plain: self,
            span,
            token,
        }
    }
}

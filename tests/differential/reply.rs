//! Replies and messages, in the parts that can be compared.

use std::time::Duration;

use crate::{
    base::id::FencingToken,
    store::{AcquireReply, HandoffMessage, Presence, ReleaseReply, Snapshot, StoreTime, Tokens},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Acquired(AcquireReply),
    Presence(Presence),
    Released(ReleaseReply),
    Snapshot(Option<Snapshot>),
    Forced(bool),
    /// What was sent to an inbox, by the number of that inbox.
    Message(usize, HandoffMessage),
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
            Self::Acquired(acquired)
            | Self::Released(ReleaseReply {
                successor: Some(acquired),
                ..
            }) => take_acquired(acquired),
            Self::Snapshot(Some(snapshot)) => (snapshot.remaining.take(), snapshot.token.take()),
            Self::Message(_, message) => {
                message.at = StoreTime { micros: 0 };
                (None, Some(take_last(&mut message.tokens)))
            }
            _ => (None, None),
        };
        Parts {
            plain: self,
            span,
            token,
        }
    }
}

fn take_acquired(acquired: &mut AcquireReply) -> (Option<Duration>, Option<FencingToken>) {
    match acquired {
        AcquireReply::Held { tokens, lease } => {
            let token = take_last(tokens);
            (Some(std::mem::take(lease)), Some(token))
        }
        AcquireReply::Busy { remaining, now } => {
            now.micros = 0;
            (remaining.take(), None)
        }
        AcquireReply::Ended => (None, None),
    }
}

/// How many tokens there are depends on the clock; the last one is the one that the lock shows.
fn take_last(tokens: &mut Tokens) -> FencingToken {
    let Tokens { first, count } = *tokens;
    *tokens = Tokens {
        first: FencingToken(0),
        count: 1,
    };
    FencingToken(first.0 + u64::from(count) - 1)
}

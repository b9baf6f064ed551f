//! The parts of replies and messages that can be compared.

use std::time::Duration;

use super::waits::WaitReply;
use crate::base::id::FencingToken;
use crate::store::{AcquireReply, HandoffMessage, Presence, RenewReply, Snapshot, StoreTime};

/// The text in place of a part that was removed.
const NO_TOKEN: FencingToken = FencingToken(0);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Acquired(AcquireReply),
    Shared(Vec<AcquireReply>),
    /// The numbers of the holds.
    Gone(Vec<usize>),
    Presence(Presence),
    AcquiredAll(Vec<AcquireReply>),
    Renewed(Vec<RenewReply>),
    ReleasedAll(Vec<bool>),
    Snapshot(Option<Snapshot>),
    /// The number of holds.
    Forced(usize),
    Wait(WaitReply),
    /// The message to an inbox, by the number of that inbox.
    Message(usize, HandoffMessage),
}

/// A reply in parts: the part that does not depend on the clocks, a duration, and a token.
pub(super) struct Parts {
    pub(super) plain: Reply,
    pub(super) span: Option<Duration>,
    pub(super) token: Option<FencingToken>,
}

impl Reply {
    pub(super) fn parts(mut self) -> Parts {
        let (span, token) = match &mut self {
            Self::Acquired(acquired) => take_acquired(acquired),
            // The lock of the first key is inspected right after.
            Self::AcquiredAll(replies) => {
                let spans = replies
                    .iter_mut()
                    .filter_map(|reply| take_acquired(reply).0);
                (spans.max(), None)
            }
            Self::Shared(replies) => {
                // The replies to readers that wait contain how long the lock is held. All readers inside have one
                // token.
                let parts: Vec<_> = replies.iter_mut().map(take_acquired).collect();
                let span = parts.iter().filter_map(|(span, _)| *span).max();
                (span, parts.into_iter().find_map(|(_, token)| token))
            }
            Self::Snapshot(Some(snapshot)) => {
                for holder in &mut snapshot.holders {
                    // Rounded to the minute, as all durations are.
                    let left = holder.remaining.map(|left| left.as_secs().div_ceil(60));
                    holder.remaining = left.map(Duration::from_secs);
                }
                snapshot.at.micros = 0;
                (snapshot.remaining.take(), snapshot.token.take())
            }
            Self::Message(_, message) => {
                message.at = StoreTime { micros: 0 };
                (None, Some(std::mem::replace(&mut message.token, NO_TOKEN)))
            }
            Self::Wait(reply) => (reply.take_age(), None),
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
        AcquireReply::Held {
            token,
            lease,
            at,
            is_contended,
        } => {
            // The general way of a script is also taken if no microsecond has passed.
            *is_contended = false;
            at.micros = 0;
            let token = std::mem::replace(token, NO_TOKEN);
            (Some(std::mem::take(lease)), Some(token))
        }
        AcquireReply::Busy { remaining, now } => {
            now.micros = 0;
            (remaining.take(), None)
        }
        AcquireReply::Ended => (None, None),
    }
}

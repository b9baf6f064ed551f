//! The parts of replies and messages that can be compared.

use std::time::Duration;

use crate::base::id::{FencingToken, HoldId};
use crate::store::redis::codec::ListedWaits;
use crate::store::{AcquireReply, HandoffMessage, Presence, RenewReply, Snapshot, StoreTime};

/// The text in place of a part that was removed.
const NO_TOKEN: FencingToken = FencingToken(0);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// For each hold of one lock.
    Acquired(Vec<AcquireReply>),
    /// For each lock of one hold.
    AcquiredAll(Vec<AcquireReply>),
    Holds(Vec<HoldId>),
    Presence(Presence),
    Renewed(Vec<RenewReply>),
    Released(Vec<bool>),
    Done(bool),
    Look(ListedWaits),
    Snapshot(Option<Snapshot>),
    /// The number of holds.
    Forced(usize),
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
            // The lock of the first key is inspected right after.
            Self::AcquiredAll(replies) => {
                let spans = replies
                    .iter_mut()
                    .filter_map(|reply| take_acquired(reply).0);
                (spans.max(), None)
            }
            Self::Acquired(replies) => {
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
            Self::Look(look) => (take_age(look), None),
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

/// Removes what depends on the clocks. The age of the newest record is kept, and the records are sorted.
fn take_age(look: &mut ListedWaits) -> Option<Duration> {
    let zero = StoreTime { micros: 0 };
    let at = std::mem::replace(&mut look.at, zero);
    let stamps = look.waits.iter_mut();
    let stamps = stamps.map(|seen| std::mem::replace(&mut seen.stamp, zero));
    let age = stamps.filter_map(|stamp| at.since(stamp)).min();
    look.waits.sort_by_key(|seen| seen.wait.id);
    age
}
